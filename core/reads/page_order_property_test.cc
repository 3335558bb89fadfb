// Random histories: the pages from the newest on hold what those from the oldest on hold, reversed.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/model/message.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/reads/message_filter.h"
#include "core/reads/page.h"
#include "core/sessions/session_info.h"
#include "core/writes/command.h"
#include "core/writes/commands/contents.h"
#include "core/writes/commands/messages.h"
#include "core/writes/commands/put_set_reset.h"
#include "core/writes/write.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

const SessionKey kKey{"tenant", "session"};

// All items of some pages, by their positions.
struct Items {
  std::vector<std::int64_t> messages;
  std::vector<std::int64_t> contents;
};

class PageOrderTest : public EngineTest, public ::testing::WithParamInterface<unsigned> {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    Start(Options());
  }

  std::uint64_t Pick(std::uint64_t below) { return generator_() % below; }
  template <typename T>
  const T& OneOf(const std::vector<T>& values) {
    return values[Pick(values.size())];
  }

  // Some of every size, so that bytes end a page as often as rows.
  std::string RandomText() { return std::string(1 + Pick(Pick(4) == 0 ? 300 : 20), 'x'); }

  WriteRequest RandomItems(WriteCommand command) {
    static constexpr const char* kRoles[] = {"user", "assistant", "user", "system"};
    std::vector<Line> lines(Pick(8));
    for (Line& line : lines) line = {kRoles[Pick(std::size(kRoles))], RandomText() + " a b c"};
    std::vector<Note> notes(Pick(4));
    for (Note& note : notes) note = {RandomText()};
    return WithContents(NewWrite(std::move(command), kKey, std::move(lines)), std::move(notes));
  }

  void Create() {
    WriteRequest put = RandomItems(commands::Put());
    SessionSettings settings =
        WordSettings(Pick(2) == 0 ? Profile::kDefault : Profile::kLlamaIndex);
    settings.token_limit = 60;
    settings.token_flush_size = 10;
    if (Pick(3) == 0) settings.retention.keep_messages = 15;
    SettingsOf(put) = std::move(settings);
    MustDo(std::move(put));
  }

  Page MustRead(const PageRequest& request) {
    auto page = ReadPage(request);
    EXPECT_TRUE(page.ok()) << page.status();
    return page.ok() ? *std::move(page) : Page();
  }

  // Deletes one of the items, if there is any.
  void Delete() {
    PageRequest request;
    request.key = kKey;
    request.include_contents = true;
    request.max_messages = 1'000'000;
    const Page page = MustRead(request);
    const bool message = Pick(3) > 0;
    const auto& rows = message ? page.messages : page.contents;
    if (rows.empty()) return;
    // The ends more often than what lies between.
    const std::uint64_t way = Pick(3);
    const auto& row = way == 0 ? rows.front() : way == 1 ? rows.back() : OneOf(rows);
    if (message) {
      MustDo(NewWrite(commands::DeleteMessage{.message_id = MessageId(*row, page.row.generation)},
                      kKey));
    } else {
      MustDo(NewWrite(
          commands::DeleteContent{.content_id = MessageId(*row, page.row.content_generation)},
          kKey));
    }
  }

  // What changes a session and replaces none of its messages.
  void Change() {
    const std::uint64_t choice = Pick(12);
    if (choice < 5) {
      MustDo(RandomItems(commands::Put()));
    } else if (choice < 10) {
      Delete();
    } else {
      MustDo(NewWrite(commands::Reset{choice == 10 ? ResetScope::kActive : ResetScope::kArchived},
                      kKey));
    }
  }

  void Step() {
    const std::uint64_t choice = Pick(30);
    if (choice == 0) {
      MustDo(RandomItems(commands::Set()));
    } else if (choice == 1) {
      MustDo(NewWrite(commands::Reset{ResetScope::kEverything}, kKey));
    } else {
      Change();
    }
  }

  PageRequest RandomRequest(const std::vector<MessagePtr>& stored) {
    PageRequest request;
    request.key = kKey;
    request.status =
        OneOf<StatusFilter>({StatusFilter::kAll, StatusFilter::kActive, StatusFilter::kArchived});
    request.include_contents = Pick(2) == 0;
    if (stored.empty() || Pick(2) == 0) return request;
    MessageFilter filter;
    if (Pick(2) == 0) filter.ingest.start_us = OneOf(stored)->ingest_us;
    if (Pick(2) == 0) filter.ingest.end_us = OneOf(stored)->ingest_us;
    if (Pick(3) == 0) filter.roles = {"nobody", "user"};
    if (Pick(3) == 0) {
      for (std::uint64_t left = 1 + Pick(9); left > 0; --left) {
        filter.message_ids.push_back(MessageId(*OneOf(stored), generation_of_));
      }
      std::sort(filter.message_ids.begin(), filter.message_ids.end());
    }
    request.filter = std::make_shared<const MessageFilter>(filter);
    return request;
  }

  // Every item, page by page, each page of another size; `between` comes before each but the first.
  template <typename Between>
  Items ReadAll(PageRequest request, const Between& between) {
    Items items;
    for (int count = 0; count < 2000; ++count) {
      request.max_messages = OneOf<std::int64_t>({1, 2, 3, 7, 50, 1000});
      request.max_bytes = OneOf<std::int64_t>({1, 100, 500, 1 << 20});
      request.max_rows_read = OneOf<std::int64_t>({1, 5, 1000});
      if (count > 0) between();
      const Page page = MustRead(request);
      EXPECT_LE(page.row_count, request.max_messages);
      for (const MessagePtr& message : page.messages) items.messages.push_back(message->position);
      for (const ContentPtr& content : page.contents) items.contents.push_back(content->position);
      if (page.next_position == 0 && page.next_content == 0) return items;
      if (request.newest_first && request.filter == nullptr) {
        EXPECT_GT(page.row_count, 0) << "a page that is not the last one is empty";
      }
      request.generation = page.row.generation;
      request.from_position = page.next_position;
      request.from_content = page.next_content;
      request.until_content = page.until_content;
    }
    ADD_FAILURE() << "pages without end";
    return items;
  }
  Items ReadAll(const PageRequest& request) {
    return ReadAll(request, [] {});
  }

  static Items Reversed(Items items) {
    std::ranges::reverse(items.messages);
    std::ranges::reverse(items.contents);
    return items;
  }

  std::mt19937_64 generator_{GetParam()};
  std::uint64_t generation_of_ = 0;  // Of the messages that were read last.
};

TEST_P(PageOrderTest, NewestFirstIsOldestFirstReversed) {
  Create();
  std::size_t compared = 0;
  for (int step = 0; step < 60; ++step) {
    Step();
    PageRequest everything;
    everything.key = kKey;
    everything.max_messages = 1'000'000;
    const Page stored = MustRead(everything);
    generation_of_ = stored.row.generation;
    PageRequest request = RandomRequest(stored.messages);
    const Items oldest = ReadAll(request);
    request.newest_first = true;
    const Items newest = ReadAll(request);
    ASSERT_EQ(Reversed(newest).messages, oldest.messages) << "step " << step;
    ASSERT_EQ(Reversed(newest).contents, oldest.contents) << "step " << step;
    compared += oldest.messages.size() + oldest.contents.size();
  }
  EXPECT_GT(compared, 100U);
}

// Others put, delete and reset between the pages.
TEST_P(PageOrderTest, WhatStaysIsOnOnePageAndWhatComesOnNone) {
  Create();
  for (int round = 0; round < 12; ++round) {
    for (int step = 0; step < 4; ++step) Step();
    PageRequest request;
    request.key = kKey;
    request.include_contents = true;
    const Items before = ReadAll(request);
    request.newest_first = true;
    int changes = 0;
    Items newest = ReadAll(request, [&] {
      // So that the reading gains on the writing.
      if (++changes < 40) Change();
    });
    request.newest_first = false;
    const Items after = ReadAll(request);
    newest = Reversed(std::move(newest));
    for (const auto& [read, was, is] :
         {std::tuple{&newest.messages, &before.messages, &after.messages},
          std::tuple{&newest.contents, &before.contents, &after.contents}}) {
      EXPECT_TRUE(std::ranges::is_sorted(*read));
      EXPECT_EQ(std::ranges::adjacent_find(*read), read->end()) << "one came twice";
      EXPECT_TRUE(std::ranges::includes(*was, *read)) << "one was stored after the first page";
      std::vector<std::int64_t> stayed;
      std::ranges::set_intersection(*was, *is, std::back_inserter(stayed));
      EXPECT_TRUE(std::ranges::includes(*read, stayed)) << "one that stayed was left out";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PageOrderTest, ::testing::Range(0U, 12U));

}  // namespace
}  // namespace memoryd
