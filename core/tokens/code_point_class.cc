#include "core/tokens/code_point_class.h"

#include <algorithm>
#include <iterator>

namespace memoryd {
namespace {

constexpr std::uint32_t kRanges[] = {
#include <cstddef>
#include <cstdint>

#include "core/tokens/code_point_table.inc"
};

char32_t FirstOf(std::uint32_t range) { return range >> 3; }

// The generator numbers the classes from 0, kOther, in the order of the enumeration.
CodePointClass ClassOf(std::uint32_t range) {
  const std::uint32_t number = range & 7;
  return number == 0 ? kOther : static_cast<CodePointClass>(1u << (number - 1));
}

}  // namespace

const CodePointTable& CodePointTable::Get() {
  static const auto* const table = new CodePointTable();
  return *table;
}

CodePointTable::CodePointTable() {
  for (const std::uint32_t* range = std::begin(kRanges); range != std::end(kRanges); ++range) {
    const std::size_t first = FirstOf(*range);
    const std::size_t last =
        std::next(range) == std::end(kRanges) ? direct_.size() : FirstOf(*std::next(range));
    for (std::size_t i = first; i < std::min(last, direct_.size()); ++i) {
      direct_[i] = ClassOf(*range);
    }
  }
}

CodePointClass CodePointTable::Search(char32_t code_point) const {
  const std::uint32_t* const after =
      std::upper_bound(std::begin(kRanges), std::end(kRanges), code_point,
                       [](char32_t value, std::uint32_t range) { return value < FirstOf(range); });
  return ClassOf(*std::prev(after));
}

}  // namespace memoryd
