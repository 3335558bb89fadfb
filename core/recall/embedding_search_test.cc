// Embeddings in a session's index: as jobs make them, and in random histories.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
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
#include "core/blocks/embedding_state.h"
#include "core/blocks/message_embedder.h"
#include "core/llm/model.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/ranking_options.h"
#include "core/model/session_config.h"
#include "core/recall/searched_session.h"
#include "core/recall/session_search.h"
#include "core/retrieval/search.h"
#include "core/sessions/session_info.h"
#include "core/storage/store.h"
#include "core/writes/commands/jobs.h"
#include "core/writes/commands/put_set_reset.h"
#include "core/writes/draft/session_draft.h"
#include "core/writes/write.h"
#include "tests/support/block_fixture.h"
#include "tests/support/fake_models.h"
#include "tests/support/search_fixture.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t kAll = std::int64_t{1} << 40;
const std::string kBlock(kRetrievalBlock);

double Cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double product = 0, of_a = 0, of_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    product += double{a[i]} * b[i];
    of_a += double{a[i]} * a[i];
    of_b += double{b[i]} * b[i];
  }
  return product / std::sqrt(of_a * of_b);
}

class EmbeddingSearchFixture : public SearchFixture {
 protected:
  // Threshold 10 tokens: two messages of one word stay active.
  void Create(Profile profile = Profile::kDefault, std::string embedder = "hash") {
    SessionSettings settings = WordSettings(profile);
    settings.token_limit = 20;
    settings.chat_history_token_ratio = 0.5;
    settings.token_flush_size = 1;
    settings.ranking.embedder = std::move(embedder);
    Commit(WithSettings(commands::CreateSession(), settings));
  }

  std::optional<Job> NextJob() {
    if (session_.row.block_generation == 0) return std::nullopt;
    JobFilter filter;
    filter.generation = session_.row.block_generation;
    filter.state = JobState::kOpen;
    filter.max_jobs = 1;
    const auto jobs = real_->ListJobs(kKey, filter);
    EXPECT_TRUE(jobs.ok()) << jobs.status();
    if (!jobs.ok() || jobs->empty()) return std::nullopt;
    EXPECT_EQ(jobs->front().key.block, kBlock);
    return jobs->front();
  }
  // What the job finds out; nothing is stored yet.
  WriteRequest Run(const Job& job) {
    FeedRequest feed;
    feed.session.key = kKey;
    feed.state = *session_.blocks.at(kBlock);
    const auto rows =
        real_->ReadRange(kKey, job.message_generation, {job.begin, job.end}, kAll, kAll);
    EXPECT_TRUE(rows.ok()) << rows.status();
    for (const MessagePtr& row : *rows) feed.messages.emplace_back().row = row;
    WriteRequest end = Plain(commands::EndJob());
    JobOutcome& outcome = OutcomeOf(end);
    outcome.job = job.key;
    outcome.fed = session_.blocks.at(kBlock);
    outcome.read_revision = session_.row.revision;
    outcome.block_state = feed.state.state;
    if (feed.messages.empty()) return end;
    const auto find_rows = [this](const SessionKey& key, std::uint64_t generation,
                                  std::int64_t first, std::int64_t last) {
      std::vector<std::int64_t> positions;
      const auto sizes = real_->ReadSizes(key, generation, {first, last}, kAll);
      for (const RowSize& size : *sizes) positions.push_back(size.position);
      return absl::StatusOr<std::vector<std::int64_t>>(positions);
    };
    std::make_shared<const MessageEmbedder>(ModelName{"", session_.config->ranking.embedder},
                                            blocks_.Environment(), find_rows)
        ->Feed(std::move(feed), [&outcome](absl::StatusOr<FeedResult> result) {
          ASSERT_TRUE(result.ok()) << result.status();
          outcome.block_state = result->state;
          outcome.entries = result->entries;
          outcome.entry_positions = result->entry_positions;
        });
    return end;
  }
  void RunAllJobs() {
    while (const auto job = NextJob()) ASSERT_NO_FATAL_FAILURE(Commit(Run(*job)));
  }

  const BlockState* State() {
    const auto found = session_.blocks.find(kBlock);
    return found == session_.blocks.end() ? nullptr : found->second.get();
  }
  absl::StatusOr<Found> Find(SessionSearch& search, std::string_view query) {
    const SessionSearch::Index index = search.Open(kKey);
    absl::StatusOr<bool> done = false;
    SearchRequest request = AskFor(query);
    for (int tries_left = 1; !done.ok() || !*done;) {
      done = search.CatchUp(index, session_.row, request.ranking, false, State());
      if (!done.ok() && (!absl::IsAborted(done.status()) || tries_left-- == 0)) {
        return done.status();
      }
    }
    return search.Find(index, request, {}, {}, false, Embed(query));
  }
  // By what has made the embeddings that serve.
  QueryEmbedding Embed(std::string_view query) {
    if (State() == nullptr) return {};
    QueryEmbedding embedding{HashEmbedding(query), State()->entry_generation};
    if (EmbeddingState::FromJson(State()->state)->source.model == HashEmbedder::kReversed) {
      std::reverse(embedding.vector.begin(), embedding.vector.end());
    }
    return embedding;
  }
  std::vector<MessagePtr> Stored() {
    std::vector<MessagePtr> messages;
    for (const PositionRange& range : StoredRanges(session_.row, StatusFilter::kAll)) {
      const auto rows = real_->ReadRange(kKey, session_.row.generation, range, kAll, kAll);
      EXPECT_TRUE(rows.ok()) << rows.status();
      messages.insert(messages.end(), rows->begin(), rows->end());
    }
    return messages;
  }

  BlockFixture blocks_;
};

class EmbeddingSearchTest : public EmbeddingSearchFixture {
 protected:
  void SetUp() override {
    SearchFixture::SetUp();
    search_.emplace(store_.get(), &bodies_, kRoomy, &budget_);
  }
  // Texts of what is like the query, the best first, and how many messages have no embedding.
  std::vector<std::string> FindTexts(std::string_view query, std::int64_t pending = 0) {
    const auto found = Find(*search_, query);
    EXPECT_TRUE(found.ok()) << found.status();
    if (!found.ok()) return {};
    EXPECT_EQ(found->pending_embeddings, pending);
    return Texts(*found);
  }
  std::size_t RowsReadBy(std::string_view query) {
    const std::size_t before = store_->range_rows();
    FindTexts(query);
    return store_->range_rows() - before;
  }

  std::optional<SessionSearch> search_;
};

TEST_F(EmbeddingSearchTest, WhatJobsHaveMadeIsFoundByWhatItMeans) {
  Create();
  CommitNotes({}, {{"user", "dog dog"}, {"user", "cat"}});
  EXPECT_THAT(FindTexts("dog", 2), ElementsAre("message 1: dog dog"));
  RunAllJobs();
  EXPECT_THAT(FindTexts("dog"), ElementsAre("message 1: dog dog", "message 2: cat"));
  const auto found = Find(*search_, "bird");
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->items.size(), 2U) << "no word in common";
  for (const FoundItem& item : found->items) {
    EXPECT_NEAR(item.embedding_cosine.value(),
                Cosine(HashEmbedding("bird"), HashEmbedding(item.message->body)), 0.01);
  }
  // One without words needs none.
  CommitNotes({}, {{"user", ""}});
  RunAllJobs();
  EXPECT_EQ(FindTexts("bird").size(), 2U);
}

TEST_F(EmbeddingSearchTest, OnlyWhatCameSinceTheLastSearchIsRead) {
  Create();
  for (int i = 0; i < 20; ++i) CommitNotes({}, {{"user", "word"}});
  RunAllJobs();
  EXPECT_EQ(RowsReadBy("word"), 40U);
  EXPECT_EQ(RowsReadBy("word"), 0U);
  CommitNotes({}, {{"user", "late"}});
  EXPECT_EQ((FindTexts("late", 1), 0), 0);
  RunAllJobs();
  EXPECT_EQ(RowsReadBy("late"), 1U);
  EXPECT_EQ(RowsReadBy("late"), 0U);
}

TEST_F(EmbeddingSearchTest, AChangedMessageIsNeverFoundByItsOldText) {
  Create();
  CommitNotes({}, {{"user", "dog"}, {"user", "cat"}});
  RunAllJobs();
  Commit(Named(commands::UpdateMessage(), {Stored()[0]}, {{"user", "bird"}}));
  EXPECT_THAT(FindTexts("dog", 1), ElementsAre("message 2: cat"));
  RunAllJobs();
  const auto found = Find(*search_, "dog");
  ASSERT_EQ(found->items.size(), 2U);
  for (const FoundItem& item : found->items) {
    EXPECT_NEAR(item.embedding_cosine.value(),
                Cosine(HashEmbedding("dog"), HashEmbedding(item.message->body)), 0.01);
  }
}

TEST_F(EmbeddingSearchTest, ThoseOfAnotherEmbedderAreNotMixed) {
  Create();
  CommitNotes({}, {{"user", "dog"}});
  RunAllJobs();
  EXPECT_EQ(FindTexts("cat").size(), 1U);
  const QueryEmbedding old = Embed("cat");
  blocks_.models.other->model = HashEmbedder::kReversed;
  SessionSettings settings;
  settings.ranking.embedder = "other";
  Commit(WithSettings(commands::UpdateSession(), settings));
  // The first ones serve while the others are made.
  CommitNotes({}, {{"user", "late"}});
  EXPECT_EQ(FindTexts("cat", 1).size(), 1U);
  ASSERT_EQ(Embed("cat").entry_generation, old.entry_generation);
  Commit(Run(*NextJob()));
  ASSERT_NE(Embed("cat").entry_generation, old.entry_generation);
  EXPECT_EQ(FindTexts("cat", 1).size(), 1U);
  RunAllJobs();
  EXPECT_EQ(FindTexts("cat").size(), 2U);
  // Asked before others came to serve.
  const auto found = search_->Find(search_->Open(kKey), AskFor("cat"), {}, {}, false, old);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(Texts(*found), IsEmpty());
  Sweep();
  EXPECT_THAT(real_->ReadSizes(kKey, old.entry_generation, {0, kAll}, kAll).value(), IsEmpty());
}

TEST_F(EmbeddingSearchTest, ManyAreBroughtUpInSteps) {
  Create();
  for (int i = 0; i < 11; ++i) CommitNotes({}, std::vector<Line>(1000, {"user", "word"}));
  RunAllJobs();
  const SessionSearch::Index index = search_->Open(kKey);
  int steps = 1;
  while (!*search_->CatchUp(index, session_.row, WordsAlone(), false, State())) {
    ASSERT_LT(++steps, 10);
  }
  EXPECT_EQ(steps, 3);
  EXPECT_EQ(FindTexts("other").size(), 100U);
}

// Whatever happens to a session, and whenever its jobs run: an index that has grown with it, and
// one that is made for each search, answer as a new one, and every embedding is of the text that
// its message has now.
class EmbeddingHistoryTest : public EmbeddingSearchFixture,
                             public ::testing::WithParamInterface<unsigned> {
 protected:
  std::uint64_t Pick(std::uint64_t below) { return generator_() % below; }

  std::vector<Line> RandomLines(std::uint64_t most) {
    static constexpr const char* kWords[] = {"red", "green", "blue", "house", "river", "stone"};
    std::vector<Line> lines(Pick(most + 1));
    for (Line& line : lines) {
      line.role = Pick(6) == 0 ? "system" : "user";
      for (std::uint64_t left = Pick(4); left > 0; --left) {
        line.text += fmt::format("{} ", kWords[Pick(std::size(kWords))]);
      }
      line.text += std::to_string(++count_);
    }
    return lines;
  }

  void Step() {
    static constexpr ResetScope kScopes[] = {ResetScope::kActive, ResetScope::kArchived,
                                             ResetScope::kMessages, ResetScope::kEverything};
    if (!session_.exists()) {
      Create(Pick(2) == 0 ? Profile::kDefault : Profile::kLlamaIndex, Pick(4) == 0 ? "" : "hash");
      return;
    }
    const std::uint64_t choice = Pick(40);
    const std::vector<MessagePtr> stored = Stored();
    if (choice == 0) {
      Commit(Plain(commands::DeleteSession()));
    } else if (choice == 1) {
      Commit(Plain(commands::Set(), RandomLines(3)));
    } else if (choice < 6) {
      Commit(Reset(kScopes[Pick(std::size(kScopes))]));
    } else if (choice == 6) {
      SessionSettings settings;
      settings.ranking.embedder = std::array{"", "hash", "other"}[Pick(3)];
      Commit(WithSettings(commands::UpdateSession(), settings));
    } else if (choice < 10 && !stored.empty()) {
      Commit(Named(commands::DeleteMessage(), {stored[Pick(stored.size())]}));
    } else if (choice < 15 && !stored.empty()) {
      const std::vector<Line> line = {{"user", fmt::format("new {}", ++count_)}};
      Commit(Named(commands::UpdateMessage(), {stored[Pick(stored.size())]}, line));
    } else if (choice < 30) {
      Commit(Plain(commands::Put(), RandomLines(Pick(8) == 0 ? 300 : 4)));
    } else if (choice < 33) {
      EndLate();
    } else if (const auto job = NextJob()) {
      RunOne(*job, /*fails=*/choice == 33);
    }
    // The model behind a name is another one.
    if (Pick(25) == 0) {
      std::string& model = blocks_.models.embedder->model;
      model = model == "plain" ? HashEmbedder::kReversed : "plain";
    }
    if (Pick(3) == 0) Sweep();
    if (const auto job = NextJob(); job.has_value() && Pick(3) == 0) late_.push_back(Run(*job));
  }
  void RunOne(const Job& job, bool fails) {
    WriteRequest end = Run(job);
    if (fails) {
      OutcomeOf(end).state = JobState::kFailed;
      Commit(std::move(end));
      return;
    }
    late_.push_back(std::move(end));
    EndLate();
    if (Pick(2) == 0) RunAllJobs();
  }
  // The write of a job that was run some time ago: it counts or is refused.
  void EndLate() {
    if (late_.empty()) return;
    WriteRequest end = std::move(late_.front());
    late_.erase(late_.begin());
    const SessionDraft::Decision decision = Apply(std::move(end));
    if (decision.kind != DecisionKind::kStore) return;
    const std::vector<CommitResult> results = store_->Commit({&*change_, 1});
    ASSERT_EQ(results.front().outcome, CommitOutcome::kCommitted) << results.front().status;
  }

  std::vector<std::string> Answer(SessionSearch& search, std::string_view query) {
    const auto found = Find(search, query);
    EXPECT_TRUE(found.ok()) << found.status();
    if (!found.ok()) return {};
    std::vector<std::string> answer = Texts(*found);
    for (std::size_t i = 0; i < answer.size(); ++i) {
      const FoundItem& item = found->items[i];
      answer[i] += fmt::format(" {} {}", item.score, item.embedding_cosine.value_or(-2));
      if (!item.embedding_cosine.has_value()) continue;
      ++compared_;
      EXPECT_NEAR(*item.embedding_cosine,
                  Cosine(HashEmbedding(query), HashEmbedding(item.message->body)), 0.01)
          << item.message->body;
    }
    answer.push_back(std::to_string(found->pending_embeddings));
    return answer;
  }

  std::mt19937_64 generator_{GetParam()};
  int count_ = 0;
  int compared_ = 0;
  std::vector<WriteRequest> late_;
};

TEST_P(EmbeddingHistoryTest, EveryEmbeddingIsOfTheTextThatStands) {
  blocks_.models.embedder->model = "plain";
  blocks_.models.other->model = HashEmbedder::kReversed;
  SessionSearch grown(store_.get(), &bodies_, kRoomy, &budget_);
  SessionSearch cramped(store_.get(), &bodies_, 1, &budget_);
  for (int step = 0; step < 250 && !HasFailure(); ++step) {
    SCOPED_TRACE(step);
    ASSERT_NO_FATAL_FAILURE(Step());
    if (!session_.exists() || Pick(2) == 0) continue;
    for (const char* query : {"red", "river stone new"}) {
      SessionSearch fresh(real_.get(), &bodies_, kRoomy, &budget_);
      const std::vector<std::string> expected = Answer(fresh, query);
      EXPECT_EQ(Answer(grown, query), expected) << query;
      EXPECT_EQ(Answer(cramped, query), expected) << query;
    }
    // Nothing is embedded, or waits to be purged, that a Set, Reset or another embedder took.
    if (session_.row.block_generation == 0 || State() == nullptr) continue;
    const auto entries = real_->ReadSizes(kKey, State()->entry_generation, {0, kAll}, kAll).value();
    for (const RowSize& entry : entries) EXPECT_LT(entry.position, State()->next_entry);
  }
  EXPECT_GT(compared_, 50) << "the history is worth little when nothing is embedded";
}

INSTANTIATE_TEST_SUITE_P(Seeds, EmbeddingHistoryTest, ::testing::Range(1U, 13U));

}  // namespace
}  // namespace memoryd
