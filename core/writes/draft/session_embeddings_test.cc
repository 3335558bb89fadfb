// The jobs that have messages embedded, and what takes embeddings out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/blocks/embedding_state.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/ranking_options.h"
#include "core/model/session_config.h"
#include "core/storage/store.h"
#include "core/writes/commands/jobs.h"
#include "core/writes/commands/put_set_reset.h"
#include "core/writes/draft/session_draft.h"
#include "core/writes/write.h"
#include "tests/support/session_draft_fixture.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::string kBlock(kRetrievalBlock);

class SessionEmbeddingsTest : public SessionDraftTest {
 protected:
  // Threshold 10 tokens: two messages of one word stay active.
  void Create(std::string embedder = "hash", Profile profile = Profile::kDefault) {
    SessionSettings settings = WordSettings(profile);
    settings.token_limit = 20;
    settings.chat_history_token_ratio = 0.5;
    settings.token_flush_size = 1;
    settings.ranking.embedder = std::move(embedder);
    MustStore(WithSettings(commands::CreateSession(), settings));
  }
  void PutMany(std::int64_t count) {
    MustStore(
        Plain(commands::Put(), std::vector<Line>(static_cast<std::size_t>(count), {"user", "a"})));
  }
  // Null when there is none.
  const BlockState* State() {
    const auto found = session_.blocks.find(kBlock);
    return found == session_.blocks.end() ? nullptr : found->second.get();
  }
  // What the latest commit has made.
  std::vector<std::pair<std::int64_t, std::int64_t>> Jobs() {
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
    if (!change_.has_value()) return ranges;
    for (const Job& job : change_->jobs) {
      EXPECT_EQ(job.key.block, kBlock);
      EXPECT_EQ(job.message_generation, session_.row.generation);
      ranges.emplace_back(job.begin, job.end);
    }
    return ranges;
  }
  WriteRequest EndJob(std::vector<std::int64_t> positions, JobState how = JobState::kDone) {
    WriteRequest request = Plain(commands::EndJob());
    JobOutcome& outcome = OutcomeOf(request);
    outcome.job = {kKey, session_.row.block_generation, kBlock, State()->done + 1};
    outcome.state = how;
    outcome.read_revision = session_.row.revision;
    outcome.fed = session_.blocks.at(kBlock);
    EmbeddingState state = Embeddings();
    const bool counts = state.Answered(Embedder()).value();
    outcome.block_state = state.ToJson();
    if (!counts) return request;
    outcome.entries.resize(positions.size(), "vector");
    outcome.entry_positions = std::move(positions);
    return request;
  }
  // What answers now.
  EmbeddingSource Embedder() {
    const RankingOptions& ranking = session_.config->ranking;
    return {ranking.embedder, ranking.embedder_worker, model_, 3};
  }
  EmbeddingState Embeddings() { return EmbeddingState::FromJson(State()->state).value(); }
  // Of the embeddings that are being made.
  std::uint64_t Made() {
    const EmbeddingState state = Embeddings();
    return state.next.has_value() ? state.next->generation : State()->entry_generation;
  }
  void End(std::vector<std::int64_t> positions) {
    made_ = Made();
    MustStore(EndJob(std::move(positions)));
  }
  std::vector<std::int64_t> Entries() {
    std::vector<std::int64_t> positions;
    for (const BlockEntry& entry : change_->entries) {
      EXPECT_EQ(entry.generation, made_);
      positions.push_back(entry.row->position);
    }
    return positions;
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> Erased() {
    return ErasedOf(State()->entry_generation);
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> ErasedOf(std::uint64_t generation) {
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
    for (const EntryRange& erased : change_->erased_entries) {
      EXPECT_TRUE(erased.generation == State()->entry_generation || erased.generation == Made());
      if (erased.generation != generation) continue;
      ranges.emplace_back(erased.positions.begin, erased.positions.end);
    }
    return ranges;
  }
  // Whether the latest commit has all embeddings of `generation` purged that may be there.
  bool Purged(std::uint64_t generation, std::int64_t end) {
    return std::any_of(change_->garbage.begin(), change_->garbage.end(), [&](const Garbage& g) {
      return g.generation == generation && g.begin == 0 && g.end >= end;
    });
  }
  void Change(std::string name, std::string worker = "") {
    SessionSettings settings;
    settings.ranking.embedder = std::move(name);
    settings.ranking.embedder_worker = std::move(worker);
    MustStore(WithSettings(commands::UpdateSession(), settings));
  }
  WriteRequest Answered(EmbeddingSource by) { return Plain(commands::NoteEmbedder{std::move(by)}); }
  void ExpectUnchanged(WriteRequest request) {
    SessionDraft draft = NewDraft();
    Write write(std::move(request), place_, [](const absl::StatusOr<WriteReply>&) {});
    EXPECT_EQ(draft.Add(write).kind, DecisionKind::kUnchanged);
  }

  std::string model_ = "m";
  std::uint64_t made_ = 0;
};

TEST_F(SessionEmbeddingsTest, OneJobAtATimeTakesWhatHasCome) {
  Create();
  EXPECT_EQ(State(), nullptr);
  PutMany(1);
  EXPECT_THAT(Jobs(), ElementsAre(std::pair(1, 2)));
  const std::uint64_t entries = State()->entry_generation;
  EXPECT_NE(entries, 0U);
  // Those that come meanwhile wait together, and their Puts write nothing of it.
  PutMany(1);
  PutMany(200);
  EXPECT_THAT(Jobs(), IsEmpty());
  EXPECT_THAT(change_->blocks, IsEmpty());
  End({1});
  EXPECT_THAT(Entries(), ElementsAre(1));
  EXPECT_THAT(Jobs(), ElementsAre(std::pair(2, 130)));
  MustStore(EndJob({}, JobState::kFailed));
  EXPECT_THAT(Jobs(), ElementsAre(std::pair(130, 203)));
  End({130, 202});
  EXPECT_THAT(Jobs(), IsEmpty());
  EXPECT_EQ(State()->next_entry, 203);
  EXPECT_EQ(State()->entry_generation, entries);
  PutMany(1);
  EXPECT_THAT(Jobs(), ElementsAre(std::pair(203, 204)));
}

TEST_F(SessionEmbeddingsTest, NobodyWaitsForThem) {
  Create();
  SessionDraft draft = NewDraft();
  Write write(Plain(commands::Put(), {{"user", "a"}}), place_,
              [](const absl::StatusOr<WriteReply>&) {});
  ASSERT_EQ(draft.Add(write).kind, DecisionKind::kStore);
  EXPECT_THAT(draft.jobs(), SizeIs(1));
  EXPECT_THAT(write.jobs, IsEmpty());
}

TEST_F(SessionEmbeddingsTest, WithoutAnEmbedderThereAreNone) {
  Create("");
  PutMany(3);
  EXPECT_THAT(Jobs(), IsEmpty());
  MustStore(Plain(commands::DeleteSession()));
  Create("hash", Profile::kAutogenList);
  PutMany(3);
  EXPECT_THAT(Jobs(), IsEmpty());
  EXPECT_EQ(State(), nullptr);
}

TEST_F(SessionEmbeddingsTest, AnEmbedderThatComesLaterTakesAllThatIsStored) {
  Create("");
  MustStore(Plain(commands::Put(), {{"system", "s"}, {"user", "a"}, {"user", "b"}, {"user", "c"}}));
  Change("hash");
  EXPECT_THAT(Jobs(), ElementsAre(std::pair(1, 5)));
}

TEST_F(SessionEmbeddingsTest, AnotherEmbedderBeginsAnewWhereThereIsNothingToServe) {
  Create();
  PutMany(130);
  for (const auto& [name, worker] : {std::pair("other", ""), std::pair("other", "worker")}) {
    const std::uint64_t before = State()->entry_generation;
    const std::int64_t next = State()->next;
    Change(name, worker);
    EXPECT_TRUE(Purged(before, 129));
    ASSERT_THAT(change_->ended_jobs, SizeIs(1));
    EXPECT_EQ(change_->ended_jobs[0].state, JobState::kCancelled);
    EXPECT_THAT(Jobs(), ElementsAre(std::pair(1, 129)));
    EXPECT_EQ(State()->done, next - 1);
    EXPECT_NE(State()->entry_generation, before);
    EXPECT_EQ(State()->state, "");
  }
  // The same one, and other weights, change nothing.
  SessionSettings same;
  same.ranking.embedder = "other";
  same.ranking.embedder_worker = "worker";
  same.ranking.embedder_weight = 2;
  const BlockState before = *State();
  MustStore(WithSettings(commands::UpdateSession(), same));
  EXPECT_EQ(*State(), before);
  Change("");
  EXPECT_TRUE(Purged(before.entry_generation, 129));
  EXPECT_THAT(Jobs(), IsEmpty());
  EXPECT_EQ(State()->entry_generation, 0U);
}

TEST_F(SessionEmbeddingsTest, AChangedMessageLosesItsOwnAtOnce) {
  Create();
  PutMany(2);
  End({1, 2});
  MustStore(Named(commands::UpdateMessage(), {session_.active[0]}, {{"user", "new"}}));
  EXPECT_THAT(Erased(), ElementsAre(std::pair(1, 2)));
  EXPECT_THAT(Jobs(), ElementsAre(std::pair(1, 2)));
  WriteRequest late = EndJob({1});
  // Changed again while the job runs: what it has taken in is nobody's text any more.
  MustStore(Named(commands::UpdateMessage(), {session_.active[0]}, {{"user", "newer"}}));
  ExpectRefused(late, absl::StatusCode::kAborted, "BLOCK_CHANGED");
  End({1});
  // The second job finds it embedded.
  End({});
  EXPECT_THAT(Jobs(), IsEmpty());
  // One that no job has been made for yet.
  PutMany(1);
  PutMany(1);
  MustStore(Named(commands::UpdateMessage(), {session_.active.back()}, {{"user", "new"}}));
  EXPECT_THAT(Erased(), IsEmpty());
  EXPECT_THAT(Jobs(), IsEmpty());
}

TEST_F(SessionEmbeddingsTest, ADeletedMessageTakesItsOwnAlong) {
  Create();
  PutMany(2);
  End({1, 2});
  MustStore(Named(commands::DeleteMessage(), {session_.active[0], session_.active[1]}));
  EXPECT_THAT(Erased(), ElementsAre(std::pair(1, 2), std::pair(2, 3)));
  EXPECT_THAT(Jobs(), IsEmpty());
}

TEST_F(SessionEmbeddingsTest, AResetOfActiveMessagesTakesTheirs) {
  Create();
  MustStore(Plain(commands::Put(), {{"system", "s"}, {"user", "a"}, {"user", "b"}, {"user", "c"}}));
  ASSERT_EQ(session_.row.watermark, 3);
  WriteRequest late = EndJob({1, 2, 3, 4});
  MustStore(Reset(ResetScope::kActive));
  EXPECT_THAT(Erased(), ElementsAre(std::pair(3, 5), std::pair(1, 2)));
  EXPECT_THAT(Jobs(), IsEmpty());
  // It has taken in messages that are gone.
  ExpectRefused(late, absl::StatusCode::kAborted, "BLOCK_CHANGED");
  End({2});
  PutMany(1);
  EXPECT_THAT(Jobs(), ElementsAre(std::pair(5, 6)));
  End({5});
  // All that there is.
  MustStore(Reset(ResetScope::kArchived));
  End({5});
  const std::uint64_t entries = State()->entry_generation;
  MustStore(Reset(ResetScope::kActive));
  EXPECT_TRUE(Purged(entries, 6));
}

TEST_F(SessionEmbeddingsTest, AResetOfArchivedMessagesHasTheOthersEmbeddedAnew) {
  Create();
  MustStore(Plain(commands::Put(), {{"system", "s"}, {"user", "a"}, {"user", "b"}, {"user", "c"}}));
  const std::uint64_t before = State()->entry_generation;
  MustStore(Reset(ResetScope::kArchived));
  EXPECT_TRUE(Purged(before, 5));
  EXPECT_EQ(change_->cancel_jobs_of, session_.row.block_generation);
  EXPECT_THAT(Jobs(), ElementsAre(std::pair(1, 5)));
}

TEST_F(SessionEmbeddingsTest, AllGoWithTheMessages) {
  for (const Profile profile : {Profile::kDefault, Profile::kLlamaIndex}) {
    for (int how = 0; how < 4; ++how) {
      SCOPED_TRACE(how);
      Create("hash", profile);
      PutMany(2);
      const std::uint64_t before = State()->entry_generation;
      const std::int64_t end = State()->next_entry;
      if (how == 0) MustStore(Plain(commands::Set(), {{"user", "new"}}));
      if (how == 1) MustStore(Reset(ResetScope::kMessages));
      if (how == 2) MustStore(Reset(ResetScope::kEverything));
      if (how == 3) MustStore(Plain(commands::DeleteSession()));
      EXPECT_TRUE(Purged(before, end));
      EXPECT_THAT(Jobs(), SizeIs(how == 0 ? 1 : 0));
      if (how == 3) continue;
      PutMany(1);
      if (how == 0) End({session_.row.next_position - 2});
      EXPECT_THAT(Jobs(), ElementsAre(std::pair(session_.row.next_position - 1,
                                                session_.row.next_position)));
      EXPECT_NE(State()->entry_generation, before);
      MustStore(Plain(commands::DeleteSession()));
    }
  }
}

TEST_F(SessionEmbeddingsTest, AJobThatFailedCanBeTriedAgain) {
  Create();
  PutMany(2);
  const auto retry = [this](std::int64_t begin, std::int64_t end) {
    commands::RetryJob command;
    command.failed.key = {kKey, session_.row.block_generation, kBlock, 1};
    command.failed.message_generation = session_.row.generation;
    command.failed.begin = begin;
    command.failed.end = end;
    return Plain(command);
  };
  MustStore(EndJob({}, JobState::kFailed));
  MustStore(retry(1, 3));
  EXPECT_THAT(Jobs(), ElementsAre(std::pair(1, 3)));
  End({1, 2});
  // Not yet given to any job of the present embedder.
  ExpectRefused(retry(1, 4), absl::StatusCode::kFailedPrecondition, "JOB_OBSOLETE");
  Change("");
  ExpectRefused(retry(1, 3), absl::StatusCode::kFailedPrecondition, "JOB_OBSOLETE");
}

// A session whose 130 messages have embeddings, and get others.
class NextEmbeddingsTest : public SessionEmbeddingsTest {
 protected:
  void SetUp() override {
    SessionEmbeddingsTest::SetUp();
    Create();
    PutMany(130);
    End({1, 128});
    End({129, 130});
    old_ = State()->entry_generation;
  }
  // The embeddings that there were serve, and nothing of them goes.
  void ExpectOldServe() {
    EXPECT_EQ(State()->entry_generation, old_);
    EXPECT_EQ(State()->next_entry, 131);
    EXPECT_FALSE(Purged(old_, 1));
    EXPECT_EQ(Embeddings().source.embedder, "hash");
  }

  std::uint64_t old_ = 0;
};

TEST_F(NextEmbeddingsTest, TheOldServeUntilTheNewHaveCaughtUp) {
  Change("other");
  ExpectOldServe();
  const std::uint64_t next = Made();
  EXPECT_NE(next, old_);
  EXPECT_NE(next, 0U);
  EXPECT_THAT(Jobs(), ElementsAre(std::pair(1, 129)));
  EXPECT_EQ(Embeddings().next->source, (EmbeddingSource{"other", "", "", 0}));
  // What comes meanwhile is embedded for those that are made.
  PutMany(2);
  EXPECT_THAT(Jobs(), IsEmpty());
  model_ = "new";
  End({1, 128});
  ExpectOldServe();
  EXPECT_THAT(Entries(), ElementsAre(1, 128));
  EXPECT_THAT(Jobs(), ElementsAre(std::pair(129, 133)));
  EXPECT_EQ(Embeddings().next->source, (EmbeddingSource{"other", "", "new", 3}));
  EXPECT_EQ(Embeddings().next->done, 129);
  EXPECT_TRUE(Embeddings().next->caught_up);
  // Those that come now are not waited for: there may always be some.
  PutMany(1);
  ExpectOldServe();
  End({129, 132});
  EXPECT_THAT(Entries(), ElementsAre(129, 132));
  EXPECT_EQ(State()->entry_generation, next);
  EXPECT_TRUE(Purged(old_, 131));
  EXPECT_EQ(Embeddings().source, (EmbeddingSource{"other", "", "new", 3}));
  EXPECT_FALSE(Embeddings().next.has_value());
  EXPECT_THAT(Jobs(), ElementsAre(std::pair(133, 134)));
  EXPECT_EQ(State()->next_entry, 134);
  End({133});
  EXPECT_THAT(Jobs(), IsEmpty());
}

TEST_F(NextEmbeddingsTest, AModelThatHasChangedBehindItsNameIsFoundOutByAJob) {
  model_ = "new";
  PutMany(1);
  End({131});
  EXPECT_THAT(change_->entries, IsEmpty());
  EXPECT_EQ(State()->entry_generation, old_);
  EXPECT_EQ(Embeddings().next->source, (EmbeddingSource{"hash", "", "new", 3}));
  EXPECT_THAT(Jobs(), ElementsAre(std::pair(1, 129)));
  // The change was a mistake.
  const std::uint64_t given_up = Made();
  End({1});
  model_ = "m";
  End({});
  EXPECT_TRUE(Purged(given_up, 132));
  EXPECT_FALSE(Embeddings().next.has_value());
  EXPECT_EQ(State()->entry_generation, old_);
  // They lack those that came meanwhile or were changed.
  EXPECT_THAT(Jobs(), ElementsAre(std::pair(1, 129)));
  End({});
  EXPECT_THAT(Jobs(), ElementsAre(std::pair(129, 132)));
  End({131});
  EXPECT_THAT(Jobs(), IsEmpty());
  EXPECT_EQ(Embeddings().look_again, 0);
}

TEST_F(NextEmbeddingsTest, OrByAQuery) {
  ExpectUnchanged(Answered({"hash", "", "m", 3}));
  ExpectUnchanged(Answered({"hash", "", "m", 9000}));
  // The session has had another one since the query was asked.
  ExpectUnchanged(Answered({"other", "", "new", 3}));
  model_ = "new";
  WriteRequest late = EndJob({});
  MustStore(Answered(Embedder()));
  ExpectOldServe();
  EXPECT_THAT(Jobs(), ElementsAre(std::pair(1, 129)));
  ExpectUnchanged(Answered(Embedder()));
  ExpectUnchanged(Answered({"hash", "", "m", 3}));
  Change("");
  ExpectUnchanged(Answered(Embedder()));
  MustStore(Plain(commands::DeleteSession()));
  ExpectUnchanged(Answered(Embedder()));
}

TEST_F(NextEmbeddingsTest, JobsThatWereMadeForOthersAreCancelled) {
  const auto cancelled = [this] {
    std::vector<std::int64_t> numbers;
    for (const JobEnd& end : change_->ended_jobs) {
      if (end.state == JobState::kCancelled) numbers.push_back(end.key.number);
    }
    return numbers;
  };
  PutMany(1);
  WriteRequest late = EndJob({131});
  MustStore(Answered({"hash", "", "new", 3}));
  EXPECT_THAT(cancelled(), ElementsAre(OutcomeOf(late).job.number));
  EXPECT_THAT(Jobs(), ElementsAre(std::pair(1, 129)));
  ExpectUnchanged(late);
  // One behind the job that finds out.
  MessageDraft archived(*session_.active.front());
  archived.position = 1;
  MustStore(Named(commands::UpdateMessage(), {archived}, {{"user", "new"}}));
  EXPECT_THAT(Jobs(), ElementsAre(std::pair(1, 2)));
  late = EndJob({1});
  model_ = "newer";
  const std::int64_t open = State()->next - 1;
  End({1});
  EXPECT_THAT(cancelled(), ElementsAre(open));
  EXPECT_THAT(Jobs(), ElementsAre(std::pair(1, 129)));
  Change("other");
  EXPECT_THAT(cancelled(), SizeIs(1));
  ExpectUnchanged(late);
}

TEST_F(NextEmbeddingsTest, BackToTheFirstEmbedderItsOwnAreKept) {
  Change("other");
  const std::uint64_t next = Made();
  End({1, 2});
  PutMany(1);
  Change("third");
  EXPECT_TRUE(Purged(next, 131));
  ExpectOldServe();
  Change("hash");
  ExpectOldServe();
  EXPECT_FALSE(Embeddings().next.has_value());
  EXPECT_THAT(Jobs(), ElementsAre(std::pair(1, 129)));
  End({});
  EXPECT_THAT(Jobs(), ElementsAre(std::pair(129, 132)));
  End({131});
  EXPECT_EQ(State()->next_entry, 132);
  EXPECT_THAT(Jobs(), IsEmpty());
}

TEST_F(NextEmbeddingsTest, ThoseThatWereStoredWithoutAName) {
  EmbeddingState state = Embeddings();
  state.source.embedder.clear();
  auto stored = std::make_shared<BlockState>(*State());
  stored->state = state.ToJson();
  session_.blocks[kBlock] = stored;
  Change("other");
  EXPECT_EQ(Embeddings().source, (EmbeddingSource{"hash", "", "m", 3}));
  Change("hash");
  EXPECT_FALSE(Embeddings().next.has_value());
}

TEST_F(NextEmbeddingsTest, AChangedMessageLosesBoth) {
  Change("other");
  const std::uint64_t next = Made();
  End({1, 128});
  using Range = std::pair<std::int64_t, std::int64_t>;
  const MessagePtr newest = session_.active.back();
  MustStore(Named(commands::UpdateMessage(), {newest}, {{"user", "new"}}));
  EXPECT_THAT(ErasedOf(old_), ElementsAre(Range(130, 131)));
  EXPECT_THAT(ErasedOf(next), ElementsAre(Range(130, 131)));
  EXPECT_THAT(Jobs(), ElementsAre(Range(130, 131)));
  End({129});
  ExpectOldServe();
  End({130});
  EXPECT_EQ(State()->entry_generation, next);
  // One that they have not come to yet.
  old_ = next;
  Change("third");
  MustStore(Named(commands::UpdateMessage(), {session_.active.back()}, {{"user", "newer"}}));
  EXPECT_THAT(ErasedOf(old_), ElementsAre(Range(130, 131)));
  EXPECT_THAT(ErasedOf(Made()), IsEmpty());
  EXPECT_THAT(Jobs(), IsEmpty());
  MustStore(Named(commands::DeleteMessage(), {session_.active.back()}));
  EXPECT_THAT(ErasedOf(old_), ElementsAre(Range(130, 131)));
}

TEST_F(NextEmbeddingsTest, AResetOfActiveMessagesTakesBoth) {
  Change("other");
  const std::uint64_t next = Made();
  End({1, 128});
  WriteRequest late = EndJob({129, 130});
  MustStore(Reset(ResetScope::kActive));
  const std::pair<std::int64_t, std::int64_t> active(session_.row.watermark - 2, 131);
  EXPECT_THAT(ErasedOf(old_), ElementsAre(active));
  EXPECT_THAT(ErasedOf(next), ElementsAre(active));
  ExpectRefused(late, absl::StatusCode::kAborted, "BLOCK_CHANGED");
  End({});
  EXPECT_EQ(State()->entry_generation, next);
}

TEST_F(NextEmbeddingsTest, AllGoWithTheMessagesOrTheEmbedder) {
  for (int how = 0; how < 6; ++how) {
    SCOPED_TRACE(how);
    Change("other");
    const std::uint64_t next = Made();
    End({1, 128});
    if (how == 0) MustStore(Plain(commands::Set(), {{"user", "new"}}));
    if (how == 1) MustStore(Reset(ResetScope::kMessages));
    if (how == 2) MustStore(Reset(ResetScope::kEverything));
    if (how == 3) MustStore(Reset(ResetScope::kArchived));
    if (how == 4) Change("");
    if (how == 5) MustStore(Plain(commands::DeleteSession()));
    EXPECT_TRUE(Purged(old_, 131));
    EXPECT_TRUE(Purged(next, 131));
    if (how == 5) break;
    MustStore(Plain(commands::DeleteSession()));
    SetUp();
  }
}

TEST_F(NextEmbeddingsTest, AJobThatIsCancelledLeavesAGap) {
  Change("other");
  const std::uint64_t next = Made();
  End({1});
  MustStore(EndJob({}, JobState::kCancelled));
  EXPECT_EQ(State()->entry_generation, next);
  EXPECT_TRUE(Purged(old_, 131));
}

TEST_F(NextEmbeddingsTest, RetentionTakesOutOfBoth) {
  Change("other");
  const std::uint64_t next = Made();
  End({1, 128});
  SessionSettings settings;
  settings.retention.keep_messages = 2;
  MustStore(WithSettings(commands::UpdateSession(), settings));
  PutMany(1);
  const auto erased = ErasedOf(old_);
  ASSERT_THAT(erased, SizeIs(1));
  EXPECT_EQ(ErasedOf(next), erased);
}

}  // namespace
}  // namespace memoryd
