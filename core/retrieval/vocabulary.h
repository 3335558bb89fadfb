// The words of a session, to be found by what they mean.
#ifndef MEMORYD_CORE_RETRIEVAL_VOCABULARY_H_
#define MEMORYD_CORE_RETRIEVAL_VOCABULARY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/retrieval/string_table.h"
#include "core/retrieval/word_vectors.h"

namespace memoryd {

// A word whose vector is like another's.
struct LikeWord {
  std::string_view word;  // Valid until the next Add().
  double cosine = 0;
};

// A word's vector is not kept: it is the sum of its tokens' rows, made to length 1, so its product
// with any other comes from those of the few thousand rows that there are.
class Vocabulary {
 public:
  // Does nothing when the word is there already.
  void Add(const WordVectors& vectors, std::string_view word);

  // For each of `wanted`, which need not be words of the vocabulary, those most like it: at most
  // `count`, the best first, none below `least`. By the cosine of what is left of the vectors
  // without the mean of all words, of which every word has much. `vectors` are those of Add(). All
  // at once costs little more than one.
  std::vector<std::vector<LikeWord>> Nearest(const WordVectors& vectors,
                                             const std::vector<std::string_view>& wanted,
                                             std::size_t count, double least) const;

  std::size_t size() const { return words_.size(); }

  // Approximate memory on the heap in bytes, in constant time.
  std::size_t ByteSize() const;

 private:
  struct Word {
    std::uint32_t tokens_end;  // In tokens_, where the next word's begin.
    float scale;               // To length 1.
  };

  StringTable texts_;
  std::vector<Word> words_;  // By their texts' numbers.
  std::vector<WordVectors::Token> tokens_;
  std::array<double, WordVectors::kDimensions> sum_ = {};  // Of the words' vectors.
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_VOCABULARY_H_
