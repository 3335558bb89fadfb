// The contract of contents, which are rows beside the messages under a generation of their own, and
// of ReadPositions, over every store.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/storage/store.h"
#include "tests/contract/store_fixture.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t kMany = std::numeric_limits<std::int32_t>::max();
constexpr std::uint64_t kContents = 0xFEDC'BA98'7654'3210;
const SessionKey kKey = {"tenant", "session"};

std::vector<std::int64_t> PositionsOf(const std::vector<MessagePtr>& rows) {
  std::vector<std::int64_t> positions;
  positions.reserve(rows.size());
  for (const MessagePtr& row : rows) positions.push_back(row->position);
  return positions;
}

ContentDraft NewContent(std::int64_t position, std::string content_id = "") {
  MessageDraft content = NewMessage(position, std::move(content_id));
  content.role = Role::kOther;
  content.body = fmt::format("content {}", position);
  return content;
}

// The change with `count` contents more, whose ids, if wanted, are `prefix` and their positions.
SessionChange WithContents(SessionChange change, int count, const std::string& prefix = "") {
  if (change.row.content_generation == 0) change.row.content_generation = kContents;
  for (int i = 0; i < count; ++i) {
    const std::int64_t position = change.row.next_content++;
    change.contents.push_back(
        NewContent(position, prefix.empty() ? "" : fmt::format("{}{}", prefix, position)));
    ++change.row.content_count;
  }
  return change;
}

class ContentContractTest : public StoreTest {
 protected:
  std::vector<MessagePtr> Rows(const SessionKey& key, std::uint64_t generation) {
    auto rows = store().ReadRange(key, generation, {0, kMany}, kMany, kMany);
    EXPECT_TRUE(rows.ok()) << rows.status();
    return rows.ok() ? *std::move(rows) : std::vector<MessagePtr>();
  }

  std::vector<std::int64_t> At(const SessionKey& key, std::uint64_t generation,
                               const std::vector<std::int64_t>& positions) {
    const auto rows = store().ReadPositions(key, generation, positions, kMany);
    EXPECT_TRUE(rows.ok()) << rows.status();
    return rows.ok() ? PositionsOf(*rows) : std::vector<std::int64_t>();
  }
};

TEST_P(ContentContractTest, ColumnsOfContentsComeBackAtTheirExtremes) {
  SessionChange change = NewSession(kKey, 0);
  change.row.content_generation = std::numeric_limits<std::uint64_t>::max();
  change.row.next_content = std::numeric_limits<std::int64_t>::max();
  change.row.content_count = std::numeric_limits<std::int64_t>::max() - 1;
  MustCommit(change);
  ExpectStored(change);
  const auto listed = store().ListSessions("tenant", "", {.max_sessions = 10});
  ASSERT_TRUE(listed.ok() && listed->sessions.size() == 1) << listed.status();
  EXPECT_EQ(listed->sessions.front().row, change.row);

  change = Following(change, 0);
  change.row.content_generation = std::uint64_t{1} << 63;
  change.row.next_content = 1;
  change.row.content_count = 0;
  MustCommit(change);
  EXPECT_EQ(Load(kKey)->row, change.row);
}

TEST_P(ContentContractTest, ContentsLieBesideTheMessagesUnderTheirOwnGeneration) {
  SessionChange change = WithContents(NewSession(kKey, 3), 2);
  ContentDraft edge = NewContent(change.row.next_content++, "given");
  edge.body = std::string("a\0\xFF", 3);
  edge.token_count = 5'000'000'000;
  change.contents.push_back(edge);
  ++change.row.content_count;
  MustCommit(change);

  ExpectStored(change);
  ExpectSameMessages(Rows(kKey, kContents), change.contents);
  EXPECT_THAT(Positions(kKey, change.row.generation), ElementsAre(1, 2, 3));

  // Each goes on by itself.
  const SessionChange messages = Following(change, 1);
  MustCommit(messages);
  MustCommit(WithContents(Following(messages, 0), 1));
  EXPECT_THAT(Positions(kKey, change.row.generation), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Positions(kKey, kContents), ElementsAre(1, 2, 3, 4));
}

TEST_P(ContentContractTest, SomeAreWrittenAnewOrErasedAndNothingElse) {
  const SessionChange first = WithContents(NewSession(kKey, 4), 4, "c");
  const SessionChange other = WithContents(NewSession({"tenant", "other"}, 4), 4, "c");
  MustCommit(first);
  MustCommit(other);
  SessionChange second = WithContents(Following(first, 0), 1);
  ContentDraft changed(*first.contents[2]);
  changed.body = "written anew";
  changed.token_count = 77;
  second.replaced_contents = {changed};
  second.erased_entries = {{kContents, {2, 3}}};
  --second.row.content_count;
  second.row.edit_revision = second.row.revision;
  // In one statement with a message that is written anew.
  MessageDraft message(*first.messages[2]);
  message.body = "another text";
  second.replaced = {message};
  MustCommit(second);
  EXPECT_EQ(Load(kKey)->row, second.row);
  ExpectSameMessages(Rows(kKey, kContents),
                     {first.contents[0], changed, first.contents[3], second.contents[0]});
  ExpectSameMessages(Rows(kKey, first.row.generation),
                     {first.messages[0], first.messages[1], message, first.messages[3]});
  ExpectSameMessages(Rows(other.key, kContents), other.contents);
  // Its id is free again.
  SessionChange third = Following(second, 0);
  third.contents = {NewContent(third.row.next_content++, "c2")};
  ++third.row.content_count;
  MustCommit(third);
  EXPECT_THAT(PositionsOf(Rows(kKey, kContents)), ElementsAre(1, 3, 4, 5, 6));
}

TEST_P(ContentContractTest, AnyNumberOfThemGoesIntoOneChange) {
  // PostgreSQL takes up to 128 rows as a list and more as arrays.
  for (const auto& [messages, contents] :
       {std::pair(0, 1), std::pair(127, 1), std::pair(128, 1), std::pair(1, 128), std::pair(0, 129),
        std::pair(1000, 1000), std::pair(0, 7000)}) {
    const std::string name = fmt::format("{} {}", messages, contents);
    SCOPED_TRACE(name);
    const SessionChange change =
        WithContents(NewSession({"tenant", name}, messages), contents, "id ");
    const SessionChange beside = WithContents(NewSession({"beside", name}, 1), 1);
    EXPECT_THAT(CommitAll({beside, change}), ::testing::Each(CommitOutcome::kCommitted));
    ExpectStored(change);
    ExpectSameMessages(Rows(change.key, kContents), change.contents);
    ExpectSameMessages(Rows(beside.key, kContents), beside.contents);
  }
}

TEST_P(ContentContractTest, ATakenContentIdFailsItsOwnSessionOnly) {
  const SessionChange first = WithContents(NewSession(kKey, 1), 1, "id ");
  MustCommit(first);
  SessionChange second = WithContents(Following(first, 1), 1);
  second.contents.push_back(NewContent(second.row.next_content++, "id 1"));
  second.requests = {{"r1", "f", "reply", 1}};
  const SessionChange other = WithContents(NewSession({"tenant", "other"}), 1, "id ");
  EXPECT_THAT(CommitAll({second, other}),
              ElementsAre(CommitOutcome::kMessageIdTaken, CommitOutcome::kCommitted));
  EXPECT_EQ(Load(kKey)->row, first.row);
  EXPECT_THAT(Positions(kKey, first.row.generation), ElementsAre(1));
  EXPECT_THAT(Positions(kKey, kContents), ElementsAre(1));
  EXPECT_FALSE(HasRequest(kKey, "r1"));

  // By arrays too.
  SessionChange many = WithContents(Following(first, 0), 300, "id ");
  many.contents.back() = NewContent(many.contents.back()->position, "id 1");
  EXPECT_EQ(CommitOne(many), CommitOutcome::kMessageIdTaken);
  EXPECT_EQ(CommitOne(WithContents(Following(first, 0), 300, "id ")), CommitOutcome::kCommitted);
}

TEST_P(ContentContractTest, AContentAndAMessageMayHaveOneId) {
  SessionChange change = WithContents(NewSession(kKey, 0), 1, "id ");
  change.messages = {NewMessage(change.row.next_position++, "id 1")};
  ++change.row.active_count;
  MustCommit(change);
  ExpectSameMessages(Rows(kKey, change.row.generation), change.messages);
  ExpectSameMessages(Rows(kKey, kContents), change.contents);
  // In later changes too, either way round.
  SessionChange next = WithContents(Following(change, 0), 1, "id ");
  next.messages = {NewMessage(next.row.next_position++, "id 3")};
  MustCommit(next);
  next = WithContents(Following(next, 0), 1, "id ");
  EXPECT_EQ(CommitOne(next), CommitOutcome::kCommitted);
}

TEST_P(ContentContractTest, AContentIdIsFreeInAnotherGeneration) {
  const SessionChange first = WithContents(NewSession(kKey, 1), 1, "same");
  MustCommit(first);
  SessionChange second = Following(first, 0);
  second.row.content_generation = 77;
  second.row.next_content = 1;
  MustCommit(WithContents(second, 1, "same"));
  EXPECT_THAT(Positions(kKey, kContents), ElementsAre(1));
  EXPECT_THAT(Positions(kKey, 77), ElementsAre(1));
}

TEST_P(ContentContractTest, OneChangeMayLeaveSeveralRangesOfGarbage) {
  const SessionChange first = WithContents(NewSession(kKey, 3, /*generation=*/7), 4);
  const SessionChange other = WithContents(NewSession({"tenant", "other"}, 3, 7), 4);
  MustCommit(first);
  MustCommit(other);
  // As Set leaves them, with new rows at once.
  SessionChange second = Following(first, 1);
  second.row.generation = 8;
  second.row.content_generation = 9;
  second.row.content_count = 0;
  second.garbage = {{7, 0, first.row.next_position}, {kContents, 0, first.row.next_content}};
  second = WithContents(second, 1);
  MustCommit(second);

  for (int calls = 0; store().Purge({.now_us = 0, .keep_us = 0, .max_rows = 5}).value_or(0) == 5;
       ++calls) {
    ASSERT_LT(calls, 20);
  }
  EXPECT_THAT(Positions(kKey, 7), IsEmpty());
  EXPECT_THAT(Positions(kKey, kContents), IsEmpty());
  EXPECT_THAT(Positions(kKey, 8), ElementsAre(4));
  EXPECT_THAT(Positions(kKey, 9), ElementsAre(5));
  EXPECT_THAT(Positions(other.key, 7), ElementsAre(1, 2, 3));
  EXPECT_THAT(Positions(other.key, kContents), ElementsAre(1, 2, 3, 4));
}

TEST_P(ContentContractTest, PurgingMessagesLeavesContentsOfEqualPositions) {
  const SessionChange first = WithContents(NewSession(kKey, 5), 5);
  MustCommit(first);
  SessionChange second = Following(first, 0);
  second.row.floor = second.row.watermark = 4;
  second.garbage = {{first.row.generation, 1, 4}};
  second.erase = {{4, 5}};
  MustCommit(second);
  EXPECT_TRUE(store().Purge({.now_us = 0, .keep_us = 0, .max_rows = 100}).ok());
  EXPECT_THAT(Positions(kKey, first.row.generation), ElementsAre(5));
  EXPECT_THAT(Positions(kKey, kContents), ElementsAre(1, 2, 3, 4, 5));
}

TEST_P(ContentContractTest, ALostRevisionStoresNoContent) {
  const SessionChange first = NewSession(kKey, 1);
  MustCommit(first);
  SessionChange late = WithContents(Following(first, 0), 200);
  late.expected_revision = 17;
  EXPECT_EQ(CommitOne(late), CommitOutcome::kRevisionLost);
  EXPECT_THAT(Positions(kKey, kContents), IsEmpty());
  ExpectStored(first);
}

TEST_P(ContentContractTest, PositionsAreReadInOrderAndWhatIsMissingIsLeftOut) {
  const SessionChange change = WithContents(NewSession(kKey, 600), 3);
  MustCommit(change);
  EXPECT_THAT(At(kKey, 1, {2, 5, 9}), ElementsAre(2, 5, 9));
  EXPECT_THAT(At(kKey, 1, {0, 1, 600, 601, kMany}), ElementsAre(1, 600));
  EXPECT_THAT(At(kKey, 1, {-5, 700}), IsEmpty());
  EXPECT_THAT(At(kKey, 1, {}), IsEmpty());
  EXPECT_THAT(At(kKey, kContents, {1, 3, 4}), ElementsAre(1, 3));

  std::vector<std::int64_t> every_third;
  for (std::int64_t position = 1; position <= 600; position += 3) every_third.push_back(position);
  EXPECT_EQ(At(kKey, 1, every_third), every_third);
}

TEST_P(ContentContractTest, PositionsHoldRowsInAllTheirFields) {
  SessionChange change = NewSession(kKey, 0);
  for (const std::string& body : {std::string(std::size_t{1} << 20, '\0'), std::string()}) {
    MessageDraft message =
        NewMessage(change.row.next_position++, fmt::format("'{}\"", body.size()));
    message.ids.value().calls = {"c1", ""};
    message.ids.value().results = {"r1"};
    message.body = body;
    change.messages.push_back(message);
  }
  MustCommit(change);
  const std::vector<std::int64_t> positions = {1, 2};
  const auto rows = store().ReadPositions(kKey, 1, positions, kMany);
  ASSERT_TRUE(rows.ok()) << rows.status();
  ExpectSameMessages(*rows, change.messages);
}

TEST_P(ContentContractTest, PositionsThatHoldTooMuchAreRefusedWhole) {
  SessionChange change = NewSession(kKey, 0);
  for (int i = 0; i < 4; ++i) {
    MessageDraft message = NewMessage(change.row.next_position++);
    message.body = std::string(100, 'b');
    change.messages.push_back(message);
  }
  MustCommit(change);
  const std::vector<std::int64_t> positions = {1, 2, 4, 9};
  EXPECT_EQ(store().ReadPositions(kKey, 1, positions, 300)->size(), 3U);
  for (const std::int64_t max_bytes : {299, 100, 1, 0}) {
    const absl::Status status = store().ReadPositions(kKey, 1, positions, max_bytes).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_EQ(ErrorReason(status), "REPLY_TOO_LARGE");
  }
  EXPECT_THAT(store().ReadPositions(kKey, 2, positions, 0).value(), IsEmpty());
}

TEST_P(ContentContractTest, SizesAreToldFromTheNewestOn) {
  SessionChange change = WithContents(NewSession(kKey, 0), 1);
  for (const std::size_t bytes : {std::size_t{3}, std::size_t{0}, std::size_t{1} << 20}) {
    MessageDraft message = NewMessage(change.row.next_position++);
    message.body = std::string(bytes, '\0');
    change.messages.push_back(message);
  }
  MustCommit(change);
  const auto sizes = [this](const SessionKey& key, std::uint64_t generation, PositionRange range,
                            std::int64_t max_rows) {
    const auto read = store().ReadSizes(key, generation, range, max_rows);
    EXPECT_TRUE(read.ok()) << read.status();
    std::string told;
    if (!read.ok()) return told;
    for (const RowSize& size : *read) {
      told += fmt::format("{}:{}:{} ", size.position, size.token_count, size.bytes);
    }
    return told;
  };
  EXPECT_EQ(sizes(kKey, 1, {0, kMany}, 10), "3:13:1048576 2:12:0 1:11:3 ");
  EXPECT_EQ(sizes(kKey, 1, {0, kMany}, 2), "3:13:1048576 2:12:0 ");
  EXPECT_EQ(sizes(kKey, 1, {1, 3}, 10), "2:12:0 1:11:3 ");
  EXPECT_EQ(sizes(kKey, 1, {3, 1}, 10), "");
  EXPECT_EQ(sizes(kKey, 1, {0, kMany}, 0), "");
  EXPECT_EQ(sizes(kKey, kContents, {0, kMany}, 10), "1:11:9 ");
  EXPECT_EQ(sizes({"t2", "session"}, 1, {0, kMany}, 10), "");
  EXPECT_EQ(sizes({"tenant", "other"}, 1, {0, kMany}, 10), "");
}

TEST_P(ContentContractTest, PositionsOfOthersAreNotSeen) {
  MustCommit(WithContents(NewSession(kKey, 2), 2));
  const std::vector<std::int64_t> positions = {1, 2};
  EXPECT_THAT(At(kKey, 2, positions), IsEmpty());
  EXPECT_THAT(At(kKey, kContents + 1, positions), IsEmpty());
  EXPECT_THAT(At({"tenant", "other"}, 1, positions), IsEmpty());
  EXPECT_THAT(At({"t2", "session"}, 1, positions), IsEmpty());
  EXPECT_THAT(At({"tenant", "%"}, 1, positions), IsEmpty());
  EXPECT_THAT(At({"%", "session"}, kContents, positions), IsEmpty());
  EXPECT_THAT(At({"tenan_", "session"}, 1, positions), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Stores, ContentContractTest, ::testing::ValuesIn(AllStores()),
                         StoreCaseName);

using ContentDurabilityTest = StoreTest;

TEST_P(ContentDurabilityTest, AStoreOpenedAgainHoldsItsContents) {
  const SessionChange change = WithContents(NewSession(kKey, 1), 3);
  MustCommit(change);
  ASSERT_NO_FATAL_FAILURE(Reopen());
  ExpectStored(change);
  EXPECT_THAT(Positions(kKey, kContents), ElementsAre(1, 2, 3));
  EXPECT_EQ(CommitOne(WithContents(Following(change, 0), 1)), CommitOutcome::kCommitted);
}

INSTANTIATE_TEST_SUITE_P(Stores, ContentDurabilityTest, ::testing::ValuesIn(DurableStores()),
                         StoreCaseName);

}  // namespace
}  // namespace memoryd
