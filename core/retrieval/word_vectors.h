// A table of vectors for the tokens of a text, which needs no model to run.
#ifndef MEMORYD_CORE_RETRIEVAL_WORD_VECTORS_H_
#define MEMORYD_CORE_RETRIEVAL_WORD_VECTORS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/retrieval/subword_tokenizer.h"

namespace memoryd {

// The table lies in a file that is mapped into memory, so that processes share it and only what is
// looked at is read. Immutable, so any thread may use it.
class WordVectors {
 public:
  static constexpr std::size_t kDimensions = 256;
  using Token = SubwordTokenizer::Token;
  using Vector = std::array<float, kDimensions>;

  // `table_file` is a safetensors file with one tensor `embedding.weight` of F16, a row of
  // kDimensions for each token; beside it lies its tokenizer, of the same name with
  // `.tokenizer.json` instead of the extension. NOT_FOUND when one is not there, INVALID_ARGUMENT,
  // which names the file, when it is not what it must be.
  static absl::StatusOr<std::shared_ptr<const WordVectors>> Load(const std::string& table_file);

  // Where the tokenizer of a table is looked for.
  static std::string TokenizerFile(const std::string& table_file);

  WordVectors(const WordVectors&) = delete;
  WordVectors& operator=(const WordVectors&) = delete;
  ~WordVectors();

  // The tokens of `text` in lower case.
  std::vector<Token> Tokens(std::string_view text) const;

  // The number of tokens; they are below it.
  std::size_t token_count() const { return tokenizer_->size(); }

  // Adds `weight` times the token's vector to `sum`.
  void Add(Token token, float weight, Vector& sum) const;

  // The products of the token's vector with each of `vectors`, to as many `products`.
  void Dot(Token token, std::span<const Vector> vectors, float* products) const;

 private:
  WordVectors() = default;

  const std::uint16_t* Row(Token token) const { return rows_ + token * kDimensions; }

  std::unique_ptr<const SubwordTokenizer> tokenizer_;
  void* map_ = nullptr;
  std::size_t map_bytes_ = 0;
  const std::uint16_t* rows_ = nullptr;  // Numbers of 16 bits as IEEE 754 has them.
};

// Makes `vector` one of length 1; zeros stay.
void Normalize(std::span<float> vector);

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_WORD_VECTORS_H_
