#ifndef MEMORYD_CORE_TOKENS_BPE_VOCABULARY_H_
#define MEMORYD_CORE_TOKENS_BPE_VOCABULARY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace memoryd {

// The tokens of a byte-pair encoding and their ranks, and the merging of bytes by rank.
// Immutable, so any thread may use it.
class BpeVocabulary {
 public:
  // Reads the format of tiktoken's files: a line for each token, "<base64 of its bytes> <rank>",
  // ranks 0, 1, 2 and so on. Every single byte must be a token, and a token has at most 255 bytes.
  // InvalidArgument, which names the line, for anything else.
  static absl::StatusOr<std::unique_ptr<const BpeVocabulary>> Parse(std::string_view file);

  BpeVocabulary(const BpeVocabulary&) = delete;
  BpeVocabulary& operator=(const BpeVocabulary&) = delete;

  // The number of tokens that `piece` becomes: of the adjacent parts that join to a token, the pair
  // with the lowest rank is merged, the leftmost of equals, until there is none. O(n log n) in the
  // piece's bytes. `piece` is not empty, shorter than 4 GiB, and lies in a buffer that is readable
  // up to `readable_end`.
  //
  // Takes off `cost` what that costs, in the unit of TokenCounter::CountWithin(); 0, and `cost` is
  // below 0, where that would be more.
  std::int64_t Count(std::string_view piece, const char* readable_end, std::int64_t& cost) const;

  // The memory that Count() takes meanwhile for a piece of so many bytes.
  static std::size_t ScratchBytes(std::size_t piece);

 private:
  using Rank = std::uint32_t;
  static constexpr Rank kNoRank = ~Rank{0};

  // A token in the open-addressing table. `key` has the token's length in its top byte. Below are
  // the bytes themselves when there are at most seven, so that the key decides alone and a look-up
  // touches one cache line; else they are a hash, and the bytes in `arena_` decide.
  struct Slot {
    std::uint64_t key = 0;  // 0 marks a free slot: no token is empty.
    Rank rank = 0;
    std::uint32_t offset = 0;  // Of the token's bytes in `arena_`.
  };

  BpeVocabulary() = default;

  static std::uint64_t KeyOf(const char* bytes, std::size_t size, const char* readable_end);
  std::size_t HomeSlot(std::uint64_t key) const;

  // Enters all tokens of `arena_`; false when one is there twice.
  bool BuildTable(const std::vector<std::uint32_t>& sizes);

  // The rank of the token with these bytes, or kNoRank. `size` is at least 1.
  Rank Find(const char* bytes, std::size_t size, const char* readable_end) const;

  // The two ways of merging: by scanning all pairs for the best one, or by a heap of them.
  std::int64_t CountShort(std::string_view piece, const char* readable_end) const;
  std::int64_t CountLong(std::string_view piece, const char* readable_end) const;

  std::string arena_;        // The bytes of all tokens by rank, one behind the other.
  std::vector<Slot> slots_;  // A power of two, at most half full.
  int slot_shift_ = 0;       // 64 - log2(slots_.size()).
  std::size_t longest_ = 0;  // The bytes of the longest token.

  // Ranks of the two-byte tokens, by first byte + 256 * second byte: every merge starts with them.
  std::vector<Rank> two_byte_ranks_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_TOKENS_BPE_VOCABULARY_H_
