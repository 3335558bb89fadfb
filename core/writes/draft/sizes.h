// What drafts count in bytes.
#ifndef MEMORYD_CORE_WRITES_DRAFT_SIZES_H_
#define MEMORYD_CORE_WRITES_DRAFT_SIZES_H_

#include <cstdint>
#include <string_view>

namespace memoryd {

// Of a message or content, or of a draft of one.
inline std::int64_t BodyBytes(const auto& item) {
  return static_cast<std::int64_t>(item.body.size());
}

inline std::int64_t TextBytes(std::string_view text) {
  return static_cast<std::int64_t>(text.size());
}

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_DRAFT_SIZES_H_
