// The jobs that flushes make, how they end, and what Set, Reset and changes of the blocks leave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/blocks/fact_state.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session_config.h"
#include "core/storage/store.h"
#include "core/writes/commands/facts.h"
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

class SessionBlocksTest : public SessionDraftTest {
 protected:
  static BlockSettings Block(std::string name, std::string kind, std::string options = {}) {
    BlockSettings block;
    block.name = std::move(name);
    block.kind = std::move(kind);
    block.options_json = std::move(options);
    return block;
  }

  // As CreateSmall(), with blocks: `facts` and `notes` take messages, the others don't.
  void CreateWithBlocks(Profile profile = Profile::kDefault) {
    SessionSettings settings = WordSettings(profile);
    settings.token_limit = 20;
    settings.chat_history_token_ratio = 0.5;
    settings.token_flush_size = 1;
    settings.blocks = {Block("core", "static"), Block("facts", "fact-extraction"),
                       Block("deaf", "worker", R"({"accept_short_term_memory":false})"),
                       Block("notes", "worker", R"({"accept_short_term_memory":true})")};
    MustStore(WithSettings(commands::CreateSession(), settings));
  }
  // Positions 1 and 2 archived, one flush, and 3 and 4 active.
  void FillWithBlocks() {
    CreateWithBlocks();
    MustStore(Plain(commands::Put(), {{"user", "a"}, {"user", "b"}, {"user", "c"}, {"user", "d"}}));
    ASSERT_EQ(session_.row.watermark, 3);
  }

  WriteRequest EndJob(const std::string& block, std::int64_t number, std::string state = "s",
                      JobState how = JobState::kDone) {
    WriteRequest request = Plain(commands::EndJob());
    OutcomeOf(request).job = {kKey, session_.row.block_generation, block, number};
    OutcomeOf(request).state = how;
    OutcomeOf(request).block_state = std::move(state);
    OutcomeOf(request).read_revision = session_.row.revision;
    if (const auto fed = session_.blocks.find(block); fed != session_.blocks.end()) {
      OutcomeOf(request).fed = fed->second;
    }
    return request;
  }
  void ExpectUnchanged(WriteRequest request) {
    const SessionRow before = session_.row;
    EXPECT_EQ(Apply(std::move(request)).kind, DecisionKind::kUnchanged);
    EXPECT_EQ(session_.row, before);
  }

  // The jobs of the latest change: `block number [begin, end)`.
  std::vector<std::string> Jobs() {
    std::vector<std::string> jobs;
    for (const Job& job : change_->jobs) {
      EXPECT_EQ(job.key.session, kKey);
      EXPECT_EQ(job.key.generation, session_.row.block_generation);
      EXPECT_EQ(job.message_generation, session_.row.generation);
      jobs.push_back(
          fmt::format("{} {} [{}, {})", job.key.block, job.key.number, job.begin, job.end));
    }
    return jobs;
  }
  const BlockState& State(const std::string& block) { return *session_.blocks.at(block); }
};

TEST_F(SessionBlocksTest, AFlushMakesAJobForEachBlockThatTakesMessages) {
  FillWithBlocks();
  EXPECT_THAT(Jobs(), ElementsAre("facts 1 [1, 3)", "notes 1 [1, 3)"));
  EXPECT_NE(session_.row.block_generation, 0u);
  EXPECT_EQ(State("facts").next, 2);
  EXPECT_EQ(State("facts").done, 0);
  MustStore(Plain(commands::Put(), {{"user", "e"}}));
  EXPECT_THAT(Jobs(), ElementsAre("facts 2 [3, 4)", "notes 2 [3, 4)"));
  MustStore(Plain(commands::Put(), {}));
  EXPECT_THAT(Jobs(), IsEmpty());
}

TEST_F(SessionBlocksTest, ASessionWithoutSuchBlocksHasNoJobsAndNoStates) {
  FillSmall();
  EXPECT_THAT(change_->jobs, IsEmpty());
  EXPECT_THAT(change_->blocks, IsEmpty());
  EXPECT_EQ(session_.row.block_generation, 0u);
}

TEST_F(SessionBlocksTest, EveryPutIsAJobForABlockThatNamesAnotherSession) {
  SessionSettings settings = WordSettings(Profile::kDefault);
  settings.blocks = {
      Block("user", "session", R"({"session_id":"other"})"),
      Block("seen", "session", R"({"session_id":"other","accept_short_term_memory":false})"),
      Block("facts", "fact-extraction")};
  MustStore(WithSettings(commands::CreateSession(), settings));
  MustStore(Plain(commands::Put(), {{"user", "a"}, {"user", "b"}}));
  EXPECT_THAT(Jobs(), ElementsAre("user 1 [1, 3)"));
  MustStore(Plain(commands::Put(), {}));
  EXPECT_THAT(Jobs(), IsEmpty());
  MustStore(Plain(commands::Put(), {{"user", "c"}}));
  EXPECT_THAT(Jobs(), ElementsAre("user 2 [3, 4)"));
  MustStore(Plain(commands::Set(), {{"user", "d"}}));
  EXPECT_THAT(Jobs(), IsEmpty());
}

TEST_F(SessionBlocksTest, APutForOneGenerationMakesNoOther) {
  WriteRequest put = Plain(commands::Put(), {{"user", "a"}});
  auto& command = std::get<commands::Put>(put.command);
  command.only_generation = 1;
  ExpectRefused(put, absl::StatusCode::kAborted, "SESSION_REPLACED");
  CreateWithBlocks();
  ExpectRefused(put, absl::StatusCode::kAborted, "SESSION_REPLACED");
  command.only_generation = session_.row.generation;
  MustStore(put);
  MustStore(Plain(commands::DeleteSession()));
  ExpectRefused(put, absl::StatusCode::kAborted, "SESSION_REPLACED");
}

TEST_F(SessionBlocksTest, EveryRoundOfLlamaIndexIsAJob) {
  CreateWithBlocks(Profile::kLlamaIndex);
  std::vector<Line> lines(16, Line{"user", "w"});
  MustStore(Plain(commands::Put(), lines));
  EXPECT_THAT(Jobs(),
              ElementsAre("facts 1 [1, 2)", "notes 1 [1, 2)", "facts 2 [2, 3)", "notes 2 [2, 3)",
                          "facts 3 [3, 4)", "notes 3 [3, 4)", "facts 4 [4, 5)", "notes 4 [4, 5)",
                          "facts 5 [5, 6)", "notes 5 [5, 6)", "facts 6 [6, 7)", "notes 6 [6, 7)"));
}

TEST_F(SessionBlocksTest, AJobEndsOnceAndInItsTurn) {
  FillWithBlocks();
  MustStore(Plain(commands::Put(), {{"user", "e"}}));
  ExpectUnchanged(EndJob("facts", 2, "too early"));
  WriteRequest end = EndJob("facts", 1, "first");
  OutcomeOf(end).entries = {"x", "y"};
  OutcomeOf(end).usage = {1, 2, 3};
  MustStore(std::move(end));
  EXPECT_EQ(State("facts").state, "first");
  EXPECT_EQ(State("facts").done, 1);
  ASSERT_EQ(change_->ended_jobs.size(), 1u);
  EXPECT_EQ(change_->ended_jobs.front().usage.prompt_tokens, 2);
  ASSERT_EQ(change_->entries.size(), 2u);
  EXPECT_EQ(change_->entries.front().generation, State("facts").entry_generation);
  EXPECT_EQ(change_->entries.front().row->position, 1);
  EXPECT_EQ(change_->entries.back().row->body, "y");
  EXPECT_EQ(State("facts").next_entry, 3);
  ExpectUnchanged(EndJob("facts", 1, "again"));
  MustStore(EndJob("facts", 2, "second"));
  EXPECT_EQ(State("facts").state, "second");
  // Nothing more was made.
  ExpectUnchanged(EndJob("facts", 3, "third"));
  EXPECT_EQ(State("notes").done, 0);
}

TEST_F(SessionBlocksTest, AJobFedBeforeItsBlockChangedIsRefused) {
  FillWithBlocks();
  MustStore(Plain(commands::Put(), {{"user", "e"}}));
  WriteRequest late = EndJob("facts", 1, "late");
  // As another server's undo would leave it.
  auto changed = std::make_shared<BlockState>(State("facts"));
  changed->state = "changed";
  session_.blocks["facts"] = changed;
  WriteRequest again = EndJob("facts", 1, "again");
  ExpectRefused(std::move(late), absl::StatusCode::kAborted, "BLOCK_CHANGED");
  EXPECT_EQ(State("facts").state, "changed");
  MustStore(std::move(again));
  EXPECT_EQ(State("facts").state, "again");
  // What is given up changes nothing, whatever it was fed.
  WriteRequest given_up = EndJob("facts", 2, "", JobState::kCancelled);
  OutcomeOf(given_up).fed = nullptr;
  MustStore(std::move(given_up));
  EXPECT_EQ(State("facts").state, "again");
}

TEST_F(SessionBlocksTest, AChangeIsUndoneInWhatTheBlockKnowsNow) {
  FillWithBlocks();
  FactState facts;
  facts.next_id = 3;
  facts.next_change = 2;
  Fact now, past;
  now.id = 2;
  now.text = "now";
  past.id = 1;
  past.text = "past";
  facts.facts = {now};
  facts.history = {{past, FactEnd::kReplaced, 1, 5, "job", {2}, {2}, {}}};
  MustStore(EndJob("facts", 1, facts.ToJson()));
  const auto undo = [this](const std::string& block, std::int64_t change) {
    return Plain(commands::UndoBlockChange{block, change, {}});
  };
  ExpectRefused(undo("other", 1), absl::StatusCode::kNotFound, "BLOCK_NOT_FOUND");
  ExpectRefused(undo("notes", 1), absl::StatusCode::kFailedPrecondition, "BLOCK_KEEPS_NO_HISTORY");
  ExpectRefused(undo("facts", 2), absl::StatusCode::kNotFound, "CHANGE_NOT_FOUND");
  now_us_ = 7000;
  MustStore(undo("facts", 1));
  const FactState after = FactState::FromJson(State("facts").state).value();
  EXPECT_EQ(after.facts, std::vector<Fact>{past});
  ASSERT_EQ(after.history.size(), 1u);
  EXPECT_EQ(after.history[0].end, FactEnd::kUndone);
  EXPECT_EQ(after.history[0].time_us, 7000);
  EXPECT_EQ(State("facts").done, 1);
  EXPECT_EQ(State("facts").update_us, 7000);
  ASSERT_EQ(change_->blocks.size(), 1u);
  EXPECT_THAT(change_->ended_jobs, IsEmpty());
  MustStore(Plain(commands::DeleteSession()));
  ExpectRefused(undo("facts", 2), absl::StatusCode::kNotFound, "SESSION_NOT_FOUND");
}

TEST_F(SessionBlocksTest, AFactIsAddedByHandBesideWhatAJobFindsOut) {
  SessionSettings settings = WordSettings();
  settings.blocks = {
      Block("facts", "fact-extraction", R"({"model":"m","facts":["configured"],"max_facts":2})")};
  MustStore(WithSettings(commands::CreateSession(), settings));
  const auto edit = [this](std::string text) {
    commands::EditFact command;
    command.block = "facts";
    command.fact.text = std::move(text);
    command.writer = "token:ann";
    return Plain(std::move(command));
  };
  now_us_ = 7000;
  MustStore(edit("by hand"));
  EXPECT_NE(session_.row.block_generation, 0U);
  const FactState after = FactState::FromJson(State("facts").state).value();
  ASSERT_EQ(after.facts.size(), 2U) << "those of the options stay";
  EXPECT_EQ(after.facts[1].text, "by hand");
  EXPECT_EQ(after.facts[1].writer, "token:ann");
  EXPECT_EQ(after.facts[1].first_us, 7000);
  EXPECT_EQ(State("facts").next, 1);
  MustStore(edit("third"));
  ExpectRefused(edit("fourth"), absl::StatusCode::kFailedPrecondition, "BLOCK_FULL");
  WriteRequest other = edit("x");
  std::get<commands::EditFact>(other.command).block = "other";
  ExpectRefused(std::move(other), absl::StatusCode::kNotFound, "BLOCK_NOT_FOUND");
  WriteRequest late = edit("x");
  late.expected_revision = 1;
  ExpectRefused(std::move(late), absl::StatusCode::kAborted, "REVISION_MISMATCH");
  MustStore(Plain(commands::DeleteSession()));
  ExpectRefused(edit("x"), absl::StatusCode::kNotFound, "SESSION_NOT_FOUND");
}

TEST_F(SessionBlocksTest, EvidenceThatHasChangedIsLookedForAnew) {
  SessionSettings settings = WordSettings();
  settings.blocks = {Block("facts", "fact-extraction", R"({"model":"m"})")};
  MustStore(WithSettings(commands::CreateSession(), settings));
  MustStore(Plain(commands::Put(), {{"user", "a"}, {"user", "b"}}));
  commands::EditFact command;
  command.block = "facts";
  command.fact.text = "by hand";
  command.fact.evidence = {"given"};
  WriteRequest add = Plain(std::move(command));
  add.found.emplace();
  add.found->generation = session_.row.generation;
  add.found->revision = session_.row.revision;
  add.found->watermark = session_.row.watermark;
  add.found->messages = {session_.active.back()};
  WriteRequest other = add;
  other.found->generation += 1;
  ExpectRefused(std::move(other), absl::StatusCode::kAborted, "MESSAGE_CHANGED");
  MustStore(std::move(add));
  const FactState after = FactState::FromJson(State("facts").state).value();
  EXPECT_THAT(after.facts.back().evidence,
              ElementsAre(MessageId(*session_.active.back(), session_.row.generation)));
}

TEST_F(SessionBlocksTest, AJobGivenUpLeavesTheStateAndLetsTheNextOneOn) {
  FillWithBlocks();
  MustStore(EndJob("facts", 1, "first"));
  MustStore(Plain(commands::Put(), {{"user", "e"}}));
  MustStore(Plain(commands::Put(), {{"user", "f"}}));
  MustStore(EndJob("facts", 2, "lost", JobState::kFailed));
  EXPECT_EQ(State("facts").state, "first");
  EXPECT_EQ(State("facts").done, 2);
  MustStore(EndJob("facts", 3, "third"));
  EXPECT_EQ(State("facts").state, "third");
}

TEST_F(SessionBlocksTest, AFailedJobIsFedAgainBehindTheOthers) {
  FillWithBlocks();
  const Job failed = change_->jobs.front();
  MustStore(Plain(commands::Put(), {{"user", "e"}}));
  MustStore(EndJob("facts", 1, "", JobState::kFailed));
  WriteRequest retry = Plain(commands::RetryJob{failed});
  MustStore(std::move(retry));
  EXPECT_THAT(Jobs(), ElementsAre("facts 3 [1, 3)"));

  MustStore(Reset(ResetScope::kArchived));
  retry = Plain(commands::RetryJob{failed});
  ExpectRefused(std::move(retry), absl::StatusCode::kFailedPrecondition, "JOB_OBSOLETE");
}

TEST_F(SessionBlocksTest, NothingComesBackAfterASetOrReset) {
  const auto clear = [this](int how) {
    switch (how) {
      case 0:
        return Plain(commands::Set(), {{"user", "new"}});
      case 1:
        return Reset(ResetScope::kEverything);
      case 2:
        return Reset(ResetScope::kProfile);
      default:
        return Plain(commands::DeleteSession());
    }
  };
  for (const int how : {0, 1, 2, 3}) {
    session_ = Session::Absent();
    FillWithBlocks();
    WriteRequest known = EndJob("facts", 1, "known");
    OutcomeOf(known).entries = {"x"};
    MustStore(std::move(known));
    const WriteRequest late = EndJob("notes", 1, "late");
    const std::uint64_t entries = State("facts").entry_generation;
    const std::uint64_t generation = session_.row.block_generation;
    MustStore(clear(how));
    EXPECT_EQ(session_.row.block_generation, 0u);
    EXPECT_THAT(session_.blocks, IsEmpty());
    std::vector<std::uint64_t> garbage;
    for (const Garbage& range : change_->garbage) garbage.push_back(range.generation);
    EXPECT_THAT(garbage, ::testing::IsSupersetOf({entries, generation}));
    ExpectUnchanged(late);
    if (how == 3) continue;
    // The session goes on with numbers of its own.
    std::vector<Line> lines(4, Line{"user", "w"});
    MustStore(Plain(commands::Put(), lines));
    EXPECT_EQ(change_->jobs.front().key.number, 1);
    EXPECT_NE(session_.row.block_generation, generation);
    ExpectUnchanged(late);
  }
}

TEST_F(SessionBlocksTest, LlamaIndexKeepsWhatBlocksKnowButNotWhatTheyWouldHaveBeenFed) {
  const auto clear = [this](int how) {
    switch (how) {
      case 0:
        return Plain(commands::Set(), {{"user", "new"}});
      case 1:
        return Reset(ResetScope::kProfile);
      default:
        return Reset(ResetScope::kArchived);
    }
  };
  for (const int how : {0, 1, 2}) {
    session_ = Session::Absent();
    CreateWithBlocks(Profile::kLlamaIndex);
    std::vector<Line> lines(12, Line{"user", "w"});
    MustStore(Plain(commands::Put(), lines));
    ASSERT_THAT(Jobs(), ::testing::SizeIs(4));
    MustStore(EndJob("facts", 1, "known"));
    const std::uint64_t generation = session_.row.block_generation;
    MustStore(clear(how));
    EXPECT_EQ(session_.row.block_generation, generation);
    EXPECT_EQ(change_->cancel_jobs_of, generation);
    EXPECT_EQ(State("facts").state, "known");
    ExpectUnchanged(EndJob("facts", 2, "late"));
    ExpectUnchanged(EndJob("notes", 1, "late"));
    MustStore(Plain(commands::Put(), lines));
    EXPECT_EQ(change_->jobs.front().key.number, 3);
  }
}

TEST_F(SessionBlocksTest, ResetOfTheActiveLeavesTheJobs) {
  FillWithBlocks();
  MustStore(Reset(ResetScope::kActive));
  EXPECT_EQ(change_->cancel_jobs_of, 0u);
  MustStore(EndJob("facts", 1, "known"));
}

TEST_F(SessionBlocksTest, ABlockThatGoesOrChangesItsKindForgets) {
  FillWithBlocks();
  WriteRequest known = EndJob("notes", 1, "known");
  OutcomeOf(known).entries = {"x"};
  MustStore(std::move(known));
  MustStore(Plain(commands::Put(), {{"user", "e"}}));
  const std::uint64_t entries = State("notes").entry_generation;
  SessionSettings settings;
  settings.blocks = {Block("core", "static"), Block("facts", "fact-extraction"),
                     Block("notes", "summary")};
  MustStore(WithSettings(commands::UpdateSession(), settings));
  EXPECT_EQ(State("notes").state, "");
  ASSERT_EQ(change_->garbage.size(), 1u);
  EXPECT_EQ(change_->garbage.front().generation, entries);
  ASSERT_EQ(change_->ended_jobs.size(), 1u);
  EXPECT_EQ(change_->ended_jobs.front().key.number, 2);
  EXPECT_EQ(change_->ended_jobs.front().state, JobState::kCancelled);
  ExpectUnchanged(EndJob("notes", 2, "late"));
  // The other block's jobs are what they were, and numbers go on.
  MustStore(EndJob("facts", 1, "fact"));
  MustStore(Plain(commands::Put(), {{"user", "f"}}));
  EXPECT_THAT(Jobs(), ElementsAre("facts 3 [4, 5)", "notes 3 [4, 5)"));

  // The same blocks once more change nothing.
  MustStore(WithSettings(commands::UpdateSession(), settings));
  EXPECT_THAT(change_->blocks, IsEmpty());
  EXPECT_EQ(State("facts").state, "fact");
}

TEST_F(SessionBlocksTest, PutsOfOneDraftMakeTheJobsThatTheyWouldMakeApart) {
  CreateWithBlocks();
  SessionDraft draft = NewDraft();
  for (const char* text : {"a", "b", "c", "d"}) {
    ASSERT_EQ(Add(draft, Plain(commands::Put(), {{"user", text}})).kind, DecisionKind::kStore);
  }
  change_ = draft.TakeChange(kKey);
  draft.ApplyTo(session_);
  EXPECT_THAT(Jobs(),
              ElementsAre("facts 1 [1, 2)", "notes 1 [1, 2)", "facts 2 [2, 3)", "notes 2 [2, 3)"));
  EXPECT_EQ(State("facts").next, 3);
}

TEST_F(SessionBlocksTest, TheCacheIsChargedForWhatBlocksKnow) {
  FillWithBlocks();
  const std::size_t before = session_.ByteSize();
  MustStore(EndJob("facts", 1, std::string(1000, 's')));
  EXPECT_GE(session_.ByteSize(), before + 1000);
  MustStore(Reset(ResetScope::kEverything));
  EXPECT_EQ(session_.content_bytes, 0u);
}

}  // namespace
}  // namespace memoryd
