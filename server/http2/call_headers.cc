#include "server/http2/call_headers.h"

#include <cstddef>

#include "server/settings/limits.h"
#include "server/wire/rpc_call.h"

namespace memoryd {
namespace {

// A byte more than the longest token has, so that a longer one is seen to be one.
constexpr std::size_t kMaxAuthorization = kTokenScheme.size() + kMaxTokenBytes + 1;
// RFC 9113, section 6.5.2.
constexpr std::size_t kEntryOverhead = 32;

}  // namespace

void TakeMetadata(CallMetadata& metadata, std::string_view name, std::string_view value) {
  ++metadata.entries;
  metadata.bytes += name.size() + value.size() + kEntryOverhead;
  // Beyond that the call is refused, whatever else it brings.
  if (name == "authorization") {
    ++metadata.authorizations;
    metadata.authorization_bytes += value.size();
    metadata.authorization.assign(value.substr(0, kMaxAuthorization));
    return;
  }
  if (value.size() > kMaxKeptHeader) return;
  if (name == "x-request-id") {
    if (metadata.request_id.empty()) metadata.request_id.assign(value);
  } else if (name == "traceparent") {
    ++metadata.traceparents;
    metadata.traceparent.assign(value);
  } else if (name == "tracestate") {
    if (metadata.tracestate.size() + value.size() > kMaxKeptHeader) return;
    if (!metadata.tracestate.empty()) metadata.tracestate += ',';
    metadata.tracestate += value;
  }
}

void CountInvalidMetadata(CallMetadata& metadata, std::string_view name, std::size_t value_bytes) {
  ++metadata.entries;
  metadata.bytes += name.size() + value_bytes + kEntryOverhead;
  if (name != "authorization") return;
  ++metadata.authorizations;
  metadata.authorization_bytes += value_bytes;
  metadata.authorization.clear();
}

}  // namespace memoryd
