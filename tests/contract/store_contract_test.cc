// The contract of Store::Commit, over every store.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/model/message.h"
#include "core/model/session.h"
#include "core/storage/store.h"
#include "tests/contract/store_fixture.h"

namespace memoryd {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const SessionKey kKey = {"tenant", "session"};

RequestRecord Request(std::string id) {
  return {std::move(id), std::string(32, '\xAB'), std::string("re\0ply", 6), 1'700'000'000'000'000};
}

using CommitContractTest = StoreTest;

TEST_P(CommitContractTest, NothingToWriteIsDone) {
  EXPECT_THAT(CommitAll({}), IsEmpty());
  EXPECT_TRUE(store().Ping().ok());
}

TEST_P(CommitContractTest, EveryColumnOfTheRowComesBack) {
  SessionChange change = NewSession(kKey, 0, std::numeric_limits<std::uint64_t>::max());
  SessionRow& row = change.row;
  row.revision = std::numeric_limits<std::int64_t>::max() - 1;
  row.next_position = 2'000'000'000;
  row.floor = 3'000'000'000;
  row.watermark = 4'000'000'000;
  row.pinned = {1, 2, 3, 4, 5, 6, 7, 8};
  row.opening = 3'500'000'000;
  row.active_count = 41;
  row.archived_count = 42;
  row.active_tokens = 1'000'000'000'000;
  row.create_us = -1;
  row.update_us = 1'700'000'000'000'001;
  row.commit_tag = 0x8000'0000'0000'0001;
  row.config = std::string("\0{}\xFF", 4);
  MustCommit(change);
  ExpectStored(change);
}

TEST_P(CommitContractTest, EveryFieldOfAMessageComesBack) {
  SessionChange change = NewSession(kKey, 0);
  for (const Role role : {Role::kOther, Role::kUser, Role::kAssistant, Role::kSystem,
                          Role::kDeveloper, Role::kTool}) {
    MessageDraft message =
        NewMessage(change.row.next_position++, fmt::format("id'\" % {}", static_cast<int>(role)));
    message.role = role;
    message.token_count = role == Role::kTool ? 0 : 2'000'000'000;
    message.ids.value().calls = {"call_1", "", "späť"};
    message.ids.value().results = {std::string(300, 'r')};
    change.messages.push_back(message);
  }
  MustCommit(change);
  ExpectStored(change);
}

TEST_P(CommitContractTest, BodiesAreBytes) {
  SessionChange change = NewSession(kKey, 0);
  std::string all_bytes;
  for (int byte = 0; byte < 256; ++byte) all_bytes.push_back(static_cast<char>(byte));
  std::string large(std::size_t{1} << 20, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 7);
  for (const std::string& body : {std::string(), std::string(1, '\0'), all_bytes, large}) {
    MessageDraft message = NewMessage(change.row.next_position++);
    message.body = body;
    change.messages.push_back(message);
  }
  MustCommit(change);
  ExpectStored(change);
}

TEST_P(CommitContractTest, AppendedMessagesFollowThoseBefore) {
  SessionChange change = NewSession(kKey, 3);
  std::vector<MessagePtr> all = change.messages;
  MustCommit(change);
  for (int i = 0; i < 4; ++i) {
    change = Following(change, i);
    all.insert(all.end(), change.messages.begin(), change.messages.end());
    MustCommit(change);
  }
  const auto loaded = Load(kKey);
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->row, change.row);
  ExpectSameMessages(loaded->active, all);
}

TEST_P(CommitContractTest, ALostRevisionStoresNothing) {
  const SessionChange first = NewSession(kKey, 2);
  const SessionChange second = Following(first, 2);
  MustCommit(first);
  MustCommit(second);
  for (const std::int64_t expected : {0, 1, 3, 1000}) {
    SessionChange late = Following(second, 1);
    late.expected_revision = expected;
    late.requests = {Request("late")};
    late.erase = {{1, 5}};
    late.garbage = {{second.row.generation, 1, 5}};
    late.write_config = true;
    late.row.config = "late";
    EXPECT_EQ(CommitOne(late), CommitOutcome::kRevisionLost) << expected;
  }
  EXPECT_EQ(Load(kKey)->row, second.row);
  EXPECT_FALSE(HasRequest(kKey, "late"));
  EXPECT_EQ(*store().Purge({.now_us = 0, .keep_us = 0, .max_rows = 100}), 0);
  EXPECT_THAT(Positions(kKey, first.row.generation), ElementsAre(1, 2, 3, 4));
}

TEST_P(CommitContractTest, AnAppendWritesNoOtherColumnOfTheRow) {
  SessionChange first = NewSession(kKey, 2);
  first.row.archived_count = 4;
  first.row.config = "{}";
  first.write_config = true;
  MustCommit(first);
  SessionChange append = Following(first, 2);
  append.row.commit_tag = 0x8000'0000'0000'0007;
  ASSERT_TRUE(IsAppend(first.row, append.row));
  append.appends_only = true;
  MustCommit(append);
  EXPECT_EQ(Load(kKey)->row, append.row);

  SessionChange next = Following(append, 1);
  next.appends_only = true;
  const SessionRow expected = next.row;
  next.row.archived_count = 9;
  next.row.floor = next.row.watermark = 3;
  next.row.create_us = 5;
  MustCommit(next);
  EXPECT_EQ(Load(kKey)->row, expected);
  EXPECT_THAT(Positions(kKey, first.row.generation), ElementsAre(1, 2, 3, 4, 5));
}

TEST_P(CommitContractTest, AnAppendToAnotherRevisionIsLost) {
  const SessionChange first = NewSession(kKey, 1);
  SessionChange append = Following(first, 1);
  append.appends_only = true;
  EXPECT_EQ(CommitOne(append), CommitOutcome::kRevisionLost) << "there is no row";
  MustCommit(first);
  for (const std::int64_t expected : {2, 1000}) {
    append.expected_revision = expected;
    EXPECT_EQ(CommitOne(append), CommitOutcome::kRevisionLost) << expected;
  }
  EXPECT_EQ(Load(kKey)->row, first.row);
  EXPECT_THAT(Positions(kKey, first.row.generation), ElementsAre(1));
}

TEST_P(CommitContractTest, AppendsAndOtherChangesAreWrittenTogether) {
  for (const int count : {2, 5, 40}) {
    std::vector<SessionChange> before;
    std::vector<SessionChange> changes;
    for (int i = 0; i < count; ++i) {
      before.push_back(NewSession({"tenant", fmt::format("{} of {}", i, count)}, 1));
      MustCommit(before.back());
      SessionChange change = Following(before.back(), 1 + i % 3);
      change.appends_only = i % 4 != 0;
      if (!change.appends_only) change.row.archived_count = 7;
      if (i % 5 == 1) change.requests = {Request("request")};
      changes.push_back(change);
    }
    const auto lost = static_cast<std::size_t>(count - 1);
    changes[lost].expected_revision = 9;
    const std::vector<CommitOutcome> outcomes = CommitAll(changes);
    for (std::size_t i = 0; i < changes.size(); ++i) {
      EXPECT_EQ(outcomes[i], i == lost ? CommitOutcome::kRevisionLost : CommitOutcome::kCommitted);
      EXPECT_EQ(Load(changes[i].key)->row, i == lost ? before[i].row : changes[i].row);
      EXPECT_EQ(HasRequest(changes[i].key, "request"), i != lost && i % 5 == 1);
    }
  }
}

TEST_P(CommitContractTest, UpdatingAMissingRowIsLostAndMakesNone) {
  SessionChange change = NewSession(kKey, 1);
  change.expected_revision = 7;
  change.row.revision = 8;
  EXPECT_EQ(CommitOne(change), CommitOutcome::kRevisionLost);
  EXPECT_FALSE(Load(kKey).has_value());
  EXPECT_THAT(Positions(kKey, 1), IsEmpty());
}

TEST_P(CommitContractTest, ALoserHurtsNoOtherWhereverItStands) {
  constexpr int kCount = 5;
  for (int loser = 0; loser < kCount; ++loser) {
    std::vector<SessionChange> changes;
    changes.reserve(kCount);
    for (int i = 0; i < kCount; ++i) {
      changes.push_back(NewSession({"tenant", fmt::format("{} of {}", i, loser)}));
    }
    const auto lost = static_cast<std::size_t>(loser);
    MustCommit(changes[lost]);
    for (SessionChange& change : changes) change.row.archived_count = 9;
    const std::vector<CommitOutcome> outcomes = CommitAll(changes);
    for (std::size_t i = 0; i < changes.size(); ++i) {
      EXPECT_EQ(outcomes[i], i == lost ? CommitOutcome::kRevisionLost : CommitOutcome::kCommitted);
      EXPECT_EQ(Load(changes[i].key)->row.archived_count, i == lost ? 0 : 9);
    }
  }
}

TEST_P(CommitContractTest, ATombstoneStaysUntilItIsReplaced) {
  const SessionChange first = NewSession(kKey, 2);
  const SessionChange deletion = Deleting(first, 1'700'000'000'000'900);
  MustCommit(first);
  MustCommit(deletion);
  const auto tombstone = Load(kKey);
  ASSERT_TRUE(tombstone.has_value());
  EXPECT_EQ(tombstone->row, deletion.row);
  EXPECT_THAT(tombstone->active, IsEmpty());

  SessionChange again = NewSession(kKey, 1, /*generation=*/2);
  EXPECT_EQ(CommitOne(again), CommitOutcome::kRevisionLost);
  again.expected_revision = deletion.row.revision;
  again.row.revision = deletion.row.revision + 1;
  MustCommit(again);
  ExpectStored(again);
}

TEST_P(CommitContractTest, ATakenMessageIdFailsItsOwnSessionOnly) {
  SessionChange first = NewSession(kKey, 0);
  first.messages = {NewMessage(1, "given")};
  first.row.next_position = 2;
  MustCommit(first);

  SessionChange second = Following(first, 1);
  second.messages.push_back(NewMessage(second.row.next_position++, "given"));
  second.requests = {Request("r1")};
  const SessionChange other = NewSession({"tenant", "other"});
  EXPECT_THAT(CommitAll({second, other}),
              ElementsAre(CommitOutcome::kMessageIdTaken, CommitOutcome::kCommitted));
  ExpectStored(first);
  ExpectStored(other);
  EXPECT_FALSE(HasRequest(kKey, "r1"));
  EXPECT_EQ(CommitOne(Following(first, 1)), CommitOutcome::kCommitted);
}

TEST_P(CommitContractTest, AMessageIdIsFreeInAnotherGenerationSessionAndTenant) {
  const auto with_id = [](SessionChange change) {
    change.messages = {NewMessage(change.row.next_position++, "given")};
    return change;
  };
  const SessionChange first = with_id(NewSession(kKey, 0));
  SessionChange replaced = Following(first, 0);
  replaced.row.generation = 2;
  replaced.row.next_position = 1;
  replaced = with_id(replaced);
  EXPECT_EQ(CommitOne(first), CommitOutcome::kCommitted);
  EXPECT_EQ(CommitOne(replaced), CommitOutcome::kCommitted);
  EXPECT_EQ(CommitOne(with_id(NewSession({"tenant", "s2"}, 0))), CommitOutcome::kCommitted);
  EXPECT_EQ(CommitOne(with_id(NewSession({"t2", "session"}, 0))), CommitOutcome::kCommitted);
}

TEST_P(CommitContractTest, ATakenRequestIdFailsItsOwnSessionOnlyOverGenerations) {
  SessionChange first = NewSession(kKey);
  first.requests = {Request("r1"), Request("r2")};
  MustCommit(first);

  SessionChange second = Following(first, 1);
  second.row.generation = 2;
  second.requests = {Request("r3"), Request("r2")};
  SessionChange other = NewSession({"tenant", "other"});
  other.requests = {Request("r2")};
  EXPECT_THAT(CommitAll({other, second}),
              ElementsAre(CommitOutcome::kCommitted, CommitOutcome::kRequestIdTaken));
  ExpectStored(first);
  EXPECT_FALSE(HasRequest(kKey, "r3"));
  EXPECT_THAT(Positions(kKey, 2), IsEmpty());
}

TEST_P(CommitContractTest, EveryOutcomeCanStandInOneBatch) {
  std::vector<SessionChange> changes;
  for (int i = 0; i < 6; ++i) {
    SessionChange change = NewSession({"tenant", fmt::format("s{}", i)}, 0);
    change.messages = {NewMessage(change.row.next_position++, "m1")};
    change.requests = {Request("r1")};
    MustCommit(change);
    changes.push_back(Following(change, 1));
  }
  changes[1].expected_revision = 17;
  changes[2].messages = {NewMessage(2, "m1")};
  changes[4].requests = {Request("r1")};
  EXPECT_THAT(CommitAll(changes),
              ElementsAre(CommitOutcome::kCommitted, CommitOutcome::kRevisionLost,
                          CommitOutcome::kMessageIdTaken, CommitOutcome::kCommitted,
                          CommitOutcome::kRequestIdTaken, CommitOutcome::kCommitted));
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const bool stored = i == 0 || i == 3 || i == 5;
    EXPECT_EQ(Load(changes[i].key)->row.revision, stored ? 2 : 1);
    EXPECT_EQ(Positions(changes[i].key, 1).size(), stored ? 2U : 1U);
  }
}

TEST_P(CommitContractTest, EraseTakesExactlyItsRange) {
  const SessionChange first = NewSession(kKey, 6);
  const SessionChange other = NewSession({"tenant", "other"}, 6);
  MustCommit(first);
  MustCommit(other);
  SessionChange second = Following(first, 1);
  second.erase = {{2, 5}};
  second.row.active_count = 4;
  MustCommit(second);
  EXPECT_THAT(Positions(kKey, 1), ElementsAre(1, 5, 6, 7));
  EXPECT_THAT(Positions(other.key, 1), ElementsAre(1, 2, 3, 4, 5, 6));

  SessionChange nothing = Following(second, 0);
  nothing.erase = {{6, 6}};
  MustCommit(nothing);
  EXPECT_THAT(Positions(kKey, 1), ElementsAre(1, 5, 6, 7));
}

TEST_P(CommitContractTest, SeveralRangesAreErasedAndOtherRowsWrittenAnew) {
  const SessionChange first = NewSession(kKey, 9);
  const SessionChange other = NewSession({"tenant", "other"}, 9);
  MustCommit(first);
  MustCommit(other);
  SessionChange second = Following(first, 1);
  second.erase = {{2, 3}, {5, 6}, {8, 9}};
  std::vector<MessagePtr> stored = store().ReadRange(kKey, 1, {1, 20}, 100, 1 << 20).value();
  for (const std::size_t i : {std::size_t{2}, std::size_t{8}}) {
    MessageDraft changed(*stored[i]);
    changed.body = "written anew";
    changed.role = Role::kUser;
    changed.token_count = 77;
    changed.ids.value().calls = {"c"};
    stored[i] = changed;
    second.replaced.push_back(changed);
  }
  second.row.edit_revision = second.row.revision;
  MustCommit(second);
  EXPECT_EQ(Load(kKey)->row, second.row);
  std::erase_if(stored, [](const MessagePtr& message) {
    return message->position == 2 || message->position == 5 || message->position == 8;
  });
  stored.push_back(second.messages.front());
  ExpectSameMessages(store().ReadRange(kKey, 1, {1, 20}, 100, 1 << 20).value(), stored);
  EXPECT_THAT(Positions(other.key, 1), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));

  // Who loses has changed nothing.
  SessionChange late = Following(first, 0);
  late.erase = {{1, 2}};
  MessageDraft lost(*stored.back());
  lost.body = "lost";
  late.replaced = {lost};
  EXPECT_EQ(CommitAll({late}).front(), CommitOutcome::kRevisionLost);
  ExpectSameMessages(store().ReadRange(kKey, 1, {1, 20}, 100, 1 << 20).value(), stored);
}

TEST_P(CommitContractTest, TheConfigurationStaysUnlessItIsWritten) {
  SessionChange change = NewSession(kKey);
  change.row.config = "first";
  MustCommit(change);
  change = Following(change);
  change.row.config = "not written";
  MustCommit(change);
  EXPECT_EQ(Load(kKey)->row.config, "first");
  change = Following(change);
  change.row.config = "second";
  change.write_config = true;
  MustCommit(change);
  EXPECT_EQ(Load(kKey)->row.config, "second");
}

TEST_P(CommitContractTest, ANewGenerationHidesTheOldMessages) {
  const SessionChange first = NewSession(kKey, 3);
  MustCommit(first);
  SessionChange second = Following(first, 0);
  second.row.generation = 0xFFFF'0000'0000'0000;
  second.row.next_position = 2;
  second.messages = {NewMessage(1)};
  MustCommit(second);
  ExpectStored(second);
  EXPECT_THAT(Positions(kKey, second.row.generation), ElementsAre(1));
  EXPECT_THAT(Positions(kKey, first.row.generation), ElementsAre(1, 2, 3));
}

TEST_P(CommitContractTest, BatchesOfAnySizeCommitAsOne) {
  for (const int size : {1, 2, 3, 16, 64, 300}) {
    std::vector<SessionChange> changes;
    for (int i = 0; i < size; ++i) {
      // Not in the order of keys (7919 is prime), and not all of one shape.
      const int number = (i * 7919) % size;
      changes.push_back(NewSession({fmt::format("t{}", size), fmt::format("s{}", number)}, i % 4));
      if (i % 3 == 0) changes.back().requests = {Request("r")};
    }
    EXPECT_THAT(CommitAll(changes), Each(CommitOutcome::kCommitted));
    for (const SessionChange& change : changes) ExpectStored(change);
    for (SessionChange& change : changes) change = Following(change, 2);
    EXPECT_THAT(CommitAll(changes), Each(CommitOutcome::kCommitted));
    for (const SessionChange& change : changes) EXPECT_EQ(Load(change.key)->row, change.row);
  }
}

TEST_P(CommitContractTest, OneChangeMayCarryThousandsOfMessages) {
  for (const int count : {1000, 10'000}) {
    SessionChange change = NewSession({"tenant", fmt::format("{}", count)}, 0);
    for (int i = 0; i < count; ++i) {
      const std::int64_t position = change.row.next_position++;
      change.messages.push_back(NewMessage(position, fmt::format("id {}", position)));
    }
    EXPECT_THAT(CommitAll({NewSession({"beside", fmt::format("{}", count)}), change}),
                Each(CommitOutcome::kCommitted));
    ExpectStored(change);
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, CommitContractTest, ::testing::ValuesIn(AllStores()),
                         StoreCaseName);

using DurabilityContractTest = StoreTest;

TEST_P(DurabilityContractTest, AStoreOpenedAgainHoldsAllThatWasCommitted) {
  SessionChange session = NewSession(kKey, 3);
  session.requests = {Request("r1")};
  MustCommit(session);
  SessionChange deleted = NewSession({"tenant", "deleted"}, 1);
  MustCommit(deleted);
  deleted = Deleting(deleted, 1'700'000'000'000'000);
  MustCommit(deleted);

  ASSERT_NO_FATAL_FAILURE(Reopen());
  ExpectStored(session);
  EXPECT_EQ(Load(deleted.key)->row, deleted.row);
  EXPECT_TRUE(HasRequest(kKey, "r1"));
  EXPECT_TRUE(store().Migrate().ok());
  ExpectStored(session);
  EXPECT_EQ(CommitOne(Following(session, 1)), CommitOutcome::kCommitted);
  EXPECT_THAT(store().Purge({.now_us = 0, .keep_us = 0, .max_rows = 100}).value(),
              ::testing::Gt(0));
}

INSTANTIATE_TEST_SUITE_P(Stores, DurabilityContractTest, ::testing::ValuesIn(DurableStores()),
                         StoreCaseName);

}  // namespace
}  // namespace memoryd
