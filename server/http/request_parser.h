// Requests of HTTP/1.1 out of bytes.
#ifndef MEMORYD_SERVER_HTTP_REQUEST_PARSER_H_
#define MEMORYD_SERVER_HTTP_REQUEST_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/wire/rpc_call.h"

namespace memoryd {

// The head of a request, as far as the server looks at it.
struct ConnectRequest {
  std::string method;
  std::string target;
  bool is_http_1_0 = false;
  bool keeps_alive = false;
  CallMetadata metadata;
  // The last of each, but for `hosts`, which counts them.
  std::string host;
  int hosts = 0;
  std::string origin;
  std::string sec_fetch_site;
  std::string content_type;
  std::string content_encoding;
  std::string accept;
  std::string accept_encoding;
  std::string if_none_match;
  std::string connect_content_encoding;
  std::string connect_accept_encoding;
  std::string connect_timeout_ms;
  std::string connect_protocol_version;
  bool expects_continue = false;
  std::optional<std::uint64_t> content_length;  // Of a body that is not in chunks.
  // All of the head, names in lower case, where the parser keeps them.
  std::vector<std::pair<std::string, std::string>> fields;
};

// Reads one request. Keeps nothing of what it is given.
class RequestParser {
 public:
  enum class State : std::uint8_t {
    kNeedsMore,
    kHead,       // request() is complete; Put() goes on with the body.
    kDone,       // The request has ended.
    kTooLarge,   // Of the head.
    kMalformed,  // Ends the connection, as kTooLarge does: nobody knows where the next one begins.
  };

  // `body` takes the body, piece by piece.
  RequestParser(std::function<void(std::string_view)> body, bool keeps_fields);
  ~RequestParser();

  // `taken` bytes are done with; the others are to be given again, with those that follow.
  State Put(std::string_view bytes, std::size_t& taken);

  ConnectRequest& request();
  // Whether nothing more comes of the body.
  bool request_ended() const;

 private:
  class Parser;
  const std::unique_ptr<Parser> parser_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP_REQUEST_PARSER_H_
