// The contract of the reads of Store, over every store.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/storage/store.h"
#include "tests/contract/store_fixture.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

constexpr std::int64_t kMany = std::numeric_limits<std::int32_t>::max();
const SessionKey kKey = {"tenant", "session"};

std::vector<std::int64_t> PositionsOf(const std::vector<MessagePtr>& messages) {
  std::vector<std::int64_t> positions;
  positions.reserve(messages.size());
  for (const MessagePtr& message : messages) positions.push_back(message->position);
  return positions;
}

class ReadContractTest : public StoreTest {
 protected:
  std::vector<std::int64_t> Read(std::uint64_t generation, PositionRange range,
                                 std::int64_t max_messages, std::int64_t max_bytes) {
    const auto read = store().ReadRange(kKey, generation, range, max_messages, max_bytes);
    EXPECT_TRUE(read.ok()) << read.status();
    return read.ok() ? PositionsOf(*read) : std::vector<std::int64_t>();
  }
  std::vector<std::int64_t> ReadNewest(std::uint64_t generation, PositionRange range,
                                       std::int64_t max_messages, std::int64_t max_bytes) {
    const auto read = store().ReadNewest(kKey, generation, range, max_messages, max_bytes);
    EXPECT_TRUE(read.ok()) << read.status();
    return read.ok() ? PositionsOf(*read) : std::vector<std::int64_t>();
  }

  std::vector<std::string> List(std::string_view tenant, std::string_view after,
                                std::int64_t max_sessions) {
    const auto listed = store().ListSessions(tenant, after, {.max_sessions = max_sessions});
    EXPECT_TRUE(listed.ok()) << listed.status();
    std::vector<std::string> names;
    if (listed.ok()) {
      for (const ListedSession& session : listed->sessions) names.push_back(session.session);
    }
    return names;
  }
  // A session with so large a configuration.
  void Configure(const std::string& session, std::size_t config_bytes) {
    SessionChange change = NewSession({"tenant", session});
    change.write_config = true;
    change.row.config = std::string(config_bytes, 'c');
    MustCommit(change);
  }
};

TEST_P(ReadContractTest, AnUnknownSessionHasNoRowAndNoMessages) {
  EXPECT_FALSE(Load(kKey).has_value());
  EXPECT_THAT(Read(1, {0, 100}, 10, 100), IsEmpty());
  EXPECT_FALSE(HasRequest(kKey, "r1"));
  EXPECT_THAT(List("tenant", "", 10), IsEmpty());
}

TEST_P(ReadContractTest, LoadGivesThePinnedAndThoseFromTheWatermarkOn) {
  SessionChange change = NewSession(kKey, 9);
  change.row.pinned = {1, 2};
  change.row.watermark = 7;
  MustCommit(change);
  EXPECT_THAT(PositionsOf(Load(kKey)->active), ElementsAre(1, 2, 7, 8, 9));

  change = Following(change, 0);
  change.row.pinned = {};
  MustCommit(change);
  EXPECT_THAT(PositionsOf(Load(kKey)->active), ElementsAre(7, 8, 9));

  change = Following(change, 0);
  change.row.watermark = change.row.next_position;
  MustCommit(change);
  EXPECT_THAT(Load(kKey)->active, IsEmpty());
}

TEST_P(ReadContractTest, LoadGivesTheMessageThatOpensACutTurn) {
  SessionChange change = NewSession(kKey, 9);
  change.row.pinned = {1};
  change.row.opening = 4;
  change.row.watermark = 7;
  MustCommit(change);
  EXPECT_EQ(Load(kKey)->row.opening, 4);
  EXPECT_THAT(PositionsOf(Load(kKey)->active), ElementsAre(1, 4, 7, 8, 9));

  // Above the watermark it is an active message like the others.
  change = Following(change, 0);
  change.row.opening = 8;
  MustCommit(change);
  EXPECT_THAT(PositionsOf(Load(kKey)->active), ElementsAre(1, 7, 8, 9));

  // One that another server has taken out.
  change = Following(change, 0);
  change.row.opening = 4;
  change.erase = {{4, 5}};
  MustCommit(change);
  EXPECT_THAT(PositionsOf(Load(kKey)->active), ElementsAre(1, 7, 8, 9));
}

TEST_P(ReadContractTest, PinnedMessagesAboveTheWatermarkComeOnce) {
  SessionChange change = NewSession(kKey, 4);
  change.row.pinned = {1, 2};
  MustCommit(change);
  EXPECT_THAT(PositionsOf(Load(kKey)->active), ElementsAre(1, 2, 3, 4));
}

TEST_P(ReadContractTest, RangesEndWhereTheyAreToldTo) {
  MustCommit(NewSession(kKey, 10));
  EXPECT_THAT(Read(1, {3, 7}, kMany, kMany), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(Read(1, {3, 7}, 2, kMany), ElementsAre(3, 4));
  EXPECT_THAT(Read(1, {9, kMany}, kMany, kMany), ElementsAre(9, 10));
  EXPECT_THAT(Read(1, {7, 3}, kMany, kMany), IsEmpty());
  EXPECT_THAT(Read(1, {11, 20}, kMany, kMany), IsEmpty());
  EXPECT_THAT(Read(2, {0, 20}, kMany, kMany), IsEmpty());
}

TEST_P(ReadContractTest, BytesBoundARangeButForItsFirstMessage) {
  SessionChange change = NewSession(kKey, 0);
  for (int i = 0; i < 5; ++i) {
    MessageDraft message = NewMessage(change.row.next_position++);
    message.body = std::string(100, 'b');
    change.messages.push_back(message);
  }
  MustCommit(change);
  EXPECT_THAT(Read(1, {1, 6}, kMany, 300), ElementsAre(1, 2, 3));
  EXPECT_THAT(Read(1, {1, 6}, kMany, 299), ElementsAre(1, 2));
  EXPECT_THAT(Read(1, {1, 6}, kMany, 1), ElementsAre(1));
  EXPECT_THAT(Read(1, {2, 6}, kMany, 0), ElementsAre(2));
}

TEST_P(ReadContractTest, TheNewestOfARangeDescend) {
  MustCommit(NewSession(kKey, 10));
  EXPECT_THAT(ReadNewest(1, {3, 7}, kMany, kMany), ElementsAre(6, 5, 4, 3));
  EXPECT_THAT(ReadNewest(1, {3, 7}, 2, kMany), ElementsAre(6, 5));
  EXPECT_THAT(ReadNewest(1, {3, 7}, 1, 0), ElementsAre(6));
  EXPECT_THAT(ReadNewest(1, {3, 7}, 0, kMany), IsEmpty());
  EXPECT_THAT(ReadNewest(1, {9, kMany}, kMany, kMany), ElementsAre(10, 9));
  EXPECT_THAT(ReadNewest(1, {0, 2}, kMany, kMany), ElementsAre(1));
  EXPECT_THAT(ReadNewest(1, {7, 3}, kMany, kMany), IsEmpty());
  EXPECT_THAT(ReadNewest(1, {11, 20}, kMany, kMany), IsEmpty());
  EXPECT_THAT(ReadNewest(2, {0, 20}, kMany, kMany), IsEmpty());
}

TEST_P(ReadContractTest, BytesBoundTheNewestButForTheFirst) {
  SessionChange change = NewSession(kKey, 0);
  // 100, 200, 300, 400 bytes: read from the wrong end they add up otherwise.
  for (std::size_t i = 1; i < 5; ++i) {
    MessageDraft message = NewMessage(change.row.next_position++);
    message.body = std::string(100 * i, 'b');
    change.messages.push_back(message);
  }
  MustCommit(change);
  EXPECT_THAT(ReadNewest(1, {1, 5}, kMany, 1000), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(ReadNewest(1, {1, 5}, kMany, 999), ElementsAre(4, 3, 2));
  EXPECT_THAT(ReadNewest(1, {1, 5}, kMany, 700), ElementsAre(4, 3));
  EXPECT_THAT(ReadNewest(1, {1, 5}, kMany, 699), ElementsAre(4));
  EXPECT_THAT(ReadNewest(1, {1, 5}, kMany, 0), ElementsAre(4));
  EXPECT_THAT(ReadNewest(1, {1, 4}, kMany, 500), ElementsAre(3, 2));
}

TEST_P(ReadContractTest, BothEndsReadTheSameRowsOverHoles) {
  SessionChange change = NewSession(kKey, 0);
  for (int i = 0; i < 12; ++i) {
    MessageDraft message = NewMessage(change.row.next_position++);
    message.body = std::string(static_cast<std::size_t>(i), 'b');
    change.messages.push_back(message);
  }
  MustCommit(change);
  change = Following(change, 0);
  change.erase = {{1, 3}, {6, 7}, {12, 13}};
  MustCommit(change);
  // The same positions of another session, and of contents.
  MustCommit(NewSession({"tenant", "session2"}, 12));
  for (const PositionRange range :
       {PositionRange{0, 20}, PositionRange{2, 9}, PositionRange{6, 7}}) {
    const auto oldest = store().ReadRange(kKey, 1, range, kMany, kMany);
    auto newest = store().ReadNewest(kKey, 1, range, kMany, kMany);
    ASSERT_TRUE(oldest.ok() && newest.ok()) << oldest.status() << newest.status();
    std::ranges::reverse(*newest);
    ExpectSameMessages(*newest, *oldest);
  }
}

TEST_P(ReadContractTest, RangesHoldMessagesInAllTheirFields) {
  SessionChange change = NewSession(kKey, 0);
  MessageDraft message = NewMessage(change.row.next_position++, "given");
  message.ids.value().calls = {"c1", "c2"};
  message.ids.value().results = {"r1"};
  message.body = std::string("a\0b", 3);
  change.messages = {message};
  MustCommit(change);
  const auto read = store().ReadRange(kKey, 1, {0, 10}, 10, 10);
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSameMessages(*read, change.messages);
}

TEST_P(ReadContractTest, PositionsAreFoundByTheIdsThatWereGiven) {
  SessionChange change = NewSession(kKey, 0);
  for (const char* id : {"b", "", "a", "%", "A"}) {
    change.messages.push_back(NewMessage(change.row.next_position++, id));
  }
  MustCommit(change);
  SessionChange other = NewSession({"tenant", "other"}, 0);
  other.messages = {NewMessage(other.row.next_position++, "a")};
  MustCommit(other);
  const auto find = [this](std::uint64_t generation, const std::vector<std::string>& ids) {
    const auto found = store().FindPositions(kKey, generation, ids);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.value_or(std::vector<std::int64_t>());
  };
  EXPECT_THAT(find(1, {"a", "A", "b", "a"}), ElementsAre(1, 3, 5));
  EXPECT_THAT(find(1, {"%"}), ElementsAre(4));
  EXPECT_THAT(find(1, {"", "c", "0000000000000001-2"}), IsEmpty());
  EXPECT_THAT(find(1, {}), IsEmpty());
  EXPECT_THAT(find(2, {"a"}), IsEmpty());
}

TEST_P(ReadContractTest, RevisionsAnswerInTheOrderOfTheKeys) {
  std::vector<SessionKey> keys;
  std::vector<SessionChange> changes;
  for (int i = 0; i < 300; ++i) {
    keys.push_back({fmt::format("t{}", i % 3), fmt::format("s{}", i)});
    if (i % 2 == 0) {
      changes.push_back(NewSession(keys.back(), 1, static_cast<std::uint64_t>(i) + 1));
      changes.back().row.revision = i + 1;
    }
  }
  CommitAll(changes);
  MustCommit(Deleting(changes[5], 0));
  std::ranges::reverse(keys);
  const auto versions = store().Revisions(keys);
  ASSERT_TRUE(versions.ok()) << versions.status();
  ASSERT_EQ(versions->size(), keys.size());
  for (std::size_t at = 0; at < keys.size(); ++at) {
    const auto i = static_cast<std::int64_t>(keys.size() - 1 - at);
    const auto& version = (*versions)[at];
    ASSERT_EQ(version.has_value(), i % 2 == 0 && i != 10) << i;
    if (!version.has_value()) continue;
    EXPECT_EQ(version->revision, i + 1);
    EXPECT_EQ(version->generation, static_cast<std::uint64_t>(i) + 1);
  }
  EXPECT_THAT(store().Revisions({}).value(), IsEmpty());
}

TEST_P(ReadContractTest, RequestsAreFoundInTheOrderAsked) {
  SessionChange change = NewSession(kKey);
  change.requests = {{"r1", std::string("\0f1", 3), std::string("\0reply", 6), 11},
                     {"r2", "f2", "", 12}};
  MustCommit(change);
  const std::vector<std::string> ids = {"r2", "r3", "r1"};
  const auto found = store().FindRequests(kKey, ids);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), 3U);
  ASSERT_TRUE((*found)[0].has_value());
  EXPECT_EQ((*found)[0]->request_id, "r2");
  EXPECT_EQ((*found)[0]->fingerprint, "f2");
  EXPECT_EQ((*found)[0]->reply, "");
  EXPECT_EQ((*found)[0]->create_us, 12);
  EXPECT_FALSE((*found)[1].has_value());
  ASSERT_TRUE((*found)[2].has_value());
  EXPECT_EQ((*found)[2]->fingerprint, std::string("\0f1", 3));
  EXPECT_EQ((*found)[2]->reply, std::string("\0reply", 6));
  EXPECT_THAT(store().FindRequests(kKey, {}).value(), IsEmpty());
}

TEST_P(ReadContractTest, ListsGoByBytesWhateverTheNames) {
  std::vector<std::string> names = {"a",  "A",  "_",  "%", "a_", "a%b", "a/b", "a:b",  "*", "\\",
                                    "'",  "\"", "z",  "Z", "é",  "e",   "ž",   "日本", "😀", "a b",
                                    " a", "a ", "10", "9", "-",  "~",   "a-b", "aB",   "ab"};
  std::vector<SessionChange> changes;
  for (const std::string& name : names) {
    changes.push_back(NewSession({"tenant", name}));
    changes.push_back(NewSession({"other", name}));
  }
  CommitAll(changes);
  std::ranges::sort(names);
  EXPECT_THAT(List("tenant", "", 1000), ElementsAreArray(names));
  EXPECT_THAT(List("%", "", 1000), IsEmpty());
  EXPECT_THAT(List("tenan_", "", 1000), IsEmpty());

  for (const std::int64_t page : {1, 4, 7}) {
    std::vector<std::string> paged;
    for (std::vector<std::string> next = List("tenant", "", page); !next.empty();
         next = List("tenant", next.back(), page)) {
      EXPECT_LE(static_cast<std::int64_t>(next.size()), page);
      paged.insert(paged.end(), next.begin(), next.end());
    }
    EXPECT_THAT(paged, ElementsAreArray(names));
  }
  EXPECT_THAT(List("tenant", "aa", 1), ElementsAre("ab"));
}

TEST_P(ReadContractTest, ListsHoldWholeRowsAndNoTombstones) {
  SessionChange kept = NewSession(kKey, 2);
  kept.row.pinned = {1};
  MustCommit(kept);
  const SessionChange deleted = NewSession({"tenant", "deleted"});
  MustCommit(deleted);
  MustCommit(Deleting(deleted, 0));
  const auto listed = store().ListSessions("tenant", "", {.max_sessions = 10});
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->sessions.size(), 1U);
  EXPECT_EQ(listed->sessions.front().session, kKey.session);
  EXPECT_EQ(listed->sessions.front().row, kept.row);
  EXPECT_FALSE(listed->more);
}

TEST_P(ReadContractTest, BytesOfConfigurationsBoundAListButForItsFirstSession) {
  for (const char* session : {"a", "b", "c", "d"}) Configure(session, 100);
  Configure("e", 1000);
  Configure("f", 1000);
  const auto list = [this](std::string_view after, SessionListLimits limits) {
    const auto listed = store().ListSessions("tenant", after, limits);
    EXPECT_TRUE(listed.ok()) << listed.status();
    std::string text;
    if (!listed.ok()) return text;
    for (const ListedSession& session : listed->sessions) {
      text += session.session;
      EXPECT_EQ(session.row.config.empty(), !limits.with_configs);
    }
    return text + (listed->more ? "+" : "");
  };
  EXPECT_EQ(list("", {.max_sessions = 10, .max_bytes = 10'000}), "abcdef");
  EXPECT_EQ(list("", {.max_sessions = 6, .max_bytes = 10'000}), "abcdef");
  EXPECT_EQ(list("", {.max_sessions = 5, .max_bytes = 10'000}), "abcde+");
  EXPECT_EQ(list("", {.max_sessions = 10, .max_bytes = 300}), "abc+");
  EXPECT_EQ(list("", {.max_sessions = 10, .max_bytes = 299}), "ab+");
  EXPECT_EQ(list("", {.max_sessions = 10, .max_bytes = 0}), "a+");
  EXPECT_EQ(list("d", {.max_sessions = 10, .max_bytes = 300}), "e+");
  EXPECT_EQ(list("e", {.max_sessions = 10, .max_bytes = 300}), "f");
  EXPECT_EQ(list("f", {.max_sessions = 10, .max_bytes = 300}), "");
  EXPECT_EQ(list("", {.max_sessions = 10, .max_bytes = 0, .with_configs = false}), "abcdef");
}

TEST_P(ReadContractTest, ALoadReadsNoActiveMessagesThatAreMoreThanWasAskedFor) {
  constexpr std::int64_t kBody = 1000;
  SessionChange change = NewSession(kKey, 0);
  for (int i = 0; i < 6; ++i) {
    MessageDraft message = NewMessage(change.row.next_position++);
    message.body = std::string(kBody, 'b');
    change.messages.push_back(message);
  }
  change.row.pinned = {1};
  change.row.watermark = 5;
  change.row.active_count = 3;
  change.row.archived_count = 3;
  change.row.message_bytes = 6 * kBody;
  change.row.block_generation = 7;
  BlockState block;
  block.name = "b";
  change.blocks = {block};
  MustCommit(change);
  constexpr std::int64_t kActive = 3 * (kBody + kActiveMessageBytes);
  for (const std::int64_t allowed : {kAllActive, kActive * 2, kActive}) {
    const auto loaded = store().LoadSession(kKey, allowed);
    ASSERT_TRUE(loaded.ok() && loaded->has_value()) << loaded.status();
    EXPECT_THAT(PositionsOf((*loaded)->active), ElementsAre(1, 5, 6));
    EXPECT_EQ((*loaded)->too_large, std::nullopt);
  }
  for (const std::int64_t allowed : {kActive - 1, kBody, std::int64_t{0}}) {
    const auto loaded = store().LoadSession(kKey, allowed);
    ASSERT_TRUE(loaded.ok() && loaded->has_value()) << loaded.status();
    EXPECT_THAT((*loaded)->active, IsEmpty());
    EXPECT_EQ((*loaded)->too_large, kActive);
    EXPECT_EQ((*loaded)->row, change.row);
    EXPECT_EQ((*loaded)->blocks.size(), 1U);
  }
  // What the row says of its bytes need not be asked of the rows.
  MustCommit(Deleting(change, 0));
  const auto deleted = store().LoadSession(kKey, 0);
  ASSERT_TRUE(deleted.ok() && deleted->has_value()) << deleted.status();
  EXPECT_EQ((*deleted)->too_large, std::nullopt);
}

TEST_P(ReadContractTest, UsageIsOfTheTenantsSessionsWithoutTombstones) {
  const auto usage = [this](std::string_view tenant) {
    const auto read = store().ReadUsage(tenant);
    EXPECT_TRUE(read.ok()) << read.status();
    return read.value_or(TenantUsage());
  };
  EXPECT_EQ(usage("tenant"), TenantUsage());
  SessionChange change = NewSession(kKey, 3);
  change.row.active_count = 1;
  change.row.archived_count = 2;
  change.row.content_count = 4;
  change.row.message_bytes = std::int64_t{5} << 40;
  change.row.content_bytes = 7;
  MustCommit(change);
  EXPECT_EQ(Load(kKey)->row, change.row);
  SessionChange second = NewSession({"tenant", "second"}, 0);
  second.row.active_count = 10;
  second.row.message_bytes = 1;
  MustCommit(second);
  MustCommit(NewSession({"tenant2", "s"}));
  const auto config = static_cast<std::int64_t>(change.row.config.size());
  EXPECT_GT(config, 0);
  EXPECT_EQ(usage("tenant"), (TenantUsage{2, 17, (std::int64_t{5} << 40) + 8 + 2 * config}));
  MustCommit(Deleting(change, 0));
  EXPECT_EQ(usage("tenant"), (TenantUsage{1, 10, 1 + config}));
  change = Following(second, 0);
  change.row.message_bytes = 0;
  MustCommit(change);
  EXPECT_EQ(usage("tenant").bytes, config);
}

// Keys whose parts give the same string when joined, and equal sessions of two tenants.
TEST_P(ReadContractTest, KeysNeverMix) {
  const std::vector<SessionKey> keys = {{"t", "s"},  {"T", "s"},   {"t2", "s"},     {"ts", "s"},
                                        {"t", "ss"}, {"t/s", "s"}, {"t", "s/s"},    {"t:s", ""},
                                        {"t", ":s"}, {"t", "S"},   {"t", "s "},     {"%", "s"},
                                        {"t", "_"},  {"t", "%"},   {"default", "s"}};
  std::vector<SessionChange> changes;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    // The same generation everywhere: only the key tells the rows apart.
    SessionChange change = NewSession(keys[i], 0);
    MessageDraft message = NewMessage(change.row.next_position++, "given");
    message.body = fmt::format("of {}", i);
    change.messages = {message};
    change.row.config = fmt::format("config {}", i);
    change.requests = {{"r1", "f", fmt::format("reply {}", i), 1}};
    changes.push_back(change);
  }
  EXPECT_THAT(CommitAll(changes), ::testing::Each(CommitOutcome::kCommitted));
  SessionChange erased = Following(changes[0], 0);
  erased.erase = {{0, 100}};
  erased.garbage = {{1, 0, 100}};
  erased.row.watermark = erased.row.next_position;
  MustCommit(erased);
  EXPECT_TRUE(store().Purge({.now_us = 0, .keep_us = 0, .max_rows = 100}).ok());
  const std::vector<std::string> ids = {"r1"};
  for (std::size_t i = 1; i < keys.size(); ++i) {
    ExpectStored(changes[i]);
    EXPECT_EQ(store().FindRequests(keys[i], ids).value().front()->reply,
              fmt::format("reply {}", i));
  }
  EXPECT_THAT(Load(keys[0])->active, IsEmpty());
}

TEST_P(ReadContractTest, AStoreSaysWhatItIs) {
  const auto info = store().Describe();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->kind, GetParam().scheme);
  EXPECT_GE(info->schema_version, 1);
  // The PostgreSQL for tests does not sync, and says so.
  const bool syncs = GetParam().scheme == "sqlite" && !GetParam().in_memory;
  EXPECT_EQ(info->durability, syncs ? Durability::kLocal : Durability::kNone);
}

INSTANTIATE_TEST_SUITE_P(Stores, ReadContractTest, ::testing::ValuesIn(AllStores()), StoreCaseName);

}  // namespace
}  // namespace memoryd
