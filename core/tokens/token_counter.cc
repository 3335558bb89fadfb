#include "core/tokens/token_counter.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/base/utf8_decode.h"
#include "core/tokens/bpe_token_counter.h"
#include "core/tokens/bpe_vocabulary.h"
#include "core/tokens/pretokenizer.h"
#include "fmt/format.h"

namespace memoryd {
namespace {

// An encoding of tiktoken's.
struct BpeEncoding {
  std::string_view name;
  std::size_t file_size;
  std::uint64_t file_fnv1a;
  PieceEndFunction piece_end;
  std::span<const std::string_view> specials;
};

constexpr std::array<std::string_view, 5> kCl100kSpecials = {
    "<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|endofprompt|>"};
constexpr std::array<std::string_view, 2> kO200kSpecials = {"<|endoftext|>", "<|endofprompt|>"};

constexpr std::array<BpeEncoding, 2> kBpeEncodings = {{
    {"cl100k_base", 1681126, 0x356551a906b1fdee, Cl100kPieceEnd, kCl100kSpecials},
    {"o200k_base", 3613922, 0xe9b0d7030f3deddc, O200kPieceEnd, kO200kSpecials},
}};

// FNV-1a, 64 bits: enough to tell a damaged file. The build checks against forgery, by SHA-256.
std::uint64_t Fnv1a(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : bytes) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  return hash;
}

absl::StatusOr<std::shared_ptr<const TokenCounter>> LoadBpe(const BpeEncoding& encoding,
                                                            const std::string& path) {
  std::error_code error;
  std::ifstream file;
  // To open a FIFO would wait for ever.
  if (std::filesystem::is_regular_file(path, error)) file.open(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file.is_open() || !file) {
    return absl::FailedPreconditionError(
        fmt::format("the vocabulary {} cannot be read: install share/memoryd beside memoryd, or "
                    "run tools/tokens/fetch_vocabulary.py",
                    path));
  }
  const bool intact = text.size() == encoding.file_size && Fnv1a(text) == encoding.file_fnv1a;
  auto vocabulary = intact ? BpeVocabulary::Parse(text)
                           : absl::InvalidArgumentError("its size or checksum is wrong");
  if (!vocabulary.ok()) {
    return absl::FailedPreconditionError(
        fmt::format("the vocabulary {} is not that of {} ({}): delete it, then run "
                    "tools/tokens/fetch_vocabulary.py",
                    path, encoding.name, std::string(vocabulary.status().message())));
  }
  return std::make_shared<BpeTokenCounter>(*std::move(vocabulary), encoding.piece_end,
                                           encoding.specials);
}

// Counters that have been loaded: few, and asked for with each message.
class LoadedCounters {
 public:
  absl::StatusOr<std::shared_ptr<const TokenCounter>> Get(const BpeEncoding& encoding,
                                                          const std::string& vocabulary_dir) {
    // Held while loading, so that a vocabulary is in memory once however many ask for it at once.
    const MutexLock lock(mutex_);
    for (const Loaded& loaded : loaded_) {
      if (loaded.encoding == &encoding && loaded.vocabulary_dir == vocabulary_dir) {
        return loaded.counter;
      }
    }
    auto counter = LoadBpe(encoding, fmt::format("{}/{}.tiktoken", vocabulary_dir, encoding.name));
    if (counter.ok()) loaded_.push_back({&encoding, vocabulary_dir, *counter});
    return counter;
  }

 private:
  struct Loaded {
    const BpeEncoding* encoding;
    std::string vocabulary_dir;
    std::shared_ptr<const TokenCounter> counter;
  };

  Mutex mutex_;
  std::vector<Loaded> loaded_ MEMORYD_GUARDED_BY(mutex_);
};

// Python's str.isspace(), which is not the \s of the other tokenizers: it has U+001C to U+001F.
bool IsPythonSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

class WhitespaceTokenCounter final : public TokenCounter {
 public:
  std::int64_t Count(std::string_view text) const override {
    const char* const end = text.data() + text.size();
    std::int64_t words = 0;
    bool in_word = false;
    for (const char* p = text.data(); p < end;) {
      const DecodedUtf8 next = DecodeUtf8(p, end);
      const bool is_word = next.length == 0 || !IsPythonSpace(next.code_point);
      words += is_word && !in_word ? 1 : 0;
      in_word = is_word;
      p += next.length == 0 ? 1 : next.length;
    }
    return words;
  }
};

}  // namespace

std::optional<std::int64_t> TokenCounter::CountWithin(std::string_view text,
                                                      std::int64_t& cost) const {
  cost -= ScanCost(text);
  if (cost < 0) return std::nullopt;
  return Count(text);
}

absl::StatusOr<std::shared_ptr<const TokenCounter>> MakeTokenCounter(
    std::string_view name, const std::string& vocabulary_dir) {
  static auto* const loaded = new LoadedCounters();
  for (const BpeEncoding& encoding : kBpeEncodings) {
    if (name == encoding.name) {
      return loaded->Get(encoding, vocabulary_dir);
    }
  }
  if (name == "whitespace") {
    return std::make_shared<WhitespaceTokenCounter>();
  }
  return absl::InvalidArgumentError(
      "unknown tokenizer: expected cl100k_base, o200k_base or whitespace");
}

}  // namespace memoryd
