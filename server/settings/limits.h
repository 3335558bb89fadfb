// What the server takes and gives at the most. GetServerInfo tells clients.
#ifndef MEMORYD_SERVER_SETTINGS_LIMITS_H_
#define MEMORYD_SERVER_SETTINGS_LIMITS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace memoryd {

// What `max_request_mib` may say: at least what clients send without asking, and no more than
// leaves a reply of kMaxReplyBytes, and the calls that may wait for the store, room for a message.
inline constexpr std::int64_t kLeastRequestMib = 4;
inline constexpr std::int64_t kMostRequestMib = 60;
// What it says by itself: providers of models take documents of 32 MB.
inline constexpr std::int64_t kUsualRequestMib = 36;
// What `max_item_mib` says by itself.
inline constexpr std::int64_t kUsualItemMib = 32;
// Room in a request for all but an item's value: path, key, vector and configuration.
inline constexpr std::int64_t kRequestMibBesideItem = 1;
inline constexpr std::int32_t kDefaultPageSize = 100;
inline constexpr std::int32_t kMaxPageSize = 1000;
// A call ends by then, however far away the caller's deadline is.
inline constexpr std::chrono::seconds kMaxDeadline(30);
// What a call may bring along besides its request, by HTTP/2's count: 32 bytes an entry more than
// its name and value, a token of kMaxTokenBytes apart.
inline constexpr std::size_t kMaxMetadataBytes = 8 << 10;
inline constexpr std::size_t kMaxMetadataEntries = 64;
// An identity provider may name all groups of a user in it, at 40 bytes each.
inline constexpr std::size_t kMaxTokenBytes = 16 << 10;
inline constexpr std::string_view kTokenScheme = "bearer ";
// What clients are told that the headers of a call may have in all. More than may come, so that it
// is the server that says what is too large, and not a client's library in words of its own.
inline constexpr std::size_t kToldHeaderBytes = 64 << 10;
static_assert(kToldHeaderBytes > kMaxMetadataBytes + kMaxTokenBytes);
// How often the server asks whether a connection with a call on it still stands; a client may ask
// as often, and somewhat more.
inline constexpr std::chrono::seconds kKeepalive(30);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_SETTINGS_LIMITS_H_
