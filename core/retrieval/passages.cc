#include "core/retrieval/passages.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace memoryd {
namespace {

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }
bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}

// The bytes of the first `characters` of `text`.
std::size_t PrefixBytes(std::string_view text, std::size_t characters) {
  std::size_t i = 0;
  while (i < text.size()) {
    if (!IsContinuation(text[i]) && characters-- == 0) break;
    ++i;
  }
  return i;
}

// Where to cut `text`, at the latest at `end`, which lies between two characters.
std::size_t CutBefore(std::string_view text, std::size_t end) {
  const std::size_t least = end / 2;
  std::size_t sentence = 0;
  std::size_t word = 0;
  for (std::size_t i = end; i > 0; --i) {
    if (!IsSpace(text[i])) continue;
    if (i < least && (sentence != 0 || word != 0)) break;
    if (text[i] == '\n' && i >= least) return i;
    if (word == 0) word = i;
    const char before = text[i - 1];
    if (sentence == 0 && (before == '.' || before == '!' || before == '?')) sentence = i;
  }
  return sentence != 0 ? sentence : word != 0 ? word : end;
}

}  // namespace

std::vector<std::string_view> SplitIntoPassages(std::string_view text, std::size_t max_characters) {
  std::vector<std::string_view> passages;
  for (text = Trimmed(text); !text.empty(); text = Trimmed(text)) {
    std::size_t end = PrefixBytes(text, std::max<std::size_t>(max_characters, 1));
    if (end < text.size()) end = CutBefore(text, end);
    passages.push_back(Trimmed(text.substr(0, end)));
    text.remove_prefix(end);
  }
  return passages;
}

std::size_t CharacterCount(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !IsContinuation(c); }));
}

}  // namespace memoryd
