#include "core/tokens/bpe_token_counter.h"

#include <cstddef>
#include <cstring>

namespace memoryd {

std::int64_t BpeTokenCounter::Count(std::string_view text) const {
  const char* p = text.data();
  const char* const end = p + text.size();
  std::int64_t count = 0;
  while (p < end) {
    const auto [special, length] = FindSpecial(p, end);
    // The pieces end at a special token as they end at the end of the text.
    count += CountBetweenSpecials(p, special, end) + (length > 0 ? 1 : 0);
    p = special + length;
  }
  return count;
}

std::int64_t BpeTokenCounter::CountBetweenSpecials(const char* p, const char* end,
                                                   const char* readable_end) const {
  const CodePointTable& table = CodePointTable::Get();
  std::int64_t count = 0;
  while (p < end) {
    const char* const piece_end = piece_end_(table, p, end);
    count += vocabulary_->Count({p, static_cast<std::size_t>(piece_end - p)}, readable_end);
    p = piece_end;
  }
  return count;
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
