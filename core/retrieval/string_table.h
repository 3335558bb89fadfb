// Many short strings in little memory.
#ifndef MEMORYD_CORE_RETRIEVAL_STRING_TABLE_H_
#define MEMORYD_CORE_RETRIEVAL_STRING_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"

namespace memoryd {

// Strings, each once, numbered from 0 in the order they came. One takes its bytes and some 12 more,
// where a map of std::string takes 40 to 80. At most 4 GiB of them.
class StringTable {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  StringTable();

  // The number of `text`, given to it now if it is new.
  std::uint32_t Add(std::string_view text);

  // kNone when it is not there.
  std::uint32_t Find(std::string_view text) const;

  // Valid until the next Add().
  std::string_view operator[](std::uint32_t number) const { return texts_->at(number); }

  std::size_t size() const { return texts_->ends.size(); }

  // Approximate memory on the heap in bytes, in constant time.
  std::size_t ByteSize() const;

 private:
  struct Texts {
    std::vector<char> bytes;
    std::vector<std::uint32_t> ends;  // In `bytes`, by number.

    std::string_view at(std::uint32_t number) const {
      const std::uint32_t begin = number == 0 ? 0 : ends[number - 1];
      return {bytes.data() + begin, ends[number] - begin};
    }
  };
  struct Hash {
    using is_transparent = void;
    const Texts* texts;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
    std::size_t operator()(std::uint32_t number) const { return (*this)(texts->at(number)); }
  };
  struct Equal {
    using is_transparent = void;
    const Texts* texts;
    bool operator()(std::uint32_t a, std::uint32_t b) const { return a == b; }
    bool operator()(std::uint32_t a, std::string_view b) const { return texts->at(a) == b; }
    bool operator()(std::string_view a, std::uint32_t b) const { return a == texts->at(b); }
  };

  std::unique_ptr<Texts> texts_;  // Where it is when the table is moved.
  absl::flat_hash_set<std::uint32_t, Hash, Equal> numbers_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_STRING_TABLE_H_
