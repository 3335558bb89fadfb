#include "core/tokens/bpe_vocabulary.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace memoryd {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> BytesAnd(std::vector<std::string> more) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    tokens.emplace_back(1, static_cast<char>(byte));
  }
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

std::string FileOf(const std::vector<std::string>& tokens) {
  std::string file;
  for (std::size_t rank = 0; rank < tokens.size(); ++rank) {
    file += fmt::format("{} {}\n", std::string(absl::Base64Escape(tokens[rank])), rank);
  }
  return file;
}

std::int64_t Count(const BpeVocabulary& vocabulary, std::string_view piece) {
  std::int64_t cost = std::numeric_limits<std::int64_t>::max();
  return vocabulary.Count(piece, piece.data() + piece.size(), cost);
}

// The definition, word by word: join the adjacent parts of lowest rank, leftmost first.
std::int64_t CountByDefinition(const std::vector<std::string>& tokens, const std::string& piece) {
  std::unordered_map<std::string, std::size_t> ranks;
  for (std::size_t rank = 0; rank < tokens.size(); ++rank) {
    ranks[tokens[rank]] = rank;
  }
  if (ranks.count(piece) > 0) {
    return 1;
  }
  std::vector<std::string> parts;
  for (const char c : piece) {
    parts.emplace_back(1, c);
  }
  while (true) {
    std::size_t best = 0;
    std::size_t best_rank = std::numeric_limits<std::size_t>::max();
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = ranks.find(parts[i] + parts[i + 1]);
      if (found != ranks.end() && found->second < best_rank) {
        best = i;
        best_rank = found->second;
      }
    }
    if (best_rank == std::numeric_limits<std::size_t>::max()) {
      return static_cast<std::int64_t>(parts.size());
    }
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(BpeVocabularyTest, WholePieceThatIsATokenIsNotMerged) {
  // No merges lead to "abc", since neither "ab" nor "bc" is a token.
  const auto vocabulary = BpeVocabulary::Parse(FileOf(BytesAnd({"abc"})));
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  EXPECT_EQ(Count(**vocabulary, "abc"), 1);
  EXPECT_EQ(Count(**vocabulary, "abcabc"), 6);
}

TEST(BpeVocabularyTest, LowestRankIsMergedFirst) {
  const auto vocabulary = BpeVocabulary::Parse(FileOf(BytesAnd({"bc", "ab", "cd", "abcd"})));
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  EXPECT_EQ(Count(**vocabulary, "xabcd"), 4);  // x a bc d
}

TEST(BpeVocabularyTest, MergesAsDefinedAtEveryLength) {
  // Random tokens over three letters, of up to 20 bytes: inlined keys, hashed ones, many ties.
  std::mt19937 random(17);
  const auto text = [&random](std::size_t size) {
    std::string result;
    for (std::size_t i = 0; i < size; ++i) {
      result.push_back("abc"[random() % 3]);
    }
    return result;
  };
  std::vector<std::string> grown = {"aa", "ab", "ca"};
  std::vector<std::string> known = {"a", "b", "c", "aa", "ab", "ca"};
  while (grown.size() < 200) {
    const std::string token = known[random() % known.size()] + known[random() % known.size()];
    if (token.size() <= 20 && std::find(known.begin(), known.end(), token) == known.end()) {
      grown.push_back(token);
      known.push_back(token);
    }
  }
  const std::vector<std::string> tokens = BytesAnd(grown);
  const auto vocabulary = BpeVocabulary::Parse(FileOf(tokens));
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  std::vector<std::size_t> sizes(200);
  std::iota(sizes.begin(), sizes.end(), 1);
  // Here the heap of pairs fills up with stale ones several times.
  sizes.push_back(1500);
  for (const std::size_t size : sizes) {
    for (int i = 0; i < 4; ++i) {
      const std::string piece = i == 0 ? std::string(size, 'a') : text(size);
      ASSERT_EQ(Count(**vocabulary, piece), CountByDefinition(tokens, piece)) << piece;
    }
  }
}

TEST(BpeVocabularyTest, NoMoreIsMergedThanMayBeSpent) {
  const auto vocabulary = BpeVocabulary::Parse(FileOf(BytesAnd({"ab", "abab"})));
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  const auto left = [&vocabulary](const std::string& piece, std::int64_t cost) {
    (*vocabulary)->Count(piece, piece.data() + piece.size(), cost);
    return cost;
  };
  EXPECT_EQ(left("abab", 0), 0) << "a token, and nothing to be merged";
  EXPECT_EQ(left("ababab", 10), 4);
  EXPECT_LT(left("ababab", 5), 0);
  EXPECT_EQ(left(std::string(96, 'a'), 96), 0);
  EXPECT_EQ(left(std::string(100, 'a'), 200), 0) << "a byte of a long piece costs twice as much";
}

TEST(BpeVocabularyTest, NothingIsReadBeyondTheBuffer) {
  const auto vocabulary = BpeVocabulary::Parse(FileOf(BytesAnd({"ab", "abab"})));
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  for (std::size_t size = 1; size <= 130; ++size) {
    const std::vector<char> piece(size, 'a');  // Exactly allocated, for the sanitizer.
    EXPECT_EQ(Count(**vocabulary, {piece.data(), size}), static_cast<std::int64_t>(size));
  }
}

TEST(BpeVocabularyTest, FilesThatAreNotAVocabularyAreRefused) {
  const std::string good = FileOf(BytesAnd({"ab"}));
  EXPECT_TRUE(BpeVocabulary::Parse(good).ok());
  EXPECT_TRUE(BpeVocabulary::Parse(good.substr(0, good.size() - 1)).ok());  // No last newline.
  for (const std::string& bad :
       {std::string(), std::string("\n"), good + "YQ==\n", good + "YWI= 256\n", good + "YWI= 258\n",
        good + "YWI= 257x\n", good + "Y?I= 257\n", good + " 257\n", good + "YQ== 257\n",
        good + fmt::format("{} 257\n", std::string(absl::Base64Escape(std::string(256, 'a')))),
        good.substr(0, good.size() / 2)}) {
    EXPECT_EQ(BpeVocabulary::Parse(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_THAT(std::string(BpeVocabulary::Parse(good + "x\n").status().message()),
              HasSubstr("line 258"));
}

}  // namespace
}  // namespace memoryd
