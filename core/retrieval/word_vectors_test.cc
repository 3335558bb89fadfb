// What is refused; what is read right, ranking_golden_test.cc tells.
#include "core/retrieval/word_vectors.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::size_t kTokens = 259;
constexpr std::string_view kTable = "table.safetensors";
constexpr std::string_view kTokenizer = "table.tokenizer.json";

class WordVectorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "word-vectors-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    nlohmann::json vocabulary = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
    for (int byte = 0; byte < 256; ++byte) vocabulary[fmt::format("<0x{:02X}>", byte)] = 3 + byte;
    const nlohmann::json model = {{"type", "BPE"}, {"byte_fallback", true}, {"vocab", vocabulary}};
    nlohmann::json tokenizer;
    tokenizer["model"] = model;
    tokenizer["model"]["merges"] = nlohmann::json::array();
    Write(kTokenizer, tokenizer.dump());
    Write(kTable, Table(kTokens));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Write(std::string_view name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }

  // Numbers of 1, but -2 for the token of "a", and the smallest above 0 for that of "b".
  static std::string Table(std::size_t rows) {
    const std::size_t numbers = rows * WordVectors::kDimensions;
    std::string header = fmt::format(
        R"({{"embedding.weight":{{"dtype":"F16","shape":[{},{}],"data_offsets":[0,{}]}}}})", rows,
        WordVectors::kDimensions, numbers * 2);
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const auto size = static_cast<std::uint64_t>(header.size());
    std::string bytes(reinterpret_cast<const char*>(&size), sizeof size);
    bytes += header;
    for (std::size_t i = 0; i < numbers; ++i) {
      const std::size_t row = i / WordVectors::kDimensions;
      const std::uint16_t half = row == 3 + 'a' ? 0xC000 : row == 3 + 'b' ? 0x0001 : 0x3C00;
      bytes.append(reinterpret_cast<const char*>(&half), sizeof half);
    }
    return bytes;
  }

  std::filesystem::path folder_;
};

TEST_F(WordVectorsTest, NumbersOf16BitsAreReadAsTheyAre) {
  const auto vectors = WordVectors::Load(folder_ / kTable);
  ASSERT_TRUE(vectors.ok()) << vectors.status();
  WordVectors::Vector sum = {};
  (*vectors)->Add(3 + 'a', 0.5F, sum);
  EXPECT_EQ(sum[0], -1);
  EXPECT_EQ(sum[255], -1);
  const std::array<WordVectors::Vector, 2> factors = {sum, WordVectors::Vector{1}};
  std::array<float, 2> products = {};
  (*vectors)->Dot(3 + 'a', factors, products.data());
  EXPECT_THAT(products, ElementsAre(512, -2));
  (*vectors)->Dot(3 + 'b', factors, products.data());
  EXPECT_EQ(products[0], -256 * std::ldexp(1.0F, -24));
  // In lower case, and with the space that stands before every text.
  EXPECT_EQ((*vectors)->Tokens("A").back(), 3 + 'a');
  EXPECT_EQ((*vectors)->Tokens("É"), (*vectors)->Tokens("é"));
}

TEST_F(WordVectorsTest, AFileThatIsNotThereIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(WordVectors::Load(folder_ / "none").status()));
  std::filesystem::remove(folder_ / kTable);
  const absl::Status status = WordVectors::Load(folder_ / kTable).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(kTable)));
}

TEST_F(WordVectorsTest, AFileThatIsNoneIsNamed) {
  for (const std::string& bytes :
       {std::string(), std::string("short"), std::string(100, '\xFF'), Table(kTokens - 1),
        Table(kTokens) + "x", Table(kTokens).substr(0, 1000)}) {
    Write(kTable, bytes);
    const absl::Status status = WordVectors::Load(folder_ / kTable).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bytes.size();
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(kTable)));
  }
  Write(kTokenizer, "{}");
  const absl::Status status = WordVectors::Load(folder_ / kTable).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(kTokenizer)));
}

}  // namespace
}  // namespace memoryd
