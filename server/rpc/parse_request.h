// Parses requests, after taking the memory that they need then.
#ifndef MEMORYD_SERVER_RPC_PARSE_REQUEST_H_
#define MEMORYD_SERVER_RPC_PARSE_REQUEST_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "server/wire/rpc_call.h"

namespace memoryd {

// What a request may take in memory beyond its texts. Two bytes of a request become up to 250, so
// that this is reached long before the largest request; one within the limits of every field takes
// a tenth of it.
inline constexpr std::int64_t kMaxParsedOverhead = 32 << 20;

// The most that `bytes` take in memory once they are parsed as a message of this type, texts
// included. INVALID_ARGUMENT that names a field with far too many entries. Of bytes that can't be
// parsed: of the part before the fault.
absl::StatusOr<std::int64_t> ParsedBytes(std::string_view bytes,
                                         const google::protobuf::Descriptor& type);

// INVALID_ARGUMENT that names the field where that is known.
absl::Status Parse(std::string_view bytes, google::protobuf::Message& message);

// Parses a request of `rpc`. The hold is of the parsed message and goes with it; none for a call
// that is not charged to a tenant. RESOURCE_EXHAUSTED `MEMORY_SHORT`, or as the two above.
absl::StatusOr<MemoryBudget::Hold> ParseRequest(RpcCall& rpc, std::string_view bytes,
                                                google::protobuf::Message& request);

// Keeps protobuf's complaints about bad input out of standard error, and learns from them which
// field was bad. Call once, before the first request.
void CaptureProtobufLog();

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_PARSE_REQUEST_H_
