#include "core/blocks/message_embedder.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/blocks/block.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/vector_entry.h"
#include "core/llm/model.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/model/usage_count.h"
#include "tests/support/block_fixture.h"
#include "tests/support/fake_models.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class MessageEmbedderTest : public ::testing::Test {
 protected:
  // A job of messages at `positions` with these bodies.
  absl::StatusOr<FeedResult> Feed(std::vector<std::pair<std::int64_t, std::string>> messages,
                                  std::string state = {}) {
    FeedRequest request;
    request.session = fixture_.session;
    request.state.state = std::move(state);
    request.state.entry_generation = 7;
    request.job_id = "job";
    request.usage = usage_;
    for (auto& [position, body] : messages) {
      MessageDraft row;
      row.position = position;
      row.body = std::move(body);
      request.messages.emplace_back().row = row;
    }
    std::optional<absl::StatusOr<FeedResult>> result;
    Embedder()->Feed(std::move(request),
                     [&result](absl::StatusOr<FeedResult> r) { result = std::move(r); });
    return result.value();
  }
  std::shared_ptr<const Block> Embedder() {
    return std::make_shared<const MessageEmbedder>(
        ModelName{"", embedder_}, fixture_.Environment(),
        [this](const SessionKey&, std::uint64_t generation, std::int64_t begin,
               std::int64_t end) -> absl::StatusOr<std::vector<std::int64_t>> {
          EXPECT_EQ(generation, generation_);
          if (!store_.ok()) return store_;
          std::vector<std::int64_t> found;
          for (const std::int64_t position : stored_) {
            if (position >= begin && position < end) found.push_back(position);
          }
          return found;
        });
  }
  static std::vector<std::vector<float>> Vectors(const FeedResult& result) {
    std::vector<std::vector<float>> vectors;
    for (const std::string& body : result.entries) {
      const auto entry = DecodeVectorEntry(body);
      EXPECT_TRUE(entry.ok()) << entry.status();
      if (entry.ok()) vectors.push_back(entry->vector);
    }
    return vectors;
  }
  const std::vector<HashEmbedder::Call>& Calls() { return fixture_.models.embedder->calls; }

  BlockFixture fixture_;
  std::string embedder_ = "hash";
  std::shared_ptr<UsageCount> usage_ = std::make_shared<UsageCount>();
  std::uint64_t generation_ = 7;  // Of the embeddings that are made.
  std::vector<std::int64_t> stored_;
  absl::Status store_;
};

TEST_F(MessageEmbedderTest, AsksForAllMessagesOfAJobAtOnce) {
  const auto result = Feed({{3, "one"}, {4, " two \n"}, {9, "three"}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->entry_positions, ElementsAre(3, 4, 9));
  EXPECT_THAT(Vectors(*result),
              ElementsAre(HashEmbedding("one"), HashEmbedding("two"), HashEmbedding("three")));
  ASSERT_THAT(Calls(), SizeIs(1));
  EXPECT_THAT(Calls()[0].texts, ElementsAre("one", "two", "three"));
  EXPECT_EQ(Calls()[0].purpose, EmbedPurpose::kText);
  EXPECT_EQ(usage_->Total(), (Usage{1, 5, 0}));
  const auto state = EmbeddingState::FromJson(result->state);
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(state->source, (EmbeddingSource{"hash", "", "", 16}));
}

TEST_F(MessageEmbedderTest, WhatHasNoWordsIsNotAskedFor) {
  const auto result = Feed({{1, ""}, {2, "unreadable"}, {3, "words"}, {4, " \n"}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->entry_positions, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Vectors(*result),
              ElementsAre(IsEmpty(), IsEmpty(), HashEmbedding("words"), IsEmpty()));
  EXPECT_THAT(Calls()[0].texts, ElementsAre("words"));
  const auto none = Feed({{5, " "}}, result->state);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->state, result->state);
  EXPECT_THAT(Calls(), SizeIs(1));
}

TEST_F(MessageEmbedderTest, WhatHasAnEmbeddingKeepsIt) {
  stored_ = {4, 2};
  const auto result = Feed({{1, "a"}, {2, "b"}, {3, "c"}, {4, "d"}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->entry_positions, ElementsAre(1, 3));
  EXPECT_THAT(Calls()[0].texts, ElementsAre("a", "c"));
}

TEST_F(MessageEmbedderTest, LongTextsAreCutBetweenCharacters) {
  std::string text(1999, 'x');
  ASSERT_TRUE(Feed({{1, text + "\u00e9 and more"}}).ok());
  EXPECT_THAT(Calls()[0].texts, ElementsAre(text));
}

TEST_F(MessageEmbedderTest, AnAnswerOfAnotherKindMakesNoEntryAndBeginsAnew) {
  EmbeddingState state;
  state.source.size = 15;
  const auto result = Feed({{1, "a"}}, state.ToJson());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->entries, IsEmpty());
  EXPECT_THAT(result->entry_positions, IsEmpty());
  EXPECT_EQ(usage_->Total().calls, 1);
  state = EmbeddingState::FromJson(result->state).value();
  EXPECT_EQ(state.source.size, 15U);
  ASSERT_TRUE(state.next.has_value());
  EXPECT_EQ(state.next->source, (EmbeddingSource{"hash", "", "", 16}));
  EXPECT_TRUE(absl::IsDataLoss(Feed({{1, "a"}}, "{").status()));
}

TEST_F(MessageEmbedderTest, ThoseThatAreMadeAnewAreLookedForAmongThemselves) {
  EmbeddingState state;
  state.source = {"old", "", "", 3};
  NextEmbeddings& next = state.next.emplace();
  next.generation = generation_ = 9;
  next.source.embedder = "hash";
  stored_ = {2};
  const auto result = Feed({{1, "a"}, {2, "b"}}, state.ToJson());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->entry_positions, ElementsAre(1));
  state = EmbeddingState::FromJson(result->state).value();
  EXPECT_EQ(state.next->source.size, 16U);
  EXPECT_EQ(state.next->generation, 9U);
  EXPECT_EQ(state.source.size, 3U);
}

TEST_F(MessageEmbedderTest, ErrorsArePassedOn) {
  fixture_.models.embedder->error = absl::UnavailableError("down");
  EXPECT_TRUE(absl::IsUnavailable(Feed({{1, "a"}}).status()));
  embedder_ = "unknown";
  EXPECT_TRUE(absl::IsNotFound(Feed({{1, "a"}}).status()));
  store_ = absl::UnavailableError("no store");
  EXPECT_TRUE(absl::IsUnavailable(Feed({{1, "a"}}).status()));
}

TEST_F(MessageEmbedderTest, AQueryIsAskedForAsOne) {
  std::optional<absl::StatusOr<EmbeddedQuery>> answer;
  EmbedQuery(fixture_.models, {"", "hash"}, fixture_.session.key, "what", usage_, nullptr, {},
             [&answer](absl::StatusOr<EmbeddedQuery> r) { answer = std::move(r); });
  ASSERT_TRUE(answer.has_value() && answer->ok()) << answer->status();
  EXPECT_EQ((*answer)->vector, HashEmbedding("what"));
  EXPECT_EQ((*answer)->source, (EmbeddingSource{"hash", "", "", 16}));
  EXPECT_EQ(Calls()[0].purpose, EmbedPurpose::kQuery);
  EXPECT_EQ(usage_->Total(), (Usage{1, 5, 0}));
}

}  // namespace
}  // namespace memoryd
