// Any bytes decoded, beside utf8proc, which is as strict.
#include <utf8proc.h>

#include <cstddef>
#include <cstdint>

#include "core/base/utf8_decode.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const char* const begin = reinterpret_cast<const char*>(data);
  for (std::size_t at = 0; at < size;) {
    const memoryd::DecodedUtf8 ours = memoryd::DecodeUtf8(begin + at, begin + size);
    utf8proc_int32_t code_point = -1;
    const utf8proc_ssize_t length =
        utf8proc_iterate(data + at, static_cast<utf8proc_ssize_t>(size - at), &code_point);
    if (length < 0) {
      memoryd::Require(ours.length == 0);
    } else {
      memoryd::Require(ours.length == static_cast<std::size_t>(length));
      memoryd::Require(ours.code_point == static_cast<char32_t>(code_point));
    }
    at += ours.length == 0 ? 1 : ours.length;
  }
  return 0;
}
