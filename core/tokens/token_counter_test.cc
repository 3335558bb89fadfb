#include "core/tokens/token_counter.h"

#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace memoryd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::shared_ptr<const TokenCounter> Counter(std::string_view name) {
  auto counter = MakeTokenCounter(name, MEMORYD_TEST_VOCABULARY_DIR);
  EXPECT_TRUE(counter.ok()) << counter.status();
  return counter.ok() ? *counter : nullptr;
}

// A folder of its own for a test, removed behind it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tokens-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The golden file's lines: [text, cl100k_base, o200k_base, whitespace].
void ExpectGoldenCounts(std::string_view name, std::size_t column) {
  const auto counter = Counter(name);
  ASSERT_NE(counter, nullptr);
  std::ifstream file(MEMORYD_TEST_TOKEN_GOLDENS);
  int checked = 0;
  for (std::string line; std::getline(file, line); ++checked) {
    const auto golden = nlohmann::json::parse(line);
    EXPECT_EQ(counter->Count(golden[0].get<std::string>()), golden[column].get<std::int64_t>())
        << line;
  }
  EXPECT_GE(checked, 300);
}

TEST(TokenCounterTest, Cl100kCountsAsTiktokenDoes) { ExpectGoldenCounts("cl100k_base", 1); }

TEST(TokenCounterTest, O200kCountsAsTiktokenDoes) { ExpectGoldenCounts("o200k_base", 2); }

TEST(TokenCounterTest, WhitespaceCountsAsPythonSplitDoes) { ExpectGoldenCounts("whitespace", 3); }

TEST(TokenCounterTest, EmptyTextHasNoTokens) {
  for (const char* const name : {"cl100k_base", "o200k_base", "whitespace"}) {
    EXPECT_EQ(Counter(name)->Count(""), 0) << name;
    EXPECT_EQ(Counter(name)->Count(std::string_view()), 0) << name;
  }
}

TEST(TokenCounterTest, MegabyteRunsCountAsTiktokenDoes) {
  constexpr std::size_t kSize = 1'000'000;
  EXPECT_EQ(Counter("cl100k_base")->Count(std::string(kSize, 'a')), 125'000);
  EXPECT_EQ(Counter("cl100k_base")->Count(std::string(kSize, ' ')), 7'813);
  EXPECT_EQ(Counter("o200k_base")->Count(std::string(kSize, '\n')), 62'500);
}

// Words of so many letters, in no order.
std::string RandomWords(std::size_t letters, std::size_t size) {
  std::mt19937 random(7);
  std::string text;
  while (text.size() < size) {
    text.push_back(text.size() % (letters + 1) == letters ? ' '
                                                          : static_cast<char>('a' + random() % 26));
  }
  return text;
}

std::string Repeated(std::string_view text, std::size_t size) {
  std::string result;
  while (result.size() < size) result += text;
  return result;
}

constexpr std::string_view kProse =
    "She said that it wouldn't rain tomorrow; they went out, all 12. ";
constexpr std::string_view kChinese = "我们今天下午去公园散步，天气很好。";

TEST(TokenCounterTest, WhatIsCheapIsCountedTheSameWithinItsCost) {
  constexpr std::int64_t kCost = 4608;
  for (const char* const name : {"cl100k_base", "o200k_base", "whitespace"}) {
    const auto counter = Counter(name);
    for (const std::string& text :
         {std::string(), std::string("word"), Repeated(kProse, 32'000), Repeated(kChinese, 4040),
          RandomWords(8, 4096), "a <|endoftext|> b" + std::string(200, '-')}) {
      std::int64_t cost = kCost;
      EXPECT_EQ(counter->CountWithin(text, cost), counter->Count(text))
          << name << text.substr(0, 100);
      EXPECT_GE(cost, 0);
      EXPECT_LT(cost, kCost);
    }
  }
}

TEST(TokenCounterTest, WhatWouldCostMoreIsNotCounted) {
  for (const char* const name : {"cl100k_base", "o200k_base"}) {
    const auto counter = Counter(name);
    for (const std::string& text :
         {std::string(3000, 'a'), std::string(32'000, ' '), RandomWords(32'000, 32'000),
          RandomWords(90, 6000), Repeated(kChinese, 32'000), Repeated(kProse, 200'000)}) {
      std::int64_t cost = 4608;
      EXPECT_EQ(counter->CountWithin(text, cost), std::nullopt) << name << text.substr(0, 100);
    }
  }
  std::int64_t cost = 4608;
  EXPECT_EQ(Counter("whitespace")->CountWithin(std::string(100'000, 'a'), cost), std::nullopt);
}

TEST(TokenCounterTest, OnlyLongPiecesTakeMemory) {
  for (const char* const name : {"cl100k_base", "o200k_base"}) {
    const auto counter = Counter(name);
    EXPECT_EQ(counter->ScratchBytes(Repeated(kProse, 100'000)), 0U);
    EXPECT_EQ(counter->ScratchBytes(kProse), 0U);
    const std::size_t bytes =
        counter->ScratchBytes(Repeated(kProse, 100'000) + std::string(100'000, 'a'));
    EXPECT_NEAR(static_cast<double>(bytes), 2'200'000, 100);
  }
  EXPECT_EQ(Counter("whitespace")->ScratchBytes(std::string(100'000, 'a')), 0U);
}

TEST(TokenCounterTest, BytesThatAreNotUtf8AreCounted) {
  // Every byte pair, alone and behind text; a view that ends where its buffer does, so that a
  // sanitizer sees a read beyond it.
  for (const char* const name : {"cl100k_base", "o200k_base"}) {
    const auto counter = Counter(name);
    for (int first = 0; first < 256; ++first) {
      for (int second = 0; second < 256; ++second) {
        const std::vector<char> bytes = {static_cast<char>(first), static_cast<char>(second)};
        const std::int64_t count = counter->Count({bytes.data(), bytes.size()});
        ASSERT_TRUE(count == 1 || count == 2) << first << ' ' << second;
      }
    }
    EXPECT_GE(counter->Count("word \xF0\x9F\x98"), 2);
    EXPECT_GE(counter->Count("\xED\xA0\x80"), 1);
  }
  EXPECT_EQ(Counter("whitespace")->Count("\xFF \xC0\xE3\x80"), 2);
}

TEST(TokenCounterTest, CounterIsSharedByAllWhoAsk) {
  const auto counter = Counter("cl100k_base");
  std::vector<std::shared_ptr<const TokenCounter>> seen(4);
  std::vector<std::thread> threads;
  for (auto& slot : seen) {
    threads.emplace_back([&slot] { slot = Counter("cl100k_base"); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_THAT(seen, ::testing::Each(counter));
}

TEST(TokenCounterTest, UnknownNameIsRefused) {
  for (const char* const name : {"", "caller", "CL100K_BASE", "../cl100k_base"}) {
    EXPECT_EQ(MakeTokenCounter(name, MEMORYD_TEST_VOCABULARY_DIR).status().code(),
              absl::StatusCode::kInvalidArgument)
        << name;
  }
}

TEST(TokenCounterTest, MissingVocabularyIsNamedWithTheRemedy) {
  const TemporaryFolder folder;
  const absl::Status status = MakeTokenCounter("o200k_base", folder.path().string()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr((folder.path() / "o200k_base.tiktoken").string()),
                    HasSubstr("fetch_vocabulary.py")));
}

TEST(TokenCounterTest, DamagedVocabularyIsRefusedAndThenReadOnceRepaired) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "cl100k_base.tiktoken";
  const auto good = std::filesystem::path(MEMORYD_TEST_VOCABULARY_DIR) / "cl100k_base.tiktoken";
  std::filesystem::copy_file(good, path);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(1000);
    file.put('\0');
  }
  const absl::Status status = MakeTokenCounter("cl100k_base", folder.path().string()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path.string()));

  std::filesystem::copy_file(good, path, std::filesystem::copy_options::overwrite_existing);
  EXPECT_TRUE(MakeTokenCounter("cl100k_base", folder.path().string()).ok());
}

}  // namespace
}  // namespace memoryd
