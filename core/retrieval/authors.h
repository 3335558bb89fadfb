// Who speaks in a session, and whom a question names.
#ifndef MEMORYD_CORE_RETRIEVAL_AUTHORS_H_
#define MEMORYD_CORE_RETRIEVAL_AUTHORS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "core/base/string_hash.h"

namespace memoryd {

// Numbers for speakers by the words of their names, in any case and order; "user", "assistant" and
// the like are no names but roles. In scripts that do not set words apart a name is found within a
// run, too: "田中さんは" names 田中.
class Authors {
 public:
  using Author = std::uint32_t;

  struct NamedQuery {
    // The query without words that are someone's name; whole when there are no others. What a turn
    // says of a matter seldom has its speaker's name in it.
    std::string rest;
    // Whose names were in it, if it was one speaker's.
    std::optional<Author> author;
  };

  // The number of `speaker`, given to him now if he is new.
  Author Add(std::string_view speaker);

  NamedQuery Split(std::string_view query) const;

  // Whether everyone is a role: a chat of a user with an assistant.
  bool is_role_chat() const { return is_role_chat_; }
  // Whether the author is the role `user` or `human`.
  bool IsUser(Author author) const { return is_user_[author]; }

  // Approximate memory on the heap in bytes, in constant time.
  std::size_t ByteSize() const;

 private:
  template <typename V>
  using NameMap = absl::flat_hash_map<std::string, V, StringHash, std::equal_to<>>;

  // `word`, as NameWord() gives it, without the names that stand in it unspaced, each of which
  // `visit` is told of.
  std::string WithoutNames(std::string_view word,
                           absl::FunctionRef<void(const std::vector<Author>&)> visit) const;
  // The longest name of a script without spaces that `text` begins with; end() when there is none.
  NameMap<std::vector<Author>>::const_iterator NameAtBegin(std::string_view text) const;

  NameMap<Author> authors_;                    // By their words in order, with a space between.
  NameMap<std::vector<Author>> by_name_word_;  // Ascending.
  std::size_t longest_unspaced_ = 0;           // Of those names; in bytes.
  std::vector<bool> is_user_;
  bool is_role_chat_ = true;
  std::size_t heap_bytes_ = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_AUTHORS_H_
