// What gRPC says in headers and trailers, as text (its PROTOCOL-HTTP2).
#ifndef MEMORYD_SERVER_HTTP2_GRPC_HEADERS_H_
#define MEMORYD_SERVER_HTTP2_GRPC_HEADERS_H_

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/wire/rpc_status.h"

namespace memoryd {

// Of `grpc-timeout`: `8S` is 8 seconds. More than a year of hours or minutes is a year; nullopt for
// what is none.
std::optional<std::chrono::nanoseconds> ParseGrpcTimeout(std::string_view text);

// As `grpc-message` is written: what is not printable ASCII, and the percent sign, as %XX.
std::string PercentEncoded(std::string_view text);

// The trailers of a call that has failed, with the caller's request id if he gave one.
std::vector<std::pair<std::string, std::string>> ErrorTrailers(const RpcStatus& status,
                                                               std::string request_id);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP2_GRPC_HEADERS_H_
