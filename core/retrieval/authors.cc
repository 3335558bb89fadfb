#include "core/retrieval/authors.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "core/retrieval/terms.h"

namespace memoryd {
namespace {

constexpr auto kRoles =
    std::to_array<std::string_view>({"ai", "assistant", "bot", "developer", "function", "human",
                                     "model", "system", "tool", "user"});
static_assert(std::is_sorted(kRoles.begin(), kRoles.end()));

// A name of more words is a text.
constexpr std::size_t kMaxNameWords = 16;

bool IsRole(std::string_view word) {
  return std::binary_search(kRoles.begin(), kRoles.end(), word);
}

std::vector<std::string_view> SplitAtSpaces(std::string_view text) {
  std::vector<std::string_view> words;
  constexpr std::string_view kSpaces = " \t\n\v\f\r";
  std::size_t begin = text.find_first_not_of(kSpaces);
  while (begin != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(kSpaces, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kSpaces, end);
  }
  return words;
}

}  // namespace

Authors::Author Authors::Add(std::string_view speaker) {
  std::set<std::string> words;
  for (const std::string_view word : SplitAtSpaces(speaker)) {
    if (words.size() == kMaxNameWords) break;
    if (std::string name = NameWord(word); !name.empty()) words.insert(std::move(name));
  }
  std::string key;
  for (const std::string& word : words) key.append(key.empty() ? "" : " ").append(word);
  const auto [found, is_new] = authors_.emplace(key, static_cast<Author>(authors_.size()));
  if (!is_new) return found->second;
  const Author author = found->second;
  heap_bytes_ += found->first.capacity();
  is_user_.push_back(key == "user" || key == "human");
  is_role_chat_ = is_role_chat_ && IsRole(key);
  for (const std::string& word : words) {
    if (IsRole(word)) continue;
    const auto [named, is_new_word] = by_name_word_.try_emplace(word);
    if (is_new_word) heap_bytes_ += named->first.capacity();
    named->second.push_back(author);
    heap_bytes_ += sizeof(Author) * 2;
  }
  return author;
}

Authors::NamedQuery Authors::Split(std::string_view query) const {
  NamedQuery named;
  if (by_name_word_.empty()) {
    named.rest = query;
    return named;
  }
  std::optional<Author> author;
  bool several = false;
  for (const std::string_view word : SplitAtSpaces(query)) {
    const auto found = by_name_word_.find(NameWord(word));
    if (found == by_name_word_.end()) {
      named.rest.append(named.rest.empty() ? "" : " ").append(word);
      continue;
    }
    several = several || found->second.size() > 1 ||
              (author.has_value() && *author != found->second.front());
    author = found->second.front();
  }
  if (named.rest.empty()) named.rest = query;
  if (!several) named.author = author;
  return named;
}

std::size_t Authors::ByteSize() const {
  return heap_bytes_ + is_user_.capacity() / 8 +
         authors_.capacity() * (sizeof(NameMap<Author>::value_type) + 1) +
         by_name_word_.capacity() * (sizeof(NameMap<std::vector<Author>>::value_type) + 1);
}

}  // namespace memoryd
