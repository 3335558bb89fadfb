#include "core/retrieval/authors.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/base/utf8_decode.h"
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
    if (IsUnspaced(word)) longest_unspaced_ = std::max(longest_unspaced_, word.size());
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
  const auto note = [&author, &several](const std::vector<Author>& of_name) {
    several = several || of_name.size() > 1 || (author.has_value() && *author != of_name.front());
    author = of_name.front();
  };
  const auto keep = [&named](std::string_view word) {
    named.rest.append(named.rest.empty() ? "" : " ").append(word);
  };
  for (const std::string_view word : SplitAtSpaces(query)) {
    const std::string name = NameWord(word);
    if (const auto found = by_name_word_.find(name); found != by_name_word_.end()) {
      note(found->second);
      continue;
    }
    const std::string left = WithoutNames(name, note);
    if (left.size() == name.size()) {
      keep(word);
    } else if (!left.empty()) {
      keep(left);
    }
  }
  if (named.rest.empty()) named.rest = query;
  if (!several) named.author = author;
  return named;
}

std::string Authors::WithoutNames(std::string_view word,
                                  absl::FunctionRef<void(const std::vector<Author>&)> visit) const {
  std::string left;
  if (longest_unspaced_ == 0) return left.assign(word);
  const char* const end = word.data() + word.size();
  for (const char* p = word.data(); p < end;) {
    const std::string_view here(p, static_cast<std::size_t>(end - p));
    if (const auto name = NameAtBegin(here); name != by_name_word_.end()) {
      visit(name->second);
      p += name->first.size();
      // What stood before it makes no pair with what stands behind.
      if (!left.empty()) left.push_back(' ');
      continue;
    }
    const std::size_t length = std::max<std::size_t>(DecodeUtf8(p, end).length, 1);
    left.append(p, length);
    p += length;
  }
  return left;
}

Authors::NameMap<std::vector<Authors::Author>>::const_iterator Authors::NameAtBegin(
    std::string_view text) const {
  auto longest = by_name_word_.end();
  const char* const begin = text.data();
  const char* const end = begin + std::min(text.size(), longest_unspaced_);
  for (const char* p = begin; p < end;) {
    const std::size_t length = DecodeUtf8(p, end).length;
    if (length < 2) break;  // No script of these is ASCII.
    p += length;
    const auto found =
        by_name_word_.find(std::string_view(begin, static_cast<std::size_t>(p - begin)));
    if (found != by_name_word_.end() && IsUnspaced(found->first)) longest = found;
  }
  return longest;
}

std::size_t Authors::ByteSize() const {
  return heap_bytes_ + is_user_.capacity() / 8 +
         authors_.capacity() * (sizeof(NameMap<Author>::value_type) + 1) +
         by_name_word_.capacity() * (sizeof(NameMap<std::vector<Author>>::value_type) + 1);
}

}  // namespace memoryd
