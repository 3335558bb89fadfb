// What the server takes and gives at the most. GetServerInfo tells clients.
#ifndef MEMORYD_SERVER_LIMITS_H_
#define MEMORYD_SERVER_LIMITS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace memoryd {

// A request's messages, contents and other fields, encoded.
inline constexpr int kMaxRequestBytes = 4 << 20;
inline constexpr std::int32_t kDefaultPageSize = 100;
inline constexpr std::int32_t kMaxPageSize = 1000;
// A call ends by then, however far away the caller's deadline is.
inline constexpr std::chrono::seconds kMaxDeadline(30);
// What a call may bring along besides its request, by HTTP/2's count: 32 bytes an entry more than
// its name and value, the token apart where there is authentication.
inline constexpr std::size_t kMaxMetadataBytes = 8 << 10;
inline constexpr std::size_t kMaxMetadataEntries = 64;
// How often the server asks whether a connection with a call on it still stands; a client may ask
// as often, and somewhat more.
inline constexpr std::chrono::seconds kKeepalive(30);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_LIMITS_H_
