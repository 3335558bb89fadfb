// Messages and errors as the Connect protocol writes them.
#ifndef MEMORYD_SERVER_HTTP_CONNECT_CODEC_H_
#define MEMORYD_SERVER_HTTP_CONNECT_CODEC_H_

#include <google/protobuf/descriptor.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/wire/rpc_call.h"
#include "server/wire/rpc_status.h"

namespace memoryd {

// The most bytes that JsonToBytes() takes beside `json`, whatever message that is of.
std::int64_t MostMemoryOf(std::string_view json);

// JSON of a message -> its bytes, which no message is built for: what that would take in memory is
// known of the bytes. INVALID_ARGUMENT `MALFORMED_JSON`, which names the field where that is known.
absl::StatusOr<std::string> JsonToBytes(std::string_view json,
                                        const google::protobuf::Descriptor& type);

// INTERNAL for bytes that are no such message.
absl::StatusOr<std::string> BytesToJson(std::string_view bytes,
                                        const google::protobuf::Descriptor& type);

// {"code": …, "message": …, "details": …} of an error.
std::string ErrorJson(const RpcStatus& status);

// The end of a stream: {"error": …, "metadata": {name: [value, …]}}, without what there is none of.
std::string EndJson(const RpcStatus& status,
                    const std::vector<std::pair<std::string, std::string>>& trailers);

// The status of HTTP of a unary call that ended with this code of gRPC.
int HttpStatusOf(int code);

// `Connect-Timeout-Ms` -> a time from now on; max() of an empty text. INVALID_ARGUMENT.
absl::StatusOr<RpcCall::TimePoint> ParseConnectTimeout(std::string_view text);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP_CONNECT_CODEC_H_
