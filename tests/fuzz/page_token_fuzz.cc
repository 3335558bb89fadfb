// Page tokens from anywhere: only what was encoded for the same scope is taken.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "server/page_token.h"

namespace {

constexpr char kScope[] = "GetAll/0/default/session";

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  if (const auto position = memoryd::DecodePageToken(kScope, bytes); position.ok()) {
    const auto again =
        memoryd::DecodePageToken(kScope, memoryd::EncodePageToken(kScope, *position));
    Require(again.ok() && again->generation == position->generation &&
            again->position == position->position && again->in_contents == position->in_contents);
  }
  if (const auto after = memoryd::DecodeListToken(kScope, bytes); after.ok()) {
    Require(memoryd::DecodeListToken(kScope, memoryd::EncodeListToken(kScope, *after)).ok());
  }
  // As a scope, or as what a token carries, every input is legal.
  Require(memoryd::DecodePageToken(bytes, memoryd::EncodePageToken(bytes, {1, 2})).ok());
  if (size <= 512) {
    Require(*memoryd::DecodeListToken(kScope, memoryd::EncodeListToken(kScope, bytes)) == bytes);
  }
  return 0;
}
