#include "core/model/session.h"

#include <gtest/gtest.h>

namespace memoryd {
namespace {

SessionRow Stored() {
  SessionRow row;
  row.generation = 7;
  row.revision = 3;
  row.next_position = 4;
  row.pinned = {1};
  row.config = "{}";
  row.subject = "ann";
  return row;
}

TEST(SessionTest, WhatMessagesChangeThatArePutBehindTheOthersIsAnAppend) {
  const SessionRow before = Stored();
  SessionRow after = before;
  after.revision = 5;
  after.next_position = 6;
  after.active_count = 2;
  after.active_tokens = 30;
  after.message_bytes = 100;
  after.update_us = 9;
  after.commit_tag = 11;
  EXPECT_TRUE(IsAppend(before, after));
  EXPECT_TRUE(IsAppend(before, before));
}

TEST(SessionTest, AnythingElseIsNone) {
  const SessionRow before = Stored();
  void (*const changes[])(SessionRow&) = {
      [](SessionRow& row) { row.generation = 8; },
      [](SessionRow& row) { row.floor = 2; },
      [](SessionRow& row) { row.watermark = 2; },
      [](SessionRow& row) { row.pinned = {}; },
      [](SessionRow& row) { row.opening = 2; },
      [](SessionRow& row) { row.archived_count = 1; },
      [](SessionRow& row) { row.content_generation = 9; },
      [](SessionRow& row) { row.next_content = 2; },
      [](SessionRow& row) { row.content_count = 1; },
      [](SessionRow& row) { row.content_bytes = 1; },
      [](SessionRow& row) { row.edit_revision = 3; },
      [](SessionRow& row) { row.block_generation = 5; },
      [](SessionRow& row) { row.create_us = 1; },
      [](SessionRow& row) { row.expire_us = 1; },
      [](SessionRow& row) { row.drop_us = 2; },
      [](SessionRow& row) { row.has_timed_items = true; },
      [](SessionRow& row) { row.deleted = true; },
      [](SessionRow& row) { row.config = "{ }"; },
      [](SessionRow& row) { row.subject = ""; },
  };
  for (const auto& change : changes) {
    SessionRow after = before;
    ++after.revision;
    change(after);
    EXPECT_FALSE(IsAppend(before, after)) << (&change - &changes[0]);
  }
}

}  // namespace
}  // namespace memoryd
