// Whether bytes are text.
#ifndef MEMORYD_CLI_UTF8_H_
#define MEMORYD_CLI_UTF8_H_

#include <cstddef>
#include <string_view>

#include "core/base/utf8_decode.h"

namespace memoryd::cli {

inline bool IsUtf8(std::string_view text) {
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    const std::size_t length = DecodeUtf8(at, end).length;
    if (length == 0) return false;
    at += length;
  }
  return true;
}

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_UTF8_H_
