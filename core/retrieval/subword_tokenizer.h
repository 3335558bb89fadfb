// Cuts text into the tokens that a table of vectors has rows for.
#ifndef MEMORYD_CORE_RETRIEVAL_SUBWORD_TOKENIZER_H_
#define MEMORYD_CORE_RETRIEVAL_SUBWORD_TOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/string_hash.h"

namespace memoryd {

// A byte-pair encoding in the way of SentencePiece: spaces become U+2581, one more stands before
// the text, a character without a token becomes its bytes. Immutable, so any thread may use it.
class SubwordTokenizer {
 public:
  using Token = std::uint16_t;

  // Reads a tokenizer.json of Hugging Face's tokenizers with such a model. INVALID_ARGUMENT for any
  // other. Special tokens are not looked for in texts.
  static absl::StatusOr<std::unique_ptr<const SubwordTokenizer>> Parse(std::string_view json);

  SubwordTokenizer(const SubwordTokenizer&) = delete;
  SubwordTokenizer& operator=(const SubwordTokenizer&) = delete;

  // Appends the tokens of `text` to `tokens`, nothing for an empty one. Any bytes will do. O(n log
  // n) in the longest run without a space.
  void Tokenize(std::string_view text, std::vector<Token>& tokens) const;

  // Tokens are below this.
  std::size_t size() const { return size_; }

 private:
  struct Merge {
    std::uint32_t rank;  // Lower ones are merged first.
    Token merged;
  };

  SubwordTokenizer() = default;

  // OK when each byte has its token.
  absl::Status CheckBytes() const;
  absl::Status AddMerge(std::uint32_t rank, const std::string& left, const std::string& right);
  // Once all merges are there.
  void FindWholePieces();
  // Appends the tokens of one piece: spaces, already U+2581, and what follows up to the next one.
  void TokenizePiece(std::string_view piece, std::vector<Token>& tokens) const;
  const Merge* FindMerge(Token left, Token right) const;

  std::size_t size_ = 0;
  absl::flat_hash_map<std::string, Token, StringHash, std::equal_to<>> tokens_;
  absl::flat_hash_map<std::uint32_t, Merge> merges_;  // By left token * 65,536 + right token.
  // Pieces that become one token: most words of a text, and so most of its cost.
  absl::flat_hash_map<std::string, Token, StringHash, std::equal_to<>> whole_pieces_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_SUBWORD_TOKENIZER_H_
