// Large values, which stand apart from their rows: each way to write them, to read them and to let
// them go.
#include "core/storage/sqlite/value.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/storage/sqlite/database.h"
#include "core/storage/sqlite/sqlite_store.h"
#include "core/storage/sqlite/temporary_folder.h"
#include "core/storage/sqlite/undone_step.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"

namespace memoryd::sqlite {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const SessionKey kKey{"t", "s"};
constexpr std::uint64_t kGeneration = 1;
constexpr std::uint64_t kBlockGeneration = 7;

// A small value, and two large ones of different sizes; none a part of another.
const std::string kSmall(kLargestInRow, 's');
const std::string kLarge(kLargestInRow + 1, 'l');
const std::string kLarger(3 << 20, 'm');

MessageDraft NewMessage(std::int64_t position, std::string body) {
  MessageDraft message;
  message.position = position;
  message.body = std::move(body);
  return message;
}

class ValueTest : public ::testing::Test {
 protected:
  ValueTest() { Open(); }

  void Open() {
    StoreOptions options;
    options.url = "sqlite:" + path_;
    auto opened = OpenSqliteStore(options);
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
    ASSERT_TRUE(store_->Migrate().ok());
  }
  void Close() { store_.reset(); }

  // The change that follows the last one and changes nothing yet.
  SessionChange Next() {
    SessionChange change;
    change.key = kKey;
    change.expected_revision = row_.revision;
    change.row = row_;
    change.row.generation = kGeneration;
    ++change.row.revision;
    return change;
  }
  void Commit(const SessionChange& change) {
    ASSERT_EQ(store_->Commit({&change, 1}).front().outcome, CommitOutcome::kCommitted);
    row_ = change.row;
  }
  void Append(std::vector<std::string> bodies) {
    SessionChange change = Next();
    for (std::string& body : bodies) {
      change.messages.push_back(NewMessage(change.row.next_position++, std::move(body)));
    }
    Commit(change);
  }
  void Replace(std::int64_t position, const std::string& body) {
    SessionChange change = Next();
    change.replaced.push_back(NewMessage(position, body));
    Commit(change);
  }
  void SetConfig(const std::string& config) {
    SessionChange change = Next();
    change.row.config = config;
    change.write_config = true;
    Commit(change);
  }
  void SetBlock(const std::string& state) {
    SessionChange change = Next();
    change.row.block_generation = kBlockGeneration;
    BlockState& block = change.blocks.emplace_back();
    block.name = "block";
    block.state = state;
    Commit(change);
  }
  void Purge(std::int64_t now_us = 0) {
    const auto purged = store_->Purge({.now_us = now_us, .keep_us = 0, .max_rows = 1000});
    ASSERT_TRUE(purged.ok()) << purged.status();
  }

  std::vector<std::string> Bodies() {
    std::vector<std::string> bodies;
    const auto messages = store_->ReadRange(kKey, kGeneration, {0, 1000}, 1000, INT64_MAX);
    EXPECT_TRUE(messages.ok()) << messages.status();
    if (!messages.ok()) return bodies;
    for (const MessagePtr& message : *messages) bodies.emplace_back(message->body);
    return bodies;
  }
  LoadedSession Load() {
    auto loaded = store_->LoadSession(kKey, kAllActive);
    EXPECT_TRUE(loaded.ok() && loaded->has_value()) << loaded.status();
    return loaded.ok() && loaded->has_value() ? **std::move(loaded) : LoadedSession();
  }

  // The first column of the rows that a stranger sees.
  std::vector<std::int64_t> Numbers(const std::string& sql) {
    std::vector<std::int64_t> numbers;
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    sqlite3_stmt* statement = nullptr;
    EXPECT_EQ(sqlite3_prepare_v2(db, sql.c_str(), -1, &statement, nullptr), SQLITE_OK)
        << sqlite3_errmsg(db);
    while (sqlite3_step(statement) == SQLITE_ROW) {
      numbers.push_back(sqlite3_column_int64(statement, 0));
    }
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return numbers;
  }
  void Execute(const std::string& sql) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(db);
    sqlite3_close(db);
  }
  // What a server that starts after an unclean stop warns of. The store must be closed.
  std::string Warnings() {
    std::ofstream(path_ + "-wal") << "not closed";
    std::string lines;
    StoreOptions options;
    options.url = "sqlite:" + path_;
    options.warn = [&lines](const std::string& line) { lines += line; };
    EXPECT_TRUE(OpenSqliteStore(options).ok());
    return lines;
  }
  // Each of them belongs to a row.
  std::vector<std::int64_t> ValueSizes() {
    const auto db = Database::Open(path_, Database::Use::kRead, 1000);
    EXPECT_TRUE(db.ok()) << db.status();
    const auto faults = db.ok() ? CheckValues(**db) : db.status();
    EXPECT_TRUE(faults.ok() && faults->strays == 0 && faults->missing == 0);
    return Numbers("SELECT length(value) FROM memoryd_values ORDER BY 1");
  }

  const TemporaryFolder folder_;
  const std::string path_ = (folder_.path() / "store").string();
  std::unique_ptr<Store> store_;
  SessionRow row_;
};

TEST_F(ValueTest, BodiesAreReadFromWhereTheyStand) {
  Append({kSmall, kLarge, "", kLarger});
  EXPECT_THAT(ValueSizes(), ElementsAre(kLarge.size(), kLarger.size()));
  EXPECT_THAT(Bodies(), ElementsAre(kSmall, kLarge, "", kLarger));
  EXPECT_EQ(Load().active.size(), 4U);
  EXPECT_EQ(Load().active.back()->body, kLarger);
  const std::vector<std::int64_t> positions{2, 4};
  const auto read = store_->ReadPositions(kKey, kGeneration, positions, INT64_MAX);
  ASSERT_TRUE(read.ok() && read->size() == 2) << read.status();
  EXPECT_EQ((*read)[0]->body, kLarge);
  EXPECT_EQ((*read)[1]->body, kLarger);
}

TEST_F(ValueTest, SizesAreThoseOfTheBodies) {
  Append({kSmall, kLarge, "", kLarger});
  const auto sizes = store_->ReadSizes(kKey, kGeneration, {0, 10}, 10);
  ASSERT_TRUE(sizes.ok() && sizes->size() == 4) << sizes.status();
  EXPECT_EQ((*sizes)[0].bytes, std::ssize(kLarger));
  EXPECT_EQ((*sizes)[1].bytes, 0);
  EXPECT_EQ((*sizes)[2].bytes, std::ssize(kLarge));
  EXPECT_EQ((*sizes)[3].bytes, std::ssize(kSmall));

  // Where the row doesn't tell that they are few.
  SessionChange change = Next();
  change.row.message_bytes = INT64_MAX / 2;
  change.row.active_count = 4;
  Commit(change);
  const auto loaded = store_->LoadSession(kKey, 1);
  ASSERT_TRUE(loaded.ok() && loaded->has_value()) << loaded.status();
  EXPECT_EQ((*loaded)->too_large, std::ssize(kSmall) + std::ssize(kLarge) + std::ssize(kLarger) +
                                      4 * kActiveMessageBytes);
}

TEST_F(ValueTest, AReadStopsAtItsBytes) {
  Append({kLarge, kLarge, kLarge});
  const auto read = store_->ReadRange(kKey, kGeneration, {0, 10}, 10, 2 * std::ssize(kLarge));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->size(), 2U);
}

TEST_F(ValueTest, ABodyThatIsReplacedLeavesNothing) {
  Append({kSmall});
  for (const std::string& body : {kLarge, kLarger, kLarge, kSmall, kLarger}) {
    Replace(1, body);
    EXPECT_THAT(Bodies(), ElementsAre(body));
    EXPECT_EQ(ValueSizes().size(), body.size() > kLargestInRow ? 1U : 0U);
  }
  Replace(2, kLarge);  // There is no such row.
  EXPECT_THAT(ValueSizes(), ElementsAre(kLarger.size()));
}

TEST_F(ValueTest, ManyToolIdsStandApartToo) {
  const auto with_ids = [](std::int64_t position, int count) {
    MessageDraft message = NewMessage(position, kLarge);
    for (int i = 0; i < count; ++i) {
      message.ids.value().calls.push_back(fmt::format("call {:100}", i));
    }
    return message;
  };
  SessionChange change = Next();
  change.messages.push_back(with_ids(change.row.next_position++, 50));
  Commit(change);
  EXPECT_EQ(ValueSizes().size(), 2U);
  EXPECT_EQ(Load().active.front()->ids->calls.size(), 50U);
  for (const int count : {60, 1}) {
    change = Next();
    change.replaced.push_back(with_ids(1, count));
    Commit(change);
    EXPECT_EQ(Load().active.front()->ids->calls.size(), static_cast<std::size_t>(count));
    EXPECT_EQ(ValueSizes().size(), count == 1 ? 1U : 2U);
  }
  change = Next();
  change.erase = {{1, 2}};
  Commit(change);
  EXPECT_THAT(ValueSizes(), IsEmpty());
}

TEST_F(ValueTest, ErasedMessagesTakeTheirBodiesAlong) {
  Append({kLarge, kLarger, kSmall});
  SessionChange change = Next();
  change.erase = {{2, 4}};
  Commit(change);
  EXPECT_THAT(ValueSizes(), ElementsAre(kLarge.size()));
  EXPECT_THAT(Bodies(), ElementsAre(kLarge));
}

TEST_F(ValueTest, GarbageTakesItsBodiesAlong) {
  Append({kLarge, kLarger, kLarger, kLarge, kSmall});
  SessionChange change = Next();
  change.garbage = {{kGeneration, 0, 4}};
  Commit(change);
  Purge();
  EXPECT_THAT(Bodies(), ElementsAre(kLarge, kSmall));
  EXPECT_THAT(ValueSizes(), ElementsAre(kLarge.size()));
}

TEST_F(ValueTest, APurgeIsBoundByTheBytesOfBodiesApart) {
  Append({kLarger, kLarger, kLarger});
  SessionChange change = Next();
  change.garbage = {{kGeneration, 0, 4}};
  Commit(change);
  // One transaction has no room for two of them: a failure in the middle shows where it ended.
  Execute(
      "CREATE TRIGGER stop BEFORE DELETE ON memoryd_messages WHEN old.position = 2"
      " BEGIN SELECT raise(ABORT, 'stop'); END");
  EXPECT_FALSE(store_->PurgeSession(kKey, 100).ok());
  EXPECT_EQ(ValueSizes().size(), 2U);
}

TEST_F(ValueTest, ConfigurationsAreReadFromWhereTheyStand) {
  for (const std::string& config : {kSmall, kLarge, kLarger, kSmall, kLarger}) {
    SetConfig(config);
    EXPECT_EQ(Load().row.config, config);
    EXPECT_EQ(ValueSizes().size(), config.size() > kLargestInRow ? 1U : 0U);
    const auto listed = store_->ListSessions("t", "", {.max_sessions = 5});
    ASSERT_TRUE(listed.ok() && listed->sessions.size() == 1) << listed.status();
    EXPECT_EQ(listed->sessions.front().row.config, config);
    EXPECT_EQ(store_->ReadUsage("t")->bytes, std::ssize(config));
  }
  const auto without = store_->ListSessions("t", "", {.max_sessions = 5, .with_configs = false});
  ASSERT_TRUE(without.ok() && without->sessions.size() == 1) << without.status();
  EXPECT_EQ(without->sessions.front().row.config, "");
  Append({"a commit that leaves the configuration alone"});
  EXPECT_EQ(Load().row.config, kLarger);
}

TEST_F(ValueTest, ANewSessionMayHaveALargeConfiguration) {
  SetConfig(kLarger);
  EXPECT_EQ(Load().row.config, kLarger);
  EXPECT_THAT(ValueSizes(), ElementsAre(kLarger.size()));
}

TEST_F(ValueTest, AListStopsAtTheBytesOfItsConfigurations) {
  for (const char* const session : {"a", "b", "c"}) {
    SessionChange change;
    change.key = {"t", session};
    change.row.revision = 1;
    change.row.config = kLarge;
    change.write_config = true;
    ASSERT_EQ(store_->Commit({&change, 1}).front().outcome, CommitOutcome::kCommitted);
  }
  const auto listed =
      store_->ListSessions("t", "", {.max_sessions = 5, .max_bytes = 2 * std::ssize(kLarge)});
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_EQ(listed->sessions.size(), 2U);
  EXPECT_TRUE(listed->more);
}

TEST_F(ValueTest, WhoLooksForDueSessionsReadsNoLargeConfiguration) {
  SessionChange change = Next();
  change.row.config = kLarger;
  change.write_config = true;
  change.row.expire_us = change.row.drop_us = 6;
  change.write_expire_us = change.write_drop_us = true;
  Commit(change);
  const auto due = store_->ListDueSessions(10, 10);
  ASSERT_TRUE(due.ok() && due->size() == 2) << due.status();
  for (const DueSession& session : *due) EXPECT_EQ(session.row.config, "");
}

TEST_F(ValueTest, AConfigurationOfALostRevisionLeavesNothing) {
  SetConfig(kLarge);
  SessionChange change = Next();
  change.expected_revision += 5;
  change.row.config = kLarger;
  change.write_config = true;
  EXPECT_EQ(store_->Commit({&change, 1}).front().outcome, CommitOutcome::kRevisionLost);
  change.expected_revision = 0;
  EXPECT_EQ(store_->Commit({&change, 1}).front().outcome, CommitOutcome::kRevisionLost);
  EXPECT_THAT(ValueSizes(), ElementsAre(kLarge.size()));
  EXPECT_EQ(Load().row.config, kLarge);
}

TEST_F(ValueTest, AChangeThatCannotBeStoredLeavesNothing) {
  SessionChange change = Next();
  MessageDraft message = NewMessage(change.row.next_position++, kLarge);
  message.SetMessageId("taken");
  change.messages.push_back(message);
  change.requests.push_back({"request", "f", kLarge, 1});
  Commit(change);
  ASSERT_EQ(ValueSizes().size(), 2U);
  for (const char* const id : {"taken", "free"}) {
    change = Next();
    message = NewMessage(change.row.next_position++, kLarger);
    message.SetMessageId(id);
    change.messages = {message};
    change.requests.push_back({"request", "f", kLarger, 1});
    EXPECT_NE(store_->Commit({&change, 1}).front().outcome, CommitOutcome::kCommitted);
    EXPECT_THAT(ValueSizes(), ElementsAre(kLarge.size(), kLarge.size()));
  }
}

TEST_F(ValueTest, StatesOfBlocksAreReadFromWhereTheyStand) {
  for (const std::string& state : {kSmall, kLarge, kLarger, kSmall, kLarge}) {
    SetBlock(state);
    const LoadedSession loaded = Load();
    ASSERT_EQ(loaded.blocks.size(), 1U);
    EXPECT_EQ(loaded.blocks.front().state, state);
    EXPECT_EQ(ValueSizes().size(), state.size() > kLargestInRow ? 1U : 0U);
  }
  SessionChange change = Next();
  change.row.block_generation = 0;
  change.garbage = {{kBlockGeneration, 0, 1}};
  Commit(change);
  Purge();
  EXPECT_THAT(ValueSizes(), IsEmpty());
}

TEST_F(ValueTest, RepliesAreReadFromWhereTheyStand) {
  SessionChange change = Next();
  change.requests = {{"old", "f", kLarge, 10}, {"new", "f", kLarger, 20}};
  Commit(change);
  const std::vector<std::string> ids{"old", "new"};
  const auto read = store_->FindRequests(kKey, ids);
  ASSERT_TRUE(read.ok() && (*read)[0] && (*read)[1]) << read.status();
  EXPECT_EQ((*read)[0]->reply, kLarge);
  EXPECT_EQ((*read)[1]->reply, kLarger);
  Purge(/*now_us=*/15);
  EXPECT_THAT(ValueSizes(), ElementsAre(kLarger.size()));
  change = Next();
  change.forget_requests_before_us = 30;
  Commit(change);
  Purge();
  EXPECT_THAT(ValueSizes(), IsEmpty());
}

TEST_F(ValueTest, ATombstoneTakesItsConfigurationAlong) {
  SetConfig(kLarger);
  SessionChange change = Next();
  change.row.deleted = true;
  change.row.update_us = 5;
  Commit(change);
  ASSERT_EQ(ValueSizes().size(), 1U);
  Purge(/*now_us=*/10);
  EXPECT_THAT(ValueSizes(), IsEmpty());
}

// Or a search beside it would read all of it.
TEST_F(ValueTest, NoRowIsLargeWhateverIsPut) {
  SetConfig(kLarger);
  SetBlock(kLarger);
  SessionChange change = Next();
  MessageDraft message = NewMessage(change.row.next_position++, kLarger);
  for (int i = 0; i < 5000; ++i) message.ids.value().calls.push_back(fmt::format("{:200}", i));
  change.messages = {message};
  change.row.content_generation = 9;
  change.contents = {NewMessage(change.row.next_content++, kLarger)};
  change.entries.push_back({8, NewMessage(1, kLarger)});
  change.requests.push_back({"request", "f", kLarger, 1});
  Commit(change);
  // Pages of the tables themselves, their overflow pages included.
  for (const char* const table :
       {"memoryd_messages", "memoryd_sessions", "memoryd_blocks", "memoryd_requests"}) {
    EXPECT_THAT(Numbers(fmt::format("SELECT count(*) FROM dbstat WHERE name = '{}'", table)),
                ElementsAre(1))
        << table;
  }
}

TEST_F(ValueTest, WhatStandsInItsRowFromBeforeIsReadAndReplaced) {
  SetConfig("{}");
  SetBlock("state");
  SessionChange change = Next();
  change.requests = {{"r", "f", "reply", 10}};
  Commit(change);
  Append({"a", "b"});
  Close();
  const std::string large = "CAST(printf('%.*c', 3000000, 'x') AS BLOB)";
  Execute(std::string(kBackToSchema8) +
          "UPDATE memoryd_messages SET checksum = 0, body = " + large +
          ";"
          "UPDATE memoryd_sessions SET config = " +
          large +
          ";"
          "UPDATE memoryd_blocks SET state = " +
          large +
          ";"
          "UPDATE memoryd_requests SET reply = " +
          large + ";");
  Open();
  EXPECT_THAT(Numbers("SELECT readable_from FROM memoryd_schema WHERE version = 9"),
              ElementsAre(9));
  const std::string stored(3'000'000, 'x');
  EXPECT_THAT(Bodies(), ElementsAre(stored, stored));
  EXPECT_EQ(Load().row.config, stored);
  EXPECT_EQ(Load().blocks.front().state, stored);
  EXPECT_EQ(store_->ReadUsage("t")->bytes, std::ssize(stored));
  const std::vector<std::string> ids{"r"};
  EXPECT_EQ((*store_->FindRequests(kKey, ids))[0]->reply, stored);
  EXPECT_EQ(store_->ReadSizes(kKey, kGeneration, {0, 10}, 10)->front().bytes, std::ssize(stored));
  EXPECT_THAT(ValueSizes(), IsEmpty());

  Replace(1, kLarge);
  SetBlock(kLarge);
  SetConfig(kLarge);
  EXPECT_EQ(ValueSizes().size(), 3U);
  change = Next();
  change.garbage = {{kGeneration, 0, 10}};
  Commit(change);
  Purge();
  EXPECT_THAT(Bodies(), IsEmpty());
  EXPECT_EQ(ValueSizes().size(), 2U);
}

TEST_F(ValueTest, AValueThatIsMissingIsToldAndNeverEmpty) {
  SetConfig(kLarge);
  SetBlock(kLarge);
  SessionChange change = Next();
  change.requests = {{"r", "f", kLarge, 10}};
  Commit(change);
  Append({kLarge});
  Execute("DELETE FROM memoryd_values");
  const auto is_lost = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  };
  const std::vector<std::int64_t> positions{1};
  const std::vector<std::string> ids{"r"};
  is_lost(store_->LoadSession(kKey, kAllActive).status());
  is_lost(store_->ReadRange(kKey, kGeneration, {0, 10}, 10, INT64_MAX).status());
  is_lost(store_->ReadPositions(kKey, kGeneration, positions, INT64_MAX).status());
  is_lost(store_->ReadSizes(kKey, kGeneration, {0, 10}, 10).status());
  is_lost(store_->FindRequests(kKey, ids).status());
  is_lost(store_->ListSessions("t", "", {.max_sessions = 5}).status());
  SetConfig(kSmall);  // Now the block's state is what is missing of the session.
  is_lost(store_->LoadSession(kKey, kAllActive).status());
  // What is lost can be deleted.
  change = Next();
  change.row.block_generation = 0;
  change.garbage = {{kGeneration, 0, 10}, {kBlockGeneration, 0, 1}};
  Commit(change);
  Purge(/*now_us=*/100);
  EXPECT_THAT(Bodies(), IsEmpty());
  EXPECT_EQ(Load().row.config, kSmall);
}

TEST_F(ValueTest, ListingEndsBeforeAConfigurationThatIsNotReadForIt) {
  SetConfig(kLarge);
  SessionChange change;
  change.key = {"t", "s2"};
  change.row.generation = kGeneration;
  change.row.revision = 1;
  change.row.config = kLarger;
  change.write_config = true;
  ASSERT_EQ(store_->Commit({&change, 1}).front().outcome, CommitOutcome::kCommitted);
  const std::int64_t both = std::ssize(kLarge) + std::ssize(kLarger);
  EXPECT_EQ(store_->ListSessions("t", "", {.max_sessions = 5, .max_bytes = both})->sessions.size(),
            2U);
  // Fails for whoever reads it.
  Execute("DELETE FROM memoryd_values WHERE length(value) > 5000");
  for (const std::int64_t max_bytes : {both, both - 1}) {
    const auto page = store_->ListSessions("t", "", {.max_sessions = 5, .max_bytes = max_bytes});
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_EQ(page->sessions.size(), 1U);
    EXPECT_TRUE(page->more);
  }
  EXPECT_EQ(store_->ListSessions("t", "s", {.max_sessions = 5}).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_TRUE(store_->ListSessions("t", "", {.max_sessions = 5, .with_configs = false}).ok());
}

TEST_F(ValueTest, ValuesOfNoRowAreToldAfterAnUncleanStop) {
  Append({kLarge});
  SetConfig(kLarge);
  SetBlock(kLarge);
  Close();
  EXPECT_EQ(Warnings(), "");
  Execute("INSERT INTO memoryd_values (value) VALUES (x'00')");
  EXPECT_THAT(Warnings(), HasSubstr("1 of the large values in " + path_));
}

TEST_F(ValueTest, MissingValuesAreToldAfterAnUncleanStop) {
  Append({kSmall, kLarge, kLarge});
  SetConfig(kLarge);
  SetBlock(kLarge);
  SessionChange change = Next();
  change.requests = {{"r", "f", kLarge, 10}};
  Commit(change);
  Close();
  Execute("DELETE FROM memoryd_values WHERE id > 1");
  // It starts all the same, since others can be read.
  const std::string lines = Warnings();
  EXPECT_THAT(lines, HasSubstr("4 large values of rows in " + path_ + " are missing"));
  EXPECT_THAT(lines, Not(HasSubstr("belong to no row")));
}

TEST_F(ValueTest, AMissingValueIsNeverThatOfALaterRow) {
  Append({kLarge});
  Execute("DELETE FROM memoryd_values");
  SessionChange change;
  change.key = {"other tenant", "s"};
  change.row.generation = kGeneration;
  change.row.revision = 1;
  change.messages = {NewMessage(1, kLarger)};
  ASSERT_EQ(store_->Commit({&change, 1}).front().outcome, CommitOutcome::kCommitted);
  EXPECT_EQ(store_->ReadRange(kKey, kGeneration, {0, 10}, 10, INT64_MAX).status().code(),
            absl::StatusCode::kDataLoss);
  // Nor is it after the server was started again.
  Close();
  Execute("DELETE FROM memoryd_values");
  Open();
  EXPECT_THAT(Numbers("SELECT body FROM memoryd_messages ORDER BY body"), ElementsAre(1, 2));
  SetConfig(kLarge);
  EXPECT_THAT(Numbers("SELECT id FROM memoryd_values"), ElementsAre(3));
}

TEST_F(ValueTest, ABodyOfAnotherMessageIsNotTakenForIts) {
  Append({kLarge, std::string(kLarge.size(), 'o')});
  Execute(
      "UPDATE memoryd_messages SET body = (SELECT body FROM memoryd_messages WHERE position = "
      "2) WHERE position = 1");
  EXPECT_EQ(store_->ReadRange(kKey, kGeneration, {0, 10}, 10, INT64_MAX).status().code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace memoryd::sqlite
