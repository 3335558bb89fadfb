// What calls over HTTP/2 and HTTP/1.1 have in common about their messages.
#ifndef MEMORYD_SERVER_HTTP2_CALL_MESSAGES_H_
#define MEMORYD_SERVER_HTTP2_CALL_MESSAGES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "core/base/memory_budget.h"
#include "server/http2/http2_times.h"

namespace memoryd {

// What a call takes by estimate, in bytes, before anything of its body.
inline constexpr std::int64_t kCallBytes = 2048;
// A handler parses more than this on another thread, so that other connections go on meanwhile: of
// tiny parts, 32 KiB can take longer than most calls.
inline constexpr std::size_t kLargeMessage = 4 << 10;
// For a call that counts for no tenant: health and reflection.
inline constexpr std::size_t kMostUncharged = 16 << 10;

// Before each message of gRPC, and of a stream of Connect: a byte of flags, and the size in 4
// bytes, the highest first.
inline constexpr std::size_t kPrefixBytes = 5;
std::array<char, kPrefixBytes> PrefixOf(std::size_t size, unsigned char flags = 0);
// `prefix` has at least kPrefixBytes.
std::uint32_t MessageSize(std::string_view prefix);

// Has `hold` count a reply of `size` bytes for `tenant`, whatever it counted before.
void CountReply(MemoryBudget& budget, std::string_view tenant, std::size_t size,
                MemoryBudget::Hold& hold);

// DEADLINE_EXCEEDED `REQUEST_STALLED`. `idle`: nothing came at all.
absl::Status RequestStalled(const Http2Times& times, bool idle);
// RESOURCE_EXHAUSTED `SERVER_BUSY`.
absl::Status LargeRequestsWait();

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP2_CALL_MESSAGES_H_
