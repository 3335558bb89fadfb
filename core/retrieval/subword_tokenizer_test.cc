#include "core/retrieval/subword_tokenizer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The tokens of bytes, "▁", "a", "b", "▁a", "ab", "▁ab" as 259 to 264, "▁▁" as 265.
nlohmann::json SmallModel() {
  nlohmann::json vocabulary = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (int byte = 0; byte < 256; ++byte) vocabulary[fmt::format("<0x{:02X}>", byte)] = 3 + byte;
  for (const char* token : {"▁", "a", "b", "▁a", "ab", "▁ab", "▁▁"}) {
    vocabulary[token] = vocabulary.size();
  }
  return {{"model",
           {{"type", "BPE"},
            {"byte_fallback", true},
            {"vocab", vocabulary},
            {"merges", {"a b", "▁ a", "▁ ab", "▁ ▁"}}}}};
}

std::vector<SubwordTokenizer::Token> TokensOf(std::string_view text) {
  const auto tokenizer = SubwordTokenizer::Parse(SmallModel().dump());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  std::vector<SubwordTokenizer::Token> tokens;
  (*tokenizer)->Tokenize(text, tokens);
  return tokens;
}

TEST(SubwordTokenizerTest, TheLowestMergeComesFirstAndTheLeftmostOfEquals) {
  EXPECT_THAT(TokensOf("ab"), ElementsAre(264));
  EXPECT_THAT(TokensOf("ab aab b"), ElementsAre(264, 262, 263, 259, 261));
  EXPECT_THAT(TokensOf("ba"), ElementsAre(259, 261, 260));
  EXPECT_THAT(TokensOf(""), IsEmpty());
}

TEST(SubwordTokenizerTest, SpacesAreTokensOfTheWordBehindThem) {
  EXPECT_THAT(TokensOf("  ab "), ElementsAre(265, 264, 259));
  EXPECT_THAT(TokensOf("a▁▁b"), ElementsAre(262, 265, 261));
}

TEST(SubwordTokenizerTest, WhatHasNoTokenBecomesItsBytes) {
  EXPECT_THAT(TokensOf("é\n"), ElementsAre(259, 3 + 0xC3, 3 + 0xA9, 3 + '\n'));
  EXPECT_THAT(TokensOf("\xFF"), ElementsAre(259, 3 + 0xFF));
}

TEST(SubwordTokenizerTest, OtherFilesAreRefused) {
  const auto refused = [](const nlohmann::json& json) {
    return absl::IsInvalidArgument(SubwordTokenizer::Parse(json.dump()).status());
  };
  EXPECT_TRUE(absl::IsInvalidArgument(SubwordTokenizer::Parse("{").status()));
  EXPECT_TRUE(refused(nlohmann::json::array()));
  nlohmann::json other = SmallModel();
  other["model"]["type"] = "WordPiece";
  EXPECT_TRUE(refused(other));
  other = SmallModel();
  other["model"]["merges"].push_back("b ▁");
  EXPECT_TRUE(refused(other));
  other = SmallModel();
  other["model"]["merges"].push_back("b b");
  EXPECT_TRUE(refused(other));
  other = SmallModel();
  other["model"]["vocab"]["<0x00>"] = 70000;
  EXPECT_TRUE(refused(other));
}

}  // namespace
}  // namespace memoryd
