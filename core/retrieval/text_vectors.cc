#include "core/retrieval/text_vectors.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/retrieval/heap_bytes.h"
#include "core/retrieval/word_vectors.h"

namespace memoryd {
namespace {

WordVectors::Vector SumOf(const WordVectors& words, std::span<const WordVectors::Token> tokens) {
  WordVectors::Vector vector = {};
  for (const WordVectors::Token token : tokens) words.Add(token, 1, vector);
  Normalize(vector);
  return vector;
}

}  // namespace

WordVectors::Vector VectorOf(const WordVectors& words, std::string_view text) {
  return SumOf(words, words.Tokens(text));
}

void TextVectors::Add(const WordVectors& words, std::string_view text) {
  std::vector<WordVectors::Token> tokens = words.Tokens(text);
  vectors_.Append(SumOf(words, tokens));
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  for (const WordVectors::Token token : tokens) ++token_texts_[token].texts;
}

WordVectors::Vector TextVectors::QueryVector(
    const WordVectors& words, std::string_view query,
    absl::FunctionRef<double(std::uint32_t)> rarity) const {
  WordVectors::Vector vector = {};
  for (const WordVectors::Token token : words.Tokens(query)) {
    const auto found = token_texts_.find(token);
    const double weight = rarity(found == token_texts_.end() ? 0 : found->second.texts);
    words.Add(token, static_cast<float>(weight), vector);
  }
  Normalize(vector);
  return vector;
}

std::size_t TextVectors::ByteSize() const { return vectors_.ByteSize() + TableBytes(token_texts_); }

}  // namespace memoryd
