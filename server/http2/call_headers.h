// Headers of a request -> CallMetadata, the same by HTTP/2 and HTTP/1.1.
#ifndef MEMORYD_SERVER_HTTP2_CALL_HEADERS_H_
#define MEMORYD_SERVER_HTTP2_CALL_HEADERS_H_

#include <cstddef>
#include <string_view>

#include "server/wire/rpc_call.h"

namespace memoryd {

// What is kept of any other header than a credential.
inline constexpr std::size_t kMaxKeptHeader = 8 << 10;

// Counts the header, and keeps it where it is metadata. `name` is in lower case.
void TakeMetadata(CallMetadata& metadata, std::string_view name, std::string_view value);

// Counts one that HTTP does not allow, which is dropped; a credential that is none is a wrong one.
void CountInvalidMetadata(CallMetadata& metadata, std::string_view name, std::size_t value_bytes);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP2_CALL_HEADERS_H_
