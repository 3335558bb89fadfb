#include "core/storage/job_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "core/model/job.h"
#include "core/storage/store.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

SessionChange WithBlock(std::int64_t done, std::int64_t next) {
  SessionChange change;
  change.row.block_generation = 7;
  BlockState& block = change.blocks.emplace_back();
  block.name = "b";
  block.done = done;
  block.next = next;
  return change;
}

Job NewJob(const std::string& block, std::int64_t number) {
  Job job;
  job.key.block = block;
  job.key.number = number;
  return job;
}

std::vector<std::int64_t> Marked(const SessionChange& change) {
  std::vector<std::int64_t> numbers;
  for (const BlockJob& job : JobsToMark(change)) {
    EXPECT_EQ(*job.block, "b");
    numbers.push_back(job.number);
  }
  return numbers;
}

TEST(JobOrderTest, TheFirstThatHasNotEndedIsReady) {
  const SessionChange change = WithBlock(4, 8);
  EXPECT_TRUE(IsReady(change, NewJob("b", 5)));
  EXPECT_FALSE(IsReady(change, NewJob("b", 6)));
  EXPECT_TRUE(IsReady(change, NewJob("c", 6))) << "nothing is known of c";
}

TEST(JobOrderTest, WhatWaitsIsMarkedWhenItBecomesTheFirst) {
  EXPECT_THAT(Marked(WithBlock(4, 8)), ElementsAre(5));
  EXPECT_THAT(Marked(WithBlock(4, 5)), IsEmpty()) << "there is none";
  SessionChange change = WithBlock(4, 6);
  change.jobs = {NewJob("b", 5)};
  EXPECT_THAT(Marked(change), IsEmpty()) << "it is being made";
  change.jobs = {NewJob("c", 5), NewJob("b", 6)};
  EXPECT_THAT(Marked(change), ElementsAre(5));
}

TEST(JobOrderTest, WhatEndsInTheSameChangeIsNotMarked) {
  SessionChange change = WithBlock(4, 8);
  change.ended_jobs.resize(1);
  change.ended_jobs[0].key = {{}, 7, "b", 4};
  EXPECT_THAT(Marked(change), ElementsAre(5));
  change.ended_jobs[0].key.number = 5;
  EXPECT_THAT(Marked(change), IsEmpty());
  change.ended_jobs[0].key.generation = 6;
  EXPECT_THAT(Marked(change), ElementsAre(5));
  change.cancel_jobs_of = 6;
  EXPECT_THAT(Marked(change), ElementsAre(5));
  change.cancel_jobs_of = 7;
  EXPECT_THAT(Marked(change), IsEmpty());
}

}  // namespace
}  // namespace memoryd
