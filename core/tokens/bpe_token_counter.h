#ifndef MEMORYD_CORE_TOKENS_BPE_TOKEN_COUNTER_H_
#define MEMORYD_CORE_TOKENS_BPE_TOKEN_COUNTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "core/tokens/bpe_vocabulary.h"
#include "core/tokens/pretokenizer.h"
#include "core/tokens/token_counter.h"

namespace memoryd {

// Byte-pair encoding: special tokens are cut out first, the text between them is cut into pieces,
// and each piece's bytes are merged.
class BpeTokenCounter final : public TokenCounter {
 public:
  // Each of `specials` begins with "<|" and none is the beginning of another. They must outlive
  // the counter.
  BpeTokenCounter(std::unique_ptr<const BpeVocabulary> vocabulary, PieceEndFunction piece_end,
                  std::span<const std::string_view> specials)
      : vocabulary_(std::move(vocabulary)), piece_end_(piece_end), specials_(specials) {}

  std::int64_t Count(std::string_view text) const override;
  std::optional<std::int64_t> CountWithin(std::string_view text, std::int64_t& cost) const override;
  std::size_t ScratchBytes(std::string_view text) const override;

 private:
  // Adds to `count` the tokens of [p, end), which holds no special token, as long as `cost` is not
  // below 0.
  void CountBetweenSpecials(const char* p, const char* end, const char* readable_end,
                            std::int64_t& count, std::int64_t& cost) const;

  // The first special token in [p, end): where it starts and its length, or {end, 0}.
  std::pair<const char*, std::size_t> FindSpecial(const char* p, const char* end) const;

  const std::unique_ptr<const BpeVocabulary> vocabulary_;
  const PieceEndFunction piece_end_;
  const std::span<const std::string_view> specials_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_TOKENS_BPE_TOKEN_COUNTER_H_
