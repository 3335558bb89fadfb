// Page tokens from anywhere: only what was encoded for the same scope is taken.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "server/wire/page_token.h"
#include "tests/fuzz/require.h"

namespace {

constexpr char kScope[] = "GetAll/0/default/session";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  if (const auto position = memoryd::DecodePageToken(kScope, bytes); position.ok()) {
    const auto again =
        memoryd::DecodePageToken(kScope, memoryd::EncodePageToken(kScope, *position));
    memoryd::Require(again.ok() && again->generation == position->generation &&
                     again->position == position->position &&
                     again->in_contents == position->in_contents &&
                     again->until_content == std::max<std::int64_t>(position->until_content, 0));
  }
  if (const auto after = memoryd::DecodeListToken(kScope, bytes); after.ok()) {
    memoryd::Require(
        memoryd::DecodeListToken(kScope, memoryd::EncodeListToken(kScope, *after)).ok());
  }
  // As a scope, or as what a token carries, every input is legal.
  memoryd::Require(memoryd::DecodePageToken(bytes, memoryd::EncodePageToken(bytes, {1, 2})).ok());
  if (size <= 512) {
    memoryd::Require(*memoryd::DecodeListToken(kScope, memoryd::EncodeListToken(kScope, bytes)) ==
                     bytes);
  }
  return 0;
}
