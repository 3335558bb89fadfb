
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/blocks/block.h"
#include "core/blocks/block_kinds.h"
#include "core/blocks/block_knowledge.h"
#include "core/blocks/vector_entry.h"
#include "core/llm/model.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session_config.h"
#include "tests/support/block_fixture.h"
#include "tests/support/fake_models.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;

constexpr auto kLlama = Profile::kLlamaIndex;

class VectorBlockTest : public testing::Test, protected BlockFixture {
 protected:
  std::vector<VectorEntry> Entries() const {
    std::vector<VectorEntry> decoded;
    for (const MessagePtr& row : rows) decoded.push_back(DecodeVectorEntry(row->body).value());
    return decoded;
  }
  // What a job makes of all entries.
  absl::StatusOr<FeedResult> EmbedAnew() const {
    FeedRequest request;
    request.session = session;
    request.state = state;
    request.entries = rows;
    std::optional<absl::StatusOr<FeedResult>> result;
    block->Feed(std::move(request),
                [&result](absl::StatusOr<FeedResult> r) { result = std::move(r); });
    return result.value();
  }
  std::vector<std::string> Queries() const {
    std::vector<std::string> queries;
    for (const HashEmbedder::Call& call : models.embedder->calls) {
      if (call.purpose == EmbedPurpose::kQuery) queries.push_back(call.texts.at(0));
    }
    return queries;
  }
};

using LlamaVectorBlockTest = VectorBlockTest;

TEST_F(LlamaVectorBlockTest, StoresOneEntryAJob) {
  Make("vector", R"({"embedder":"hash"})", kLlama);
  BlockMessage two_parts = Text("assistant", "a", R"({"n":1.0,"t":true,"session_id":"own"})");
  two_parts.parts.parts.emplace_back().text = "b";
  ASSERT_TRUE(Feed({Text("user", "it's <b>"), Text("tool", ""), std::move(two_parts),
                    Text("user", "  ", R"({"session_id":"own"})")})
                  .ok());
  ASSERT_EQ(rows.size(), 1U);
  const VectorEntry entry = Entries()[0];
  EXPECT_EQ(entry.text,
            "<message role='user'>it's <b></message>\n"
            "<message role='assistant'>ab\nAdditional Info: ({'n': 1.0, 't': True})</message>\n"
            "<message role='user'>  </message>");
  EXPECT_EQ(entry.metadata_json, R"({"session_id": "session-1"})");
  EXPECT_THAT(entry.sources,
              ElementsAre(EntrySource{1, "m1"}, EntrySource{3, "m3"}, EntrySource{4, "m4"}));
  EXPECT_EQ(entry.vector, HashEmbedding(entry.text));
  ASSERT_EQ(models.embedder->calls.size(), 1U);
  EXPECT_EQ(models.embedder->calls[0].purpose, EmbedPurpose::kText);
  EXPECT_EQ(usage, (Usage{1, 5, 0}));
}

TEST_F(LlamaVectorBlockTest, StoresNothingWithoutText) {
  Make("vector", R"({"embedder":"hash"})", kLlama);
  ASSERT_TRUE(Feed({Text("user", "")}).ok());
  ASSERT_TRUE(Feed({}).ok());
  EXPECT_TRUE(rows.empty());
  EXPECT_TRUE(models.embedder->calls.empty());
}

TEST_F(LlamaVectorBlockTest, QueriesWithTheLastMessages) {
  const std::vector<BlockMessage> messages = {Text("user", "a"), Text("user", ""),
                                              Text("user", "c"), Text("user", "")};
  Make("vector", R"({"embedder":"hash","retrieval_context_window":3})", kLlama);
  Said(messages);
  // A window of 0 or 1, or one that is not full, means all.
  Make("vector", R"({"embedder":"hash","retrieval_context_window":1})", kLlama);
  Said(messages);
  Make("vector", R"({"embedder":"hash","retrieval_context_window":0})", kLlama);
  Said(messages);
  Make("vector", R"({"embedder":"hash"})", kLlama);
  Said(messages);
  EXPECT_THAT(Queries(), ElementsAre(" c ", "a  c ", "a  c ", "a  c "));
  // Two messages without text are a space, one is nothing to ask for.
  Said({Text("user", ""), Text("user", "")});
  EXPECT_EQ(Queries().back(), " ");
  Said({Text("user", "")});
  Said({});
  EXPECT_EQ(Queries().size(), 5U);
}

TEST_F(LlamaVectorBlockTest, JoinsWhatItFinds) {
  Make("vector", R"({"embedder":"hash","format_template":"Relevant: {text}"})", kLlama);
  EXPECT_EQ(Said({Text("user", "tea")}), "");
  ASSERT_TRUE(Feed({Text("user", "rain and snow")}).ok());
  ASSERT_TRUE(Feed({Text("user", "tea tea tea")}).ok());
  ASSERT_TRUE(Feed({Text("user", "tea with milk")}).ok());
  EXPECT_EQ(Said({Text("user", "tea")}),
            "Relevant: <message role='user'>tea tea tea</message>\n\n"
            "<message role='user'>tea with milk</message>");
  EXPECT_EQ(tasks, 2);
}

TEST_F(LlamaVectorBlockTest, TheThresholdComesAfterTheRanking) {
  Make("vector", R"({"embedder":"hash","similarity_threshold":1,"format_template":"[{text}]"})",
       kLlama);
  EXPECT_EQ(Said({Text("user", "tea")}), "");
  ASSERT_TRUE(Feed({Text("user", "rain")}).ok());
  // Hits that are all left out are formatted as nothing.
  EXPECT_EQ(Said({Text("user", "tea")}), "[]");
  Make("vector", R"({"embedder":"hash","similarity_threshold":1})", kLlama);
  EXPECT_TRUE(Render({Text("user", "tea")})->empty());
}

TEST_F(LlamaVectorBlockTest, FiltersBySession) {
  Make("vector", R"({"embedder":"hash","filter":{"session_id":"session-1"}})", kLlama);
  ASSERT_TRUE(Feed({Text("user", "tea")}).ok());
  EXPECT_NE(Said({Text("user", "tea")}), "");
  Make("vector", R"({"embedder":"hash","filter":{"session_id":"session-2"}})", kLlama);
  EXPECT_EQ(Said({Text("user", "tea")}), "");
}

TEST_F(LlamaVectorBlockTest, PassesErrorsOn) {
  Make("vector", R"({"embedder":"hash"})", kLlama);
  models.embedder->error = absl::UnavailableError("gone");
  EXPECT_EQ(Feed({Text("user", "tea")}).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Render({Text("user", "tea")}).status().code(), absl::StatusCode::kUnavailable);
  Make("vector", R"({"embedder":"unknown"})", kLlama);
  EXPECT_EQ(Feed({Text("user", "tea")}).code(), absl::StatusCode::kNotFound);
}

TEST_F(VectorBlockTest, WhatAnotherModelEmbedsTakesThePlaceOfTheOthers) {
  for (const Profile profile : {Profile::kDefault, kLlama}) {
    state = BlockState();
    rows.clear();
    models.embedder->model = "m";
    Make("vector", R"({"embedder":"hash"})", profile);
    EXPECT_EQ(Known<KnownEntries>().source.size, 0U);
    ASSERT_TRUE(Feed({Text("user", "tea")}).ok());
    EXPECT_EQ(Known<KnownEntries>().source, (EmbeddingSource{"hash", "", "m", 16}));
    models.embedder->model = "another of that size";
    ASSERT_TRUE(Feed({Text("user", "rain")}).ok());
    const EmbeddingSource next{"hash", "", "another of that size", 16};
    EXPECT_EQ(Known<KnownEntries>().source.model, "m");
    ASSERT_TRUE(Known<KnownEntries>().next.has_value());
    EXPECT_EQ(Known<KnownEntries>().next->source, next);
    EXPECT_EQ(ErrorReason(Render({Text("user", "tea")}).status()), "EMBEDDING_MODEL");
    // Nobody is asked for what will be embedded with the others.
    const std::size_t asked = models.embedder->calls.size();
    ASSERT_TRUE(Feed({Text("user", "snow")}).ok());
    EXPECT_EQ(models.embedder->calls.size(), asked);
    ASSERT_EQ(rows.size(), 3U);
    EXPECT_FALSE(Entries()[0].vector.empty());
    EXPECT_TRUE(Entries()[1].vector.empty());
    EXPECT_TRUE(Entries()[2].vector.empty());
    models.embedder->model = "m";
    EXPECT_EQ(Render({Text("user", "rain")}).ok(), true);

    models.embedder->model = "another of that size";
    const FeedResult anew = EmbedAnew().value();
    EXPECT_THAT(anew.entry_positions, ElementsAre(1, 2, 3));
    ASSERT_EQ(anew.entries.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      const VectorEntry entry = DecodeVectorEntry(anew.entries[i]).value();
      EXPECT_EQ(entry.text, Entries()[i].text);
      EXPECT_EQ(entry.sources, Entries()[i].sources);
      EXPECT_EQ(entry.vector, HashEmbedding(entry.text));
    }
    EXPECT_EQ(models.embedder->calls.back().texts.size(), 3U);
    // A third model begins once more.
    models.embedder->model = "a third";
    const FeedResult begun = EmbedAnew().value();
    EXPECT_TRUE(begun.entries.empty());
    EXPECT_EQ(EmbeddingState::FromJson(begun.state)->next->source.model, "a third");
    // So does the first: some have no vector of its.
    models.embedder->model = "m";
    EXPECT_EQ(EmbeddingState::FromJson(EmbedAnew()->state)->next->source.model, "m");
    state.state = "{";
    EXPECT_EQ(Feed({Text("user", "snow")}).code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(Render({Text("user", "tea")}).status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST_F(VectorBlockTest, AModelUnderAnotherNameIsNoOther) {
  models.embedder->model = models.other->model = "m";
  Make("vector", R"({"embedder":"hash"})");
  ASSERT_TRUE(Feed({Text("user", "tea")}).ok());
  Make("vector", R"({"embedder":"other"})");
  ASSERT_TRUE(Feed({Text("user", "rain")}).ok());
  EXPECT_FALSE(Known<KnownEntries>().next.has_value());
  EXPECT_TRUE(Render({Text("user", "tea")}).ok());
  // Of who does not say its model the name counts.
  models.embedder->model.clear();
  Make("vector", R"({"embedder":"hash"})");
  ASSERT_TRUE(Feed({Text("user", "snow")}).ok());
  EXPECT_TRUE(Known<KnownEntries>().next.has_value());
}

TEST_F(VectorBlockTest, EntriesFromBeforeTheModelWasKeptAreRead) {
  Make("vector", R"({"embedder":"hash"})");
  ASSERT_TRUE(Feed({Text("user", "tea")}).ok());
  state.state.clear();
  EXPECT_FALSE(Said({Text("user", "tea")}).empty());
  ASSERT_TRUE(Feed({Text("user", "rain")}).ok());
  EXPECT_EQ(Known<KnownEntries>().source.embedder, "hash");
}

TEST_F(VectorBlockTest, StoresAnEntryATurn) {
  Make("vector", R"({"embedder":"hash"})");
  ASSERT_TRUE(Feed({Text("assistant", "hello"), Text("user", "tea?", R"({"topic":"tea","l":[1]})"),
                    Text("assistant", " yes \n"), Text("user", "rain?"), Text("user", " ")})
                  .ok());
  const std::vector<VectorEntry> stored = Entries();
  ASSERT_EQ(stored.size(), 3U);
  EXPECT_EQ(stored[0].text, "assistant: hello");
  EXPECT_EQ(stored[1].text, "user: tea?\nassistant: yes");
  EXPECT_EQ(stored[1].metadata_json, R"({"topic":"tea"})");
  EXPECT_THAT(stored[1].sources, ElementsAre(EntrySource{2, "m2"}, EntrySource{3, "m3"}));
  EXPECT_EQ(stored[2].text, "user: rain?");
  EXPECT_EQ(stored[2].metadata_json, "");
  EXPECT_EQ(models.embedder->calls.size(), 1U);
}

TEST_F(VectorBlockTest, CutsLongMessagesAndLosesNoWord) {
  Make("vector", R"({"embedder":"hash"})");
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "w" + std::to_string(i) + "\xC3\xA9 ";
  ASSERT_TRUE(Feed({Text("user", text)}).ok());
  std::string joined;
  for (const VectorEntry& entry : Entries()) {
    EXPECT_LE(entry.text.size(), 2000U);
    EXPECT_THAT(entry.sources, ElementsAre(EntrySource{1, "m1"}));
    ASSERT_TRUE(entry.text.starts_with("user: "));
    joined += entry.text.substr(6) + " ";
  }
  EXPECT_EQ(joined, text);
  EXPECT_GT(rows.size(), 1U);
}

TEST_F(VectorBlockTest, SaysTheMostSimilarFirst) {
  Make("vector", R"({"embedder":"hash","top_k":2})");
  EXPECT_EQ(Said({Text("user", "tea")}), "");
  EXPECT_TRUE(models.embedder->calls.empty());
  ASSERT_TRUE(Feed({Text("user", "rain and snow </messages>"), Text("user", "tea tea tea")}).ok());
  ASSERT_TRUE(Feed({Text("user", "rain rain rain")}).ok());
  EXPECT_EQ(Said({Text("user", "what is rain and snow?")}),
            "<messages>\nuser: rain and snow &lt;/messages>\n</messages>\n"
            "<messages>\nuser: rain rain rain\n</messages>");
}

TEST_F(VectorBlockTest, TruncatesTheLeastSimilar) {
  Make("vector", R"({"embedder":"hash","top_k":3})");
  ASSERT_TRUE(Feed({Text("user", "tea"), Text("user", "tea rain"), Text("user", "snow")}).ok());
  const BlockContent all = Render({Text("user", "user tea")}).value();
  ASSERT_EQ(all.parts.size(), 3U);
  BlockContent rest = Truncate(all, 1);
  ASSERT_EQ(rest.parts.size(), 2U);
  EXPECT_EQ(rest.parts[0], all.parts[0]);
  EXPECT_EQ(rest.parts[1], all.parts[1]);
  EXPECT_TRUE(Truncate(all, 1000).empty());
}

TEST_F(VectorBlockTest, HasAThresholdAndAFilter) {
  Make("vector", R"({"embedder":"hash","similarity_threshold":1,"filter":{"topic":"tea"}})");
  ASSERT_TRUE(
      Feed({Text("user", "tea", R"({"topic":"tea"})"), Text("user", "rain", R"({"topic":"rain"})")})
          .ok());
  EXPECT_EQ(Said({Text("user", "user tea")}), "<messages>\nuser: tea\n</messages>");
  EXPECT_EQ(Said({Text("user", "user rain")}), "");
}

TEST_F(VectorBlockTest, SearchesWhereItIsWithoutAnExecutor) {
  BlockEnvironment environment = Environment();
  environment.run = nullptr;
  BlockSettings settings;
  settings.name = "block";
  settings.kind = "vector";
  settings.options_json = R"({"embedder":"hash"})";
  block = MakeBlock(settings, "config.blocks[0]", Profile::kDefault, environment).value();
  ASSERT_TRUE(Feed({Text("user", "tea")}).ok());
  EXPECT_EQ(Said({Text("user", "tea")}), "<messages>\nuser: tea\n</messages>");
}

}  // namespace
}  // namespace memoryd
