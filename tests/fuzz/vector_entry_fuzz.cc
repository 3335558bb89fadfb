// Any bytes as a stored entry: what is read would be written again as it is.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/blocks/vector_entry.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto entry = memoryd::DecodeVectorEntry(bytes);
  if (entry.ok()) memoryd::Require(memoryd::EncodeVectorEntry(*entry) == bytes);
  return 0;
}
