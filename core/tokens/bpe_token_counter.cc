#include "core/tokens/bpe_token_counter.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "core/tokens/code_point_class.h"

namespace memoryd {

std::int64_t BpeTokenCounter::Count(std::string_view text) const {
  std::int64_t cost = std::numeric_limits<std::int64_t>::max();
  return *CountWithin(text, cost);
}

std::optional<std::int64_t> BpeTokenCounter::CountWithin(std::string_view text,
                                                         std::int64_t& cost) const {
  cost -= ScanCost(text);
  const char* p = text.data();
  const char* const end = p + text.size();
  std::int64_t count = 0;
  while (p < end && cost >= 0) {
    const auto [special, length] = FindSpecial(p, end);
    // The pieces end at a special token as they end at the end of the text.
    CountBetweenSpecials(p, special, end, count, cost);
    count += length > 0 ? 1 : 0;
    p = special + length;
  }
  if (cost < 0) return std::nullopt;
  return count;
}

void BpeTokenCounter::CountBetweenSpecials(const char* p, const char* end, const char* readable_end,
                                           std::int64_t& count, std::int64_t& cost) const {
  const CodePointTable& table = CodePointTable::Get();
  while (p < end && cost >= 0) {
    const char* const piece_end = piece_end_(table, p, end);
    count += vocabulary_->Count({p, static_cast<std::size_t>(piece_end - p)}, readable_end, cost);
    p = piece_end;
  }
}

std::size_t BpeTokenCounter::ScratchBytes(std::string_view text) const {
  const CodePointTable& table = CodePointTable::Get();
  const char* p = text.data();
  const char* const end = p + text.size();
  std::size_t longest = 0;
  while (p < end) {
    const auto [special, length] = FindSpecial(p, end);
    while (p < special) {
      const char* const piece_end = piece_end_(table, p, special);
      longest = std::max(longest, static_cast<std::size_t>(piece_end - p));
      p = piece_end;
    }
    p = special + length;
  }
  return BpeVocabulary::ScratchBytes(longest);
}

std::pair<const char*, std::size_t> BpeTokenCounter::FindSpecial(const char* p,
                                                                 const char* end) const {
  while (p < end) {
    p = static_cast<const char*>(std::memchr(p, '<', static_cast<std::size_t>(end - p)));
    if (p == nullptr) {
      break;
    }
    const std::string_view rest(p, static_cast<std::size_t>(end - p));
    if (rest.starts_with("<|")) {
      for (const std::string_view special : specials_) {
        if (rest.starts_with(special)) {
          return {p, special.size()};
        }
      }
    }
    ++p;
  }
  return {end, 0};
}

}  // namespace memoryd
