// What Commit says when the server's answer, or the question, gets lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error_cause.h"
#include "core/model/job.h"
#include "core/storage/postgres/pg_test_support.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"

namespace memoryd {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using Fault = TestProxy::Fault;

auto Is(CommitOutcome outcome) { return Field(&CommitResult::outcome, outcome); }

// Two servers on one database: `store_` reaches it by a link that fails, `other_` directly.
class SettleTest : public ::testing::Test {
 protected:
  SettleTest() {
    other_ = database_.Open();
    StoreOptions options;
    options.url = database_.Url("127.0.0.1", proxy_.port());
    options.timeout_ms = 4000;
    store_ = database_.Open(options);
    // Connected, and the statement prepared: the next bytes sent are the batch.
    for (int i = 0; i < 3; ++i) {
      const CommitResult result = Commit(*store_, change_);
      EXPECT_THAT(result, Is(CommitOutcome::kCommitted));
      EXPECT_FALSE(result.in_doubt);
      change_ = NextChange(change_, 1);
    }
  }

  static CommitResult Commit(Store& store, const SessionChange& change) {
    return store.Commit({&change, 1}).front();
  }

  // Under the link's fault, while `meanwhile` happens.
  CommitResult CommitUnder(
      Fault fault, std::function<void()> meanwhile = [] {}) {
    proxy_.Inject(fault, std::move(meanwhile));
    const CommitResult result = Commit(*store_, change_);
    EXPECT_TRUE(proxy_.injected());
    EXPECT_TRUE(result.in_doubt);
    return result;
  }

  std::size_t Stored() {
    const auto loaded = other_->LoadSession(change_.key, kAllActive);
    return loaded.ok() && loaded->has_value() ? (*loaded)->active.size() : 0;
  }

  TestDatabase database_;
  TestProxy proxy_{database_.host(), database_.port()};
  std::unique_ptr<Store> other_;
  std::unique_ptr<Store> store_;
  SessionChange change_ =
      CreateChange("s", 1);  // To be committed next; the session has 3 messages.
};

TEST_F(SettleTest, ALostAnswerIsFoundToBeCommitted) {
  EXPECT_THAT(CommitUnder(Fault::kCutReply), Is(CommitOutcome::kCommitted));
  EXPECT_EQ(Stored(), 4U);
}

TEST_F(SettleTest, ALostQuestionIsAskedAgain) {
  EXPECT_THAT(CommitUnder(Fault::kCutRequest), Is(CommitOutcome::kCommitted));
  EXPECT_EQ(Stored(), 4U);
}

TEST_F(SettleTest, AServerThatDoesNotAnswerIsAskedOnAnotherConnection) {
  EXPECT_THAT(CommitUnder(Fault::kSwallowReply), Is(CommitOutcome::kCommitted));
  EXPECT_EQ(Stored(), 4U);
}

TEST_F(SettleTest, ALostAnswerIsKnownByItsMessageAfterOthersHaveWritten) {
  EXPECT_THAT(CommitUnder(Fault::kCutReply,
                          [&] {
                            EXPECT_THAT(Commit(*other_, NextChange(change_, 1)),
                                        Is(CommitOutcome::kCommitted));
                          }),
              Is(CommitOutcome::kCommitted));
  EXPECT_EQ(Stored(), 5U);
}

TEST_F(SettleTest, ALostRaceIsCertainWhenTheRivalHasTheSameRevision) {
  SessionChange rival = change_;
  rival.row.commit_tag = FreshNumber();
  EXPECT_THAT(
      CommitUnder(Fault::kCutRequest,
                  [&] { EXPECT_THAT(Commit(*other_, rival), Is(CommitOutcome::kCommitted)); }),
      Is(CommitOutcome::kRevisionLost));
  EXPECT_EQ(Stored(), 4U);
}

TEST_F(SettleTest, ALostRaceIsCertainWhenAnotherMessageHasThePosition) {
  SessionChange rival = change_;
  rival.row.commit_tag = FreshNumber();
  rival.messages[0] = MakeMessage(rival.messages[0]->position, "rival");
  EXPECT_THAT(CommitUnder(Fault::kCutRequest,
                          [&] {
                            EXPECT_THAT(Commit(*other_, rival), Is(CommitOutcome::kCommitted));
                            EXPECT_THAT(Commit(*other_, NextChange(rival, 1)),
                                        Is(CommitOutcome::kCommitted));
                          }),
              Is(CommitOutcome::kRevisionLost));
  EXPECT_EQ(Stored(), 5U);
}

TEST_F(SettleTest, WithoutEvidenceTheOutcomeIsUnknown) {
  change_ = NextChange(change_, 0);
  change_.expected_revision -= 1;
  const CommitResult result = CommitUnder(Fault::kCutReply, [&] {
    EXPECT_THAT(Commit(*other_, NextChange(change_, 1)), Is(CommitOutcome::kCommitted));
  });
  EXPECT_THAT(result, Is(CommitOutcome::kUnknown));
  EXPECT_TRUE(absl::IsUnavailable(result.status)) << result.status;
  EXPECT_EQ(CauseOf(result.status).code, "08006");
  EXPECT_THAT(CauseOf(result.status).text, HasSubstr("closed the connection"));
}

// A change without messages is known by its first content.
class SettleContentsTest : public SettleTest {
 protected:
  SettleContentsTest() {
    change_ = NextChange(change_, 0);
    change_.expected_revision -= 1;
    change_.row.revision -= 1;
    change_.row.content_generation = FreshNumber();
    change_.contents = {MakeMessage(change_.row.next_content++, "content")};
    change_.row.content_count = 1;
  }

  std::vector<std::string> StoredContents() {
    std::vector<std::string> bodies;
    const auto rows =
        other_->ReadRange(change_.key, change_.row.content_generation, {0, 100}, 100, 1 << 20);
    EXPECT_TRUE(rows.ok()) << rows.status();
    for (const MessagePtr& row : *rows) bodies.emplace_back(row->body);
    return bodies;
  }
};

TEST_F(SettleContentsTest, ALostAnswerIsFoundToBeCommitted) {
  EXPECT_THAT(CommitUnder(Fault::kCutReply), Is(CommitOutcome::kCommitted));
  EXPECT_THAT(StoredContents(), ElementsAre("content"));
}

TEST_F(SettleContentsTest, ALostQuestionIsAskedAgain) {
  EXPECT_THAT(CommitUnder(Fault::kCutRequest), Is(CommitOutcome::kCommitted));
  EXPECT_THAT(StoredContents(), ElementsAre("content"));
}

TEST_F(SettleContentsTest, ALostAnswerIsKnownByItsContentAfterOthersHaveWritten) {
  EXPECT_THAT(CommitUnder(Fault::kCutReply,
                          [&] {
                            EXPECT_THAT(Commit(*other_, NextChange(change_, 1)),
                                        Is(CommitOutcome::kCommitted));
                          }),
              Is(CommitOutcome::kCommitted));
  EXPECT_THAT(StoredContents(), ElementsAre("content"));
}

TEST_F(SettleContentsTest, ALostRaceIsCertainWhenAnotherContentHasThePosition) {
  SessionChange rival = change_;
  rival.row.commit_tag = FreshNumber();
  rival.contents = {MakeMessage(1, "rival")};
  EXPECT_THAT(CommitUnder(Fault::kCutRequest,
                          [&] {
                            EXPECT_THAT(Commit(*other_, rival), Is(CommitOutcome::kCommitted));
                            EXPECT_THAT(Commit(*other_, NextChange(rival, 1)),
                                        Is(CommitOutcome::kCommitted));
                          }),
              Is(CommitOutcome::kRevisionLost));
  EXPECT_THAT(StoredContents(), ElementsAre("rival"));
}

// A change that only feeds a block is known by the first entry it appends.
class SettleEntriesTest : public SettleTest {
 protected:
  SettleEntriesTest() {
    change_ = NextChange(change_, 0);
    change_.expected_revision -= 1;
    change_.row.revision -= 1;
    change_.row.block_generation = FreshNumber();
    BlockState& block = change_.blocks.emplace_back();
    block.name = "block";
    block.entry_generation = FreshNumber();
    block.next_entry = 2;
    change_.entries = {{block.entry_generation, MakeMessage(1, "entry")}};
  }
};

TEST_F(SettleEntriesTest, ALostAnswerIsKnownByItsEntryAfterOthersHaveWritten) {
  EXPECT_THAT(CommitUnder(Fault::kCutReply,
                          [&] {
                            EXPECT_THAT(Commit(*other_, NextChange(change_, 1)),
                                        Is(CommitOutcome::kCommitted));
                          }),
              Is(CommitOutcome::kCommitted));
  EXPECT_EQ((*other_->LoadSession(change_.key, kAllActive))->blocks, change_.blocks);
}

TEST_F(SettleEntriesTest, ALostRaceIsCertainWhenAnotherEntryHasThePosition) {
  SessionChange rival = change_;
  rival.row.commit_tag = FreshNumber();
  rival.entries[0].row = MakeMessage(1, "rival");
  EXPECT_THAT(CommitUnder(Fault::kCutRequest,
                          [&] {
                            EXPECT_THAT(Commit(*other_, rival), Is(CommitOutcome::kCommitted));
                            EXPECT_THAT(Commit(*other_, NextChange(rival, 1)),
                                        Is(CommitOutcome::kCommitted));
                          }),
              Is(CommitOutcome::kRevisionLost));
}

TEST_F(SettleTest, ATakenRequestIdIsStillTold) {
  change_.requests.push_back({"r", std::string(32, 'f'), "reply", 5});
  database_.Run("INSERT INTO memoryd_requests VALUES ('t', 's', 'r', '', '', 5)");
  EXPECT_THAT(CommitUnder(Fault::kCutRequest), Is(CommitOutcome::kRequestIdTaken));
  EXPECT_EQ(Stored(), 3U);
}

TEST_F(SettleTest, ABatchIsSettledWhole) {
  std::vector<SessionChange> changes = {change_};
  for (const char* session : {"a", "b", "z"}) changes.push_back(CreateChange(session, 2));
  for (const Fault fault : {Fault::kCutReply, Fault::kCutRequest}) {
    proxy_.Inject(fault);
    EXPECT_THAT(store_->Commit(changes), Each(Is(CommitOutcome::kCommitted)));
    EXPECT_TRUE(proxy_.injected());
    for (SessionChange& change : changes) change = NextChange(change, 2);
  }
  EXPECT_EQ(Stored(), 6U);
}

TEST_F(SettleTest, AStoreOutOfReachFailsAtOnceAndComesBackByItself) {
  proxy_.Refuse(true);
  database_.TerminateBackends();
  const CommitResult result = Commit(*store_, change_);
  EXPECT_THAT(result, Is(CommitOutcome::kFailed));
  EXPECT_TRUE(absl::IsUnavailable(result.status)) << result.status;
  EXPECT_TRUE(absl::IsUnavailable(store_->LoadSession(change_.key, kAllActive).status()));
  EXPECT_TRUE(absl::IsUnavailable(store_->Ping()));
  proxy_.Refuse(false);
  CommitResult again = result;
  while (again.outcome == CommitOutcome::kFailed) again = Commit(*store_, change_);
  EXPECT_THAT(again, Is(CommitOutcome::kCommitted));
  EXPECT_EQ(Stored(), 4U);
}

}  // namespace
}  // namespace memoryd
