#include "core/blocks/fit_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/blocks/block.h"
#include "core/blocks/block_kinds.h"
#include "core/blocks/memory_text.h"
#include "core/model/body_reader.h"
#include "core/model/session_config.h"
#include "core/tokens/token_counter.h"
#include "tests/support/block_fixture.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr auto kLlama = Profile::kLlamaIndex;

// What a block of tests does when it is to shorten itself.
enum class Trim { kWhole, kWords, kTooLittle, kLonger, kFail, kRanks };

class TrimBlock final : public Block {
 public:
  TrimBlock(const BlockSettings& settings, Trim trim, std::vector<std::string>* log)
      : Block(settings), trim_(trim), log_(log) {}

  bool feeds() const override { return false; }
  void Feed(FeedRequest, Done<FeedResult> done) const override { done(FeedResult()); }
  void Render(RenderRequest, Done<BlockContent> done) const override { done(BlockContent()); }

  void Truncate(const BlockSession& session, BlockContent content, std::int64_t tokens,
                const TokenCounter& counter, BlockDeadline deadline,
                Done<BlockContent> done) const override {
    log_->push_back(name() + " " + std::to_string(tokens));
    switch (trim_) {
      case Trim::kWhole:
        Block::Truncate(session, std::move(content), tokens, counter, deadline, std::move(done));
        return;
      case Trim::kWords:
        done(WithoutWords(std::move(content), tokens));
        return;
      case Trim::kTooLittle:
        done(WithoutWords(std::move(content), 1));
        return;
      case Trim::kLonger:
        content.parts.emplace_back().text = "more";
        done(std::move(content));
        return;
      case Trim::kFail:
        done(absl::UnavailableError("gone"));
        return;
      case Trim::kRanks:
        done(WithoutLowestRanks(std::move(content), tokens, counter));
        return;
    }
  }

 private:
  // Words are "w ", so that two bytes are one.
  static BlockContent WithoutWords(BlockContent content, std::int64_t words) {
    if (content.parts.empty()) return content;
    std::string& text = content.parts[0].text;
    const auto bytes = static_cast<std::size_t>(words) * 2;
    if (bytes >= text.size()) return {};
    text.resize(text.size() - bytes);
    return content;
  }

  const Trim trim_;
  std::vector<std::string>* const log_;
};

class FitBlocksTest : public testing::Test {
 protected:
  // A block that says `words` words.
  void Add(std::string name, std::int32_t priority, int words, Trim trim = Trim::kWhole) {
    BlockSettings settings;
    settings.name = std::move(name);
    settings.priority = priority;
    request_.blocks.push_back(std::make_shared<const TrimBlock>(settings, trim, &log_));
    BlockContent& content = request_.contents.emplace_back();
    if (words == 0) return;
    std::string text;
    for (int i = 0; i < words; ++i) text += "w ";
    content.parts.emplace_back().text = text;
  }

  FitResult Fit(Profile profile, std::int64_t limit, std::int64_t message_tokens = 0) {
    return Fit(profile, profile != kLlama, limit, message_tokens);
  }

  FitResult Fit(Profile profile, bool highest_first, std::int64_t limit,
                std::int64_t message_tokens) {
    request_.session.profile = request_.counting.profile = profile;
    request_.highest_first = highest_first;
    request_.token_limit = limit;
    request_.message_tokens = message_tokens;
    request_.counter = std::make_shared<const WordCounter>();
    std::optional<FitResult> result;
    log_.clear();
    FitBlocks(request_, [&result](absl::StatusOr<FitResult> r) { result = *std::move(r); });
    return result.value();
  }

  // The words that each block still says.
  static std::vector<std::int64_t> Words(const FitResult& result) {
    std::vector<std::int64_t> words;
    for (const MemorySection& section : result.sections) {
      std::int64_t count = 0;
      for (const BlockPart& part : section.content.parts) count += WordCounter().Count(part.text);
      words.push_back(count);
    }
    return words;
  }

  FitRequest request_;
  std::vector<std::string> log_;
};

TEST_F(FitBlocksTest, LeavesWhatFits) {
  Add("a", 1, 5);
  Add("b", 0, 5);
  EXPECT_THAT(Words(Fit(kLlama, 20, 10)), ElementsAre(5, 5));
  EXPECT_THAT(log_, IsEmpty());
  const FitResult result = Fit(kLlama, 20, 10);
  EXPECT_EQ(result.tokens, 10);
  EXPECT_THAT(result.dropped, IsEmpty());
  EXPECT_THAT(result.truncated, IsEmpty());
}

TEST_F(FitBlocksTest, LlamaCutsTheLowestPriorityFirst) {
  Add("two", 2, 5);
  Add("one", 1, 5);
  Add("zero", 0, 5);
  Add("one_too", 1, 5);
  FitResult result = Fit(kLlama, 19);
  EXPECT_THAT(Words(result), ElementsAre(5, 0, 5, 5));
  EXPECT_THAT(log_, ElementsAre("one 1"));
  EXPECT_THAT(result.dropped, ElementsAre("one"));
  result = Fit(kLlama, 8);
  EXPECT_THAT(Words(result), ElementsAre(0, 0, 5, 0));
  EXPECT_THAT(log_, ElementsAre("one 12", "one_too 7", "two 2"));
  EXPECT_THAT(result.dropped, ElementsAre("two", "one", "one_too"));
  // What has priority 0 stays, though the limit is exceeded.
  EXPECT_THAT(Words(Fit(kLlama, 1)), ElementsAre(0, 0, 5, 0));
}

TEST_F(FitBlocksTest, LlamaCutsTheHighestPriorityFirstWhereTheSessionSaysSo) {
  Add("one", 1, 5);
  Add("two", 2, 5);
  Add("zero", 0, 5);
  Add("two_too", 2, 5);
  EXPECT_THAT(Words(Fit(kLlama, /*highest_first=*/true, 19, 0)), ElementsAre(5, 0, 5, 5));
  EXPECT_THAT(log_, ElementsAre("two 1"));
  EXPECT_THAT(Words(Fit(kLlama, /*highest_first=*/true, 10, 0)), ElementsAre(5, 0, 5, 0));
  EXPECT_THAT(Words(Fit(Profile::kDefault, /*highest_first=*/false, 30, 0)),
              ElementsAre(0, 5, 5, 5));
}

TEST_F(FitBlocksTest, LlamaAsksBlocksThatSayNothingToo) {
  Add("empty", 1, 0);
  Add("a", 2, 5, Trim::kWords);
  const FitResult result = Fit(kLlama, 3);
  EXPECT_THAT(log_, ElementsAre("empty 2", "a 2"));
  EXPECT_THAT(Words(result), ElementsAre(0, 3));
  EXPECT_THAT(result.truncated, ElementsAre("a"));
  EXPECT_THAT(result.dropped, IsEmpty());
}

TEST_F(FitBlocksTest, LlamaRemovesWholeBlocksInASecondPass) {
  Add("a", 1, 5, Trim::kTooLittle);
  Add("b", 2, 5, Trim::kTooLittle);
  // 10 words; one each is cut, then a goes.
  const FitResult result = Fit(kLlama, 5);
  EXPECT_THAT(log_, ElementsAre("a 5", "b 4"));
  EXPECT_THAT(Words(result), ElementsAre(0, 4));
  EXPECT_EQ(result.tokens, 4);
}

TEST_F(FitBlocksTest, LlamaStopsAsSoonAsItFits) {
  Add("a", 1, 5, Trim::kTooLittle);
  Add("b", 2, 5, Trim::kWords);
  EXPECT_THAT(Words(Fit(kLlama, 8)), ElementsAre(4, 4));
  EXPECT_THAT(log_, ElementsAre("a 2", "b 1"));
}

TEST_F(FitBlocksTest, ABlockThatFailsGoesWhole) {
  Add("a", 1, 5, Trim::kFail);
  for (const Profile profile : {kLlama, Profile::kDefault}) {
    const FitResult result = Fit(profile, 4);
    EXPECT_THAT(Words(result), ElementsAre(0));
    EXPECT_THAT(result.dropped, ElementsAre("a"));
  }
}

// Counts words, and the bytes that it was given.
class ByteNotingCounter final : public TokenCounter {
 public:
  explicit ByteNotingCounter(std::size_t* bytes) : bytes_(*bytes) {}
  std::int64_t Count(std::string_view text) const override {
    bytes_ += text.size();
    return WordCounter().Count(text);
  }

 private:
  std::size_t& bytes_;
};

TEST_F(FitBlocksTest, AStaticTextIsCountedOnceForTheSameConditions) {
  constexpr std::size_t kBytes = 10'000;
  BlockFixture fixture;
  BlockSettings settings;
  settings.name = "rules";
  settings.kind = "static";
  settings.content = {std::string(kBytes, 'w') + " </a>"};
  for (const Profile profile : {kLlama, Profile::kDefault}) {
    const auto block = MakeBlock(settings, "blocks[0]", profile, fixture.Environment()).value();
    std::size_t bytes = 0;
    FitRequest request;
    request.session.profile = request.counting.profile = profile;
    request.token_limit = 1000;
    request.counter = std::make_shared<const ByteNotingCounter>(&bytes);
    const auto fit = [&request, &block, &bytes](std::vector<std::string> others) {
      request.blocks = {block};
      block->Render({}, [&request](absl::StatusOr<BlockContent> content) {
        request.contents = {*std::move(content)};
      });
      for (std::string& name : others) {
        BlockSettings other;
        other.name = std::move(name);
        request.blocks.push_back(std::make_shared<const TrimBlock>(other, Trim::kWhole, nullptr));
        request.contents.emplace_back();
      }
      bytes = 0;
      std::optional<FitResult> result;
      FitBlocks(request, [&result](absl::StatusOr<FitResult> r) { result = *std::move(r); });
      return result->tokens;
    };
    const std::int64_t tokens = fit({});
    EXPECT_GE(bytes, kBytes);
    EXPECT_EQ(fit({}), tokens);
    EXPECT_LT(bytes, kBytes);
    // Another block, other estimates, another counter.
    fit({"a"});
    EXPECT_GE(bytes, kBytes);
    fit({"a"});
    EXPECT_LT(bytes, kBytes);
    request.counting.image_token_count = 7;
    fit({"a"});
    EXPECT_GE(bytes, kBytes);
    request.counter = std::make_shared<const ByteNotingCounter>(&bytes);
    fit({"a"});
    EXPECT_GE(bytes, kBytes);
  }
}

TEST_F(FitBlocksTest, WhatCannotBeCountedIsAnError) {
  Add("a", 0, 1);
  request_.contents[0].parts[0].kind = StoredPart::Kind::kThinking;
  request_.counting.profile = kLlama;
  std::optional<absl::Status> status;
  FitBlocks(request_, [&status](absl::StatusOr<FitResult> r) { status = r.status(); });
  EXPECT_EQ(status->code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status->message(), "Invalid message type: <class 'list'>");
}

TEST_F(FitBlocksTest, DefaultCutsTheHighestPriorityFirst) {
  Add("two", 2, 5);
  Add("one", 1, 5);
  Add("zero", 0, 5);
  Add("two_too", 2, 5);
  // Four sections of 7, the whole's tags and a message: 34.
  EXPECT_THAT(Words(Fit(Profile::kDefault, 34)), ElementsAre(5, 5, 5, 5));
  EXPECT_THAT(Words(Fit(Profile::kDefault, 33)), ElementsAre(5, 5, 5, 0));
  EXPECT_THAT(log_, ElementsAre("two_too 1"));
  EXPECT_THAT(Words(Fit(Profile::kDefault, 20)), ElementsAre(0, 5, 5, 0));
  EXPECT_THAT(Words(Fit(Profile::kDefault, 1)), ElementsAre(0, 0, 5, 0));
}

TEST_F(FitBlocksTest, DefaultAsksAgainThenGivesUp) {
  Add("a", 1, 5, Trim::kTooLittle);
  const FitResult result = Fit(Profile::kDefault, 10);
  EXPECT_THAT(log_, ElementsAre("a 3", "a 2"));
  EXPECT_THAT(Words(result), ElementsAre(0));
  EXPECT_THAT(Words(Fit(Profile::kDefault, 11)), ElementsAre(3));
}

TEST_F(FitBlocksTest, DefaultIsNotFooledByWhoGrows) {
  Add("a", 1, 5, Trim::kLonger);
  EXPECT_THAT(Words(Fit(Profile::kDefault, 10)), ElementsAre(0));
  EXPECT_EQ(log_.size(), 2U);
}

// Whatever blocks do: what may be cut never exceeds the limit, priority 0 is whole, tokens are
// those of the parts.
TEST_F(FitBlocksTest, PropertyNeverAboveTheLimit) {
  std::mt19937 random(6);
  for (int round = 0; round < 2000; ++round) {
    request_ = FitRequest();
    std::vector<int> priorities;
    const std::size_t count = random() % 6;
    for (std::size_t i = 0; i < count; ++i) {
      priorities.push_back(static_cast<int>(random() % 4));
      Add("b" + std::to_string(i), priorities.back(), static_cast<int>(random() % 8),
          static_cast<Trim>(random() % 6));
    }
    const std::vector<BlockContent> before = request_.contents;
    const Profile profile = random() % 2 == 0 ? kLlama : Profile::kDefault;
    const auto limit = static_cast<std::int64_t>(random() % 60);
    const auto messages = static_cast<std::int64_t>(random() % 20);
    const FitResult result = Fit(profile, limit, messages);
    ASSERT_EQ(result.sections.size(), count);
    bool only_fixed = true;
    for (std::size_t i = 0; i < count; ++i) {
      const BlockContent& content = result.sections[i].content;
      if (priorities[i] == 0) {
        EXPECT_EQ(content.parts, before[i].parts);
      } else {
        only_fixed = only_fixed && content.empty();
      }
    }
    EXPECT_TRUE(only_fixed || result.tokens + messages <= limit) << round;
    if (profile == Profile::kDefault) {
      std::int64_t tokens = 0;
      const std::vector<BlockPart> parts = MemoryParts(profile, result.sections).value();
      for (const BlockPart& part : parts) {
        tokens += WordCounter().Count(part.text);
      }
      EXPECT_EQ(result.tokens, tokens == 0 ? 0 : tokens + 4);
    }
  }
}

}  // namespace
}  // namespace memoryd
