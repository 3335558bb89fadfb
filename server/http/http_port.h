// What a port of HTTP answers, and to whom.
#ifndef MEMORYD_SERVER_HTTP_HTTP_PORT_H_
#define MEMORYD_SERVER_HTTP_HTTP_PORT_H_

#include <functional>
#include <optional>
#include <string>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "server/http/connect_call.h"
#include "server/http/http_reply.h"
#include "server/http/request_parser.h"
#include "server/wire/rpc_call.h"

namespace memoryd {

// What all connections of a port share.
struct HttpPort {
  // By path. All else is unknown.
  absl::flat_hash_map<std::string, ConnectMethod> methods;
  std::function<bool()> is_ready;
  // Whether only requests to this machine by name are answered: without credentials a page of
  // another site would else reach the port by a name of its own (DNS rebinding).
  bool only_loopback_hosts = true;
  bool with_tls = false;
  // Whether ConnectRequest::fields is filled.
  bool keeps_fields = false;
  // Other sites whose pages may call.
  absl::flat_hash_set<std::string> allowed_origins;
};

// A call as the head of its request has it.
struct ConnectHead {
  const ConnectMethod* method = nullptr;
  ConnectFormat format;
  RpcCall::TimePoint deadline;
  // The message of a GET, which stands in the URL.
  std::optional<std::string> message;
};

// The call that a request begins, or the answer to one that begins none.
std::variant<ConnectHead, HttpReply> Route(const HttpPort& port, const ConnectRequest& request);

// An error that ends a request before there is a call.
HttpReply Refusal(int http_status, const absl::Status& why);
absl::Status MalformedHttp(std::string_view message);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP_HTTP_PORT_H_
