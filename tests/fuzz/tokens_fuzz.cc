// Any text counted by each tokenizer, beside the definition of byte-pair encoding: merge the pair
// of lowest rank until there is none. The folder of the vocabularies is in MEMORYD_VOCABULARY_DIR.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "core/tokens/code_point_class.h"
#include "core/tokens/pretokenizer.h"
#include "core/tokens/token_counter.h"
#include "tests/fuzz/require.h"

namespace memoryd {
namespace {

constexpr std::string_view kSpecial = "<|endoftext|>";
// Enough for some of the texts.
constexpr std::int64_t kCost = 100;

std::string VocabularyFolder() {
  const char* const folder = std::getenv("MEMORYD_VOCABULARY_DIR");
  Require(folder != nullptr);
  return folder;
}

class Encoding {
 public:
  Encoding(const std::string& name, PieceEndFunction piece_end) : piece_end_(piece_end) {
    auto counter = MakeTokenCounter(name, VocabularyFolder());
    Require(counter.ok());
    counter_ = *std::move(counter);
    std::ifstream file(VocabularyFolder() + "/" + name + ".tiktoken");
    std::string bytes;
    for (std::string encoded; file >> encoded;) {
      std::size_t rank = 0;
      Require(absl::Base64Unescape(encoded, &bytes) && static_cast<bool>(file >> rank));
      ranks_.emplace(bytes, rank);
    }
  }

  void Check(std::string_view text) const {
    const std::int64_t count = counter_->Count(text);
    std::int64_t cost = kCost;
    const std::optional<std::int64_t> within = counter_->CountWithin(text, cost);
    Require(!within.has_value() || (*within == count && cost >= 0));
    // A special token is one, and the pieces end there as they end at the end.
    std::string joined(text);
    joined.append(kSpecial).append(text);
    Require(counter_->Count(joined) == 2 * count + 1);
    if (text.find("<|") == std::string_view::npos) Require(count == Merged(text));
  }

 private:
  std::int64_t Merged(std::string_view text) const {
    const CodePointTable& table = CodePointTable::Get();
    const char* const end = text.data() + text.size();
    std::int64_t count = 0;
    for (const char* p = text.data(); p < end;) {
      const char* const piece_end = piece_end_(table, p, end);
      Require(piece_end > p && piece_end <= end);
      count += MergedPiece({p, static_cast<std::size_t>(piece_end - p)});
      p = piece_end;
    }
    return count;
  }

  std::int64_t MergedPiece(std::string_view piece) const {
    // A piece that is a token is one, whatever merging would make of it.
    if (RankOf(piece) != kNoRank) return 1;
    std::vector<std::size_t> starts(piece.size() + 1);
    for (std::size_t i = 0; i <= piece.size(); ++i) starts[i] = i;
    for (;;) {
      std::size_t best = kNoRank;
      std::size_t at = 0;
      for (std::size_t i = 0; i + 2 < starts.size(); ++i) {
        const std::size_t rank = RankOf(piece.substr(starts[i], starts[i + 2] - starts[i]));
        if (rank >= best) continue;
        best = rank;
        at = i + 1;
      }
      if (at == 0) return static_cast<std::int64_t>(starts.size()) - 1;
      starts.erase(starts.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }

  std::size_t RankOf(std::string_view bytes) const {
    const auto found = ranks_.find(absl::string_view(bytes.data(), bytes.size()));
    return found == ranks_.end() ? kNoRank : found->second;
  }

  static constexpr std::size_t kNoRank = std::numeric_limits<std::size_t>::max();

  const PieceEndFunction piece_end_;
  std::shared_ptr<const TokenCounter> counter_;
  absl::flat_hash_map<std::string, std::size_t> ranks_;
};

void CheckWords(std::string_view text) {
  static const auto counter = MakeTokenCounter("whitespace", "");
  const std::int64_t words = (*counter)->Count(text);
  Require(words >= 0 && words <= static_cast<std::int64_t>(text.size()));
  // Between words that are set apart nothing is lost or won.
  std::string twice(text);
  twice.append("\xE3\x80\x80").append(text);
  Require((*counter)->Count(twice) == 2 * words);
}

}  // namespace
}  // namespace memoryd

// The first byte chooses the tokenizer.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const memoryd::Encoding cl100k("cl100k_base", memoryd::Cl100kPieceEnd);
  static const memoryd::Encoding o200k("o200k_base", memoryd::O200kPieceEnd);
  if (size == 0) return 0;
  // A copy that ends where the text ends, so that reading on is seen.
  const std::vector<char> copy(data + 1, data + size);
  const std::string_view text(copy.data(), copy.size());
  switch (data[0] % 3) {
    case 0:
      cl100k.Check(text);
      break;
    case 1:
      o200k.Check(text);
      break;
    default:
      memoryd::CheckWords(text);
  }
  return 0;
}
