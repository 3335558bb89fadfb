// Hash maps whose keys are strings, which are looked up by views without a copy.
#ifndef MEMORYD_CORE_BASE_STRING_HASH_H_
#define MEMORYD_CORE_BASE_STRING_HASH_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace memoryd {

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};

// Stays as it was when an insertion throws, std::bad_alloc for instance. absl's tables don't: they
// are broken then, and so are for threads that go on after it.
template <typename Value>
using StringMap = std::unordered_map<std::string, Value, StringHash, std::equal_to<>>;

}  // namespace memoryd

#endif  // MEMORYD_CORE_BASE_STRING_HASH_H_
