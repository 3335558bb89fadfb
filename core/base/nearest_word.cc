#include "core/base/nearest_word.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace memoryd {
namespace {

// Longer ones are no words of a command line.
constexpr std::size_t kLongest = 64;

// Optimal string alignment.
std::size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> rows(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) rows[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t wrong = a[i - 1] == b[j - 1] ? 0 : 1;
      rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + wrong});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
      }
    }
  }
  return rows[a.size()][b.size()];
}

}  // namespace

std::string NearestWord(std::string_view typed, const std::vector<std::string>& words) {
  // What all options begin with says nothing.
  const std::size_t dashes = std::min(typed.find_first_not_of('-'), typed.size());
  const std::size_t letters = typed.size() - dashes;
  if (letters == 0 || typed.size() > kLongest) return {};
  std::string nearest;
  std::size_t least = std::clamp<std::size_t>(letters / 3, 1, 2) + 1;
  for (const std::string& word : words) {
    if (word.size() > kLongest) continue;
    const std::size_t distance = Distance(typed, word);
    // One that shares no letter is no likeness.
    if (distance < least && distance < letters) {
      least = distance;
      nearest = word;
    }
  }
  if (!nearest.empty()) return nearest;
  for (const std::string& word : words) {
    if (letters < 2 || !word.starts_with(typed)) continue;
    if (!nearest.empty()) return {};
    nearest = word;
  }
  return nearest;
}

std::string DidYouMean(std::string_view typed, const std::vector<std::string>& words) {
  const std::string nearest = NearestWord(typed, words);
  return nearest.empty() ? std::string() : fmt::format(": did you mean {}?", nearest);
}

}  // namespace memoryd
