// Pages of messages and contents together.
#include "core/reads/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/reads/message_filter.h"
#include "core/sessions/session_info.h"
#include "core/writes/commands/contents.h"
#include "core/writes/commands/messages.h"
#include "core/writes/commands/put_set_reset.h"
#include "core/writes/write.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

using ::testing::IsEmpty;

const SessionKey kKey{"tenant", "session"};

class ContentPageTest : public EngineTest {
 protected:
  // Three messages and four contents, their bodies m1 to m3 and c1 to c4.
  void SetUp() override {
    EngineTest::SetUp();
    Start(Options());
    MustDo(WithContents(NewPut(kKey, {{"user", "m1"}, {"user", "m2"}, {"user", "m3"}}),
                        {{"c1"}, {"c2"}, {"c3"}, {"c4"}}));
  }

  static PageRequest Request(std::int64_t max_rows = 100) {
    PageRequest request;
    request.key = kKey;
    request.include_contents = true;
    request.max_messages = max_rows;
    return request;
  }
  Page MustRead(const PageRequest& request) {
    auto page = ReadPage(request);
    EXPECT_TRUE(page.ok()) << page.status();
    return page.ok() ? *std::move(page) : Page();
  }
  // The pages one after the other, as "m1 m2|m3 c1".
  std::string AllPages(PageRequest request) {
    std::string pages;
    for (int count = 0;; ++count) {
      if (count > 20) return pages + " without end";
      const Page page = MustRead(request);
      EXPECT_FALSE(page.next_position > 0 && page.next_content > 0);
      std::vector<std::string> bodies = Bodies(page.messages);
      for (std::string& body : Bodies(page.contents)) bodies.push_back(std::move(body));
      pages += fmt::format("{}", fmt::join(bodies, " "));
      if (page.next_position == 0 && page.next_content == 0) return pages;
      pages += '|';
      request.generation = page.row.generation;
      request.from_position = page.next_position;
      request.from_content = page.next_content;
      request.until_content = page.until_content;
    }
  }
  static PageRequest Newest(std::int64_t max_rows = 100) {
    PageRequest request = Request(max_rows);
    request.newest_first = true;
    return request;
  }
  std::string MessageIdAt(std::int64_t position) {
    const Page page = MustRead(Request());
    for (const MessagePtr& message : page.messages) {
      if (message->position == position) return MessageId(*message, page.row.generation);
    }
    ADD_FAILURE() << "no message at " << position;
    return {};
  }
  void DeleteContentOf(const std::string& body) {
    const Page page = MustRead(Request());
    for (const ContentPtr& content : page.contents) {
      if (content->body != body) continue;
      const std::string id = MessageId(*content, page.row.content_generation);
      MustDo(NewWrite(commands::DeleteContent{.content_id = id}, kKey));
    }
  }
  void Delete(const std::string& message_id) {
    MustDo(NewWrite(commands::DeleteMessage{.message_id = message_id}, kKey));
  }
};

TEST_F(ContentPageTest, ContentsFollowTheMessagesInPagesOfEverySize) {
  EXPECT_EQ(AllPages(Request(1)), "m1|m2|m3|c1|c2|c3|c4");
  EXPECT_EQ(AllPages(Request(2)), "m1 m2|m3 c1|c2 c3|c4");
  EXPECT_EQ(AllPages(Request(3)), "m1 m2 m3|c1 c2 c3|c4");
  EXPECT_EQ(AllPages(Request(4)), "m1 m2 m3 c1|c2 c3 c4");
  EXPECT_EQ(AllPages(Request(6)), "m1 m2 m3 c1 c2 c3|c4");
  EXPECT_EQ(AllPages(Request(7)), "m1 m2 m3 c1 c2 c3 c4");
}

TEST_F(ContentPageTest, TheyComeOnlyWhereTheyAreAskedFor) {
  PageRequest request = Request();
  request.include_contents = false;
  EXPECT_EQ(AllPages(request), "m1 m2 m3");
  request.max_messages = 3;
  EXPECT_EQ(MustRead(request).next_content, 0);
}

TEST_F(ContentPageTest, BytesBoundAPageOfBoth) {
  PageRequest request = Request();
  request.max_bytes = 8;
  EXPECT_EQ(AllPages(request), "m1 m2 m3 c1|c2 c3 c4");
  request.max_bytes = 6;
  EXPECT_EQ(AllPages(request), "m1 m2 m3|c1 c2 c3|c4");
  request.max_bytes = 7;
  EXPECT_EQ(AllPages(request), "m1 m2 m3|c1 c2 c3|c4");
  request.max_bytes = 1;
  EXPECT_EQ(AllPages(request), "m1|m2|m3|c1|c2|c3|c4");
}

TEST_F(ContentPageTest, AStatusFiltersMessagesAlone) {
  PageRequest request = Request();
  request.status = StatusFilter::kArchived;
  EXPECT_EQ(AllPages(request), "c1 c2 c3 c4");
  request.status = StatusFilter::kActive;
  EXPECT_EQ(AllPages(request), "m1 m2 m3 c1 c2 c3 c4");
}

TEST_F(ContentPageTest, WhatComesMeanwhileComesAtTheEnd) {
  PageRequest request = Request(5);
  const Page first = MustRead(request);
  EXPECT_EQ(first.next_content, 3);
  MustDo(WithContents(NewPut(kKey, {{"user", "m4"}}), {{"c5"}}));
  request.generation = first.row.generation;
  request.from_content = first.next_content;
  // The pages of messages are over: m4 is for the next round.
  EXPECT_EQ(AllPages(request), "c3 c4 c5");
}

TEST_F(ContentPageTest, AResetOfTheActiveLeavesAGapAndTheContents) {
  WriteRequest reset = NewWrite(commands::Reset{ResetScope::kActive}, kKey);
  MustDo(std::move(reset));
  EXPECT_EQ(AllPages(Request(2)), "c1 c2|c3 c4");
  MustDo(NewPut(kKey, {{"user", "m4"}}));
  EXPECT_EQ(AllPages(Request()), "m4 c1 c2 c3 c4");
}

TEST_F(ContentPageTest, AResetOfEverythingEndsTheRound) {
  PageRequest request = Request(5);
  const Page first = MustRead(request);
  WriteRequest reset = NewWrite(commands::Reset{ResetScope::kEverything}, kKey);
  MustDo(std::move(reset));
  request.generation = first.row.generation;
  request.from_content = first.next_content;
  EXPECT_EQ(ErrorReason(ReadPage(request).status()), "SESSION_REPLACED");
  EXPECT_EQ(AllPages(Request()), "");
  MustDo(WithContents(NewPut(kKey, {}), {{"c6"}}));
  EXPECT_EQ(AllPages(Request(1)), "c6");
}

TEST_F(ContentPageTest, AGapAmongContentsIsToldAndEndsNoRound) {
  // Garbage of the living generation does not come up; a store that has lost a row looks like this.
  const SessionRow row = MustRead(Request()).row;
  const SessionInfo info{row, std::make_shared<const SessionConfig>()};
  EXPECT_FALSE(memoryd::ReadPage(*real_, bodies_, memory_, info, Request())->has_gap);
  SessionInfo longer = info;
  longer.row.next_content += 2;
  longer.row.content_count += 2;
  const auto end = memoryd::ReadPage(*real_, bodies_, memory_, longer, Request());
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->contents.size(), 4U);
  EXPECT_EQ(end->next_content, 5) << "the store may have stopped for another reason";
  PageRequest rest = Request();
  rest.from_content = 5;
  const auto nothing = memoryd::ReadPage(*real_, bodies_, memory_, longer, rest);
  ASSERT_TRUE(nothing.ok()) << nothing.status();
  EXPECT_THAT(nothing->contents, IsEmpty());
  EXPECT_EQ(nothing->next_content, 0);
  EXPECT_TRUE(nothing->has_gap);
}

TEST_F(ContentPageTest, NewestFirstEachKindDescendsInPagesOfEverySize) {
  EXPECT_EQ(AllPages(Newest(1)), "m3|m2|m1|c4|c3|c2|c1");
  EXPECT_EQ(AllPages(Newest(2)), "m3 m2|m1 c4|c3 c2|c1");
  EXPECT_EQ(AllPages(Newest(3)), "m3 m2 m1|c4 c3 c2|c1");
  EXPECT_EQ(AllPages(Newest(7)), "m3 m2 m1 c4 c3 c2 c1");
  PageRequest request = Newest();
  request.max_bytes = 8;
  EXPECT_EQ(AllPages(request), "m3 m2 m1 c4|c3 c2 c1");
  request.max_bytes = 1;
  EXPECT_EQ(AllPages(request), "m3|m2|m1|c4|c3|c2|c1");
}

TEST_F(ContentPageTest, ThePageFromTheNewEndReadsItsOwnRowsAlone) {
  std::vector<Line> lines(2000, Line{"user", "x"});
  MustDo(NewPut(kKey, lines));
  const std::size_t before = store_->range_rows();
  EXPECT_EQ(MustRead(Newest(10)).messages.size(), 10U);
  // One more tells that there is a next page.
  EXPECT_EQ(store_->range_rows() - before, 11U);
}

TEST_F(ContentPageTest, NewestFirstWhatComesAfterTheFirstPageIsOnNone) {
  PageRequest request = Newest(2);
  const Page first = MustRead(request);
  EXPECT_EQ(Bodies(first.messages), (std::vector<std::string>{"m3", "m2"}));
  MustDo(WithContents(NewPut(kKey, {{"user", "m4"}}), {{"c5"}}));
  request.generation = first.row.generation;
  request.from_position = first.next_position;
  request.until_content = first.until_content;
  EXPECT_EQ(AllPages(request), "m1 c4|c3 c2|c1");
  EXPECT_EQ(AllPages(Newest()), "m4 m3 m2 m1 c5 c4 c3 c2 c1");
}

TEST_F(ContentPageTest, WhereTheOldEndIsGoneTheLastPageIsNotEmpty) {
  MustDo(WithContents(NewPut(kKey, {{"user", "m4", "four"}, {"user", "m5", "five"}}), {}));
  const std::vector<std::string> ids = {MessageIdAt(1), MessageIdAt(2), "four"};
  for (const std::string& id : ids) Delete(id);
  for (const char* content : {"c1", "c2"}) DeleteContentOf(content);
  EXPECT_EQ(AllPages(Newest()), "m5 m3 c4 c3");
  EXPECT_EQ(AllPages(Newest(1)), "m5|m3|c4|c3");
  PageRequest request = Newest();
  request.max_bytes = 4;
  EXPECT_EQ(AllPages(request), "m5 m3|c4 c3");
  // Bytes end the page, not the holes below.
  request.max_bytes = 3;
  EXPECT_EQ(AllPages(request), "m5|m3|c4|c3");
}

TEST_F(ContentPageTest, NewestFirstAResetOfTheActiveLeavesAGapAndTheContents) {
  MustDo(NewWrite(commands::Reset{ResetScope::kActive}, kKey));
  EXPECT_EQ(AllPages(Newest(2)), "c4 c3|c2 c1");
  MustDo(NewPut(kKey, {{"user", "m4"}}));
  EXPECT_EQ(AllPages(Newest()), "m4 c4 c3 c2 c1");
}

TEST_F(ContentPageTest, NewestFirstAResetOfEverythingEndsTheRound) {
  PageRequest request = Newest(2);
  const Page first = MustRead(request);
  MustDo(NewWrite(commands::Reset{ResetScope::kEverything}, kKey));
  request.generation = first.row.generation;
  request.from_position = first.next_position;
  EXPECT_EQ(ErrorReason(ReadPage(request).status()), "SESSION_REPLACED");
}

TEST_F(ContentPageTest, NewestFirstAFilterAndATotalAreAsOldestFirst) {
  PageRequest request = Newest(2);
  MessageFilter filter;
  const Page all = MustRead(Request());
  filter.ingest.start_us = all.messages[1]->ingest_us;
  request.filter = std::make_shared<const MessageFilter>(filter);
  request.include_total = true;
  EXPECT_EQ(MustRead(request).total_count, 7);
  EXPECT_EQ(AllPages(request), "m3 m2|m1 c4|c3 c2|c1");
  filter = {};
  filter.message_ids = {MessageIdAt(1), MessageIdAt(3)};
  std::sort(filter.message_ids.begin(), filter.message_ids.end());
  request.filter = std::make_shared<const MessageFilter>(filter);
  request.max_messages = 1;
  // No content has the id of a message, which the last page finds out.
  EXPECT_EQ(AllPages(request), "m3|m1|");
  request.include_contents = false;
  EXPECT_EQ(AllPages(request), "m3|m1");
  EXPECT_EQ(MustRead(request).total_count, 2);
  request.include_contents = true;
  // A page that may read only one row says where it stopped.
  filter = {};
  filter.ingest.end_us = 1;
  request.filter = std::make_shared<const MessageFilter>(filter);
  request.max_rows_read = 1;
  EXPECT_EQ(AllPages(request), "||||||");
}

TEST_F(ContentPageTest, APlaceThatNoPageHasGivenIsHarmless) {
  for (const std::int64_t place : {std::numeric_limits<std::int64_t>::max(), std::int64_t{1000},
                                   std::numeric_limits<std::int64_t>::min()}) {
    PageRequest request = Newest();
    request.from_position = place;
    EXPECT_EQ(AllPages(request), "m3 m2 m1 c4 c3 c2 c1") << place;
    request.from_position = 0;
    request.from_content = place;
    EXPECT_EQ(AllPages(request), "c4 c3 c2 c1") << place;
    request.from_content = 0;
    request.until_content = place;
    EXPECT_EQ(AllPages(request), "m3 m2 m1 c4 c3 c2 c1") << place;
  }
}

class PageMemoryTest : public ContentPageTest {
 protected:
  // A page of the session, which says that it holds `message_bytes`, while its tenant holds
  // 1,700,000 of the 2,000,000 bytes that it may have.
  absl::Status ReadBesideOthers(std::int64_t message_bytes, PageRequest request) {
    SessionRow row = MustRead(Request(1)).row;
    row.message_bytes = message_bytes;
    row.next_position = std::max(row.next_position, next_position_);
    const SessionInfo info{row, std::make_shared<const SessionConfig>()};
    MemoryBudget budget(4'000'000);
    const auto others = budget.Count(kKey.tenant, MemoryUse::kReplies, 1'700'000);
    const std::uint64_t read = store_->range_rows();
    const auto page = memoryd::ReadPage(*store_, bodies_, budget, info, request);
    EXPECT_EQ(store_->range_rows() > read, page.ok());
    return page.status();
  }

  static constexpr std::int64_t kLargeSession = std::int64_t{48} << 20;
  // The session's row says that its next message gets at least this position.
  std::int64_t next_position_ = 0;
};

TEST_F(PageMemoryTest, ASmallPageOfALargeSessionNeedsItsOwnBytes) {
  EXPECT_TRUE(ReadBesideOthers(kLargeSession, Request(1)).ok());
  EXPECT_TRUE(ReadBesideOthers(kLargeSession, Request(5)).ok());
  PageRequest rest = Request();
  rest.from_content = 2;
  EXPECT_TRUE(ReadBesideOthers(kLargeSession, rest).ok());
}

TEST_F(PageMemoryTest, ALargeRowIsSeenBeforeItIsRead) {
  MustDo(NewPut(kKey, {{"user", std::string(200'000, 'x')}}));
  EXPECT_TRUE(ReadBesideOthers(kLargeSession, Request(2)).ok());
  EXPECT_EQ(ErrorReason(ReadBesideOthers(kLargeSession, Request(4))), "MEMORY_SHORT");
  // It is the one that is read to learn that there is a next page.
  EXPECT_EQ(ErrorReason(ReadBesideOthers(kLargeSession, Request(3))), "MEMORY_SHORT");
}

TEST_F(PageMemoryTest, FromTheNewEndTheLargeRowIsSeenAtTheOtherPages) {
  MustDo(NewPut(kKey, {{"user", std::string(200'000, 'x')}}));
  MustDo(NewPut(kKey, {{"user", "m5"}, {"user", "m6"}}));
  EXPECT_TRUE(ReadBesideOthers(kLargeSession, Newest(1)).ok());
  EXPECT_EQ(ErrorReason(ReadBesideOthers(kLargeSession, Newest(2))), "MEMORY_SHORT");
  EXPECT_EQ(ErrorReason(ReadBesideOthers(kLargeSession, Newest(3))), "MEMORY_SHORT");
  PageRequest rest = Newest(2);
  rest.from_position = 3;
  EXPECT_TRUE(ReadBesideOthers(kLargeSession, rest).ok());
}

TEST_F(PageMemoryTest, ASessionWhoseBytesWereNeverCountedIsNotTakenForEmpty) {
  EXPECT_TRUE(ReadBesideOthers(0, Request()).ok());
  MustDo(NewPut(kKey, {{"user", std::string(200'000, 'x')}}));
  EXPECT_EQ(ErrorReason(ReadBesideOthers(0, Request())), "MEMORY_SHORT");
}

TEST_F(PageMemoryTest, WhereTheBytesAreNotKnownTheMostCounts) {
  PageRequest counted = Request();
  counted.count_only = true;
  EXPECT_EQ(ErrorReason(ReadBesideOthers(kLargeSession, counted)), "MEMORY_SHORT");
  // Behind a gap the page goes on, with rows that stand further away.
  next_position_ = 8;
  EXPECT_TRUE(ReadBesideOthers(kLargeSession, Request(2)).ok());
  EXPECT_EQ(ErrorReason(ReadBesideOthers(kLargeSession, Request(3))), "MEMORY_SHORT");
}

}  // namespace
}  // namespace memoryd
