// The contract of blocks, their entries and their jobs, over every store. Leases of 0 have run out
// at once and a delay of an hour never has: nothing waits.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/storage/store.h"
#include "tests/contract/store_fixture.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::int64_t kMany = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kHour = std::int64_t{3600} * 1'000'000;
constexpr std::int64_t kTenMinutes = kHour / 6;
constexpr std::uint64_t kBlocks = 0xFEDC'BA98'7654'3210;
constexpr std::uint64_t kLease = 0x8000'0000'0000'0001;
constexpr std::uint64_t kOther = 42;
const SessionKey kKey = {"tenant", "session"};

JobKey KeyOf(const SessionKey& key, const std::string& block, std::int64_t number,
             std::uint64_t generation = kBlocks) {
  return {key, generation, block, number};
}

JobFilter Filter(std::int64_t max_jobs, std::optional<JobState> state = std::nullopt,
                 std::uint64_t generation = kBlocks) {
  JobFilter filter;
  filter.generation = generation;
  filter.state = state;
  filter.max_jobs = max_jobs;
  return filter;
}

// The change with the block of this name fed up to `done` and `count` jobs more for it.
SessionChange WithJobs(SessionChange change, const std::string& block, std::int64_t done,
                       std::int64_t first, int count) {
  if (change.row.block_generation == 0) change.row.block_generation = kBlocks;
  BlockState state;
  state.name = block;
  state.done = done;
  state.next = first + count;
  state.state = fmt::format("state {}", done);
  change.blocks.push_back(state);
  for (int i = 0; i < count; ++i) {
    Job job;
    job.key = KeyOf(change.key, block, first + i, change.row.block_generation);
    job.message_generation = change.row.generation;
    job.begin = first + i;
    job.end = first + i + 1;
    job.create_us = job.update_us = change.row.update_us;
    change.jobs.push_back(job);
  }
  return change;
}

// The change that follows `before` and ends job `number` of its block.
SessionChange Ending(const SessionChange& before, const std::string& block, std::int64_t number,
                     std::int64_t next, JobState state = JobState::kDone) {
  SessionChange change = WithJobs(Following(before, 0), block, number, next, 0);
  change.ended_jobs = {
      {KeyOf(change.key, block, number, change.row.block_generation), state, "", {}}};
  return change;
}

class JobContractTest : public StoreTest {
 protected:
  std::vector<Job> Claim(const ClaimRequest& request) {
    auto jobs = store().ClaimJobs(request);
    EXPECT_TRUE(jobs.ok()) << jobs.status();
    return jobs.ok() ? *std::move(jobs) : std::vector<Job>();
  }
  // Claims for an hour, and says what as `session block number`, sorted.
  std::vector<std::string> Claimed(std::uint64_t lease, std::int64_t max_jobs = 100,
                                   bool take_over = false) {
    std::vector<std::string> names;
    for (const Job& job : Claim({lease, kHour, max_jobs, take_over})) {
      EXPECT_EQ(job.lease, lease);
      EXPECT_EQ(job.state, JobState::kOpen);
      names.push_back(
          fmt::format("{} {} {}", job.key.session.session, job.key.block, job.key.number));
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  std::optional<Job> Find(const JobKey& key) {
    auto job = store().FindJob(key);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? *std::move(job) : std::nullopt;
  }
  std::vector<Job> List(const SessionKey& key, const JobFilter& filter) {
    auto jobs = store().ListJobs(key, filter);
    EXPECT_TRUE(jobs.ok()) << jobs.status();
    return jobs.ok() ? *std::move(jobs) : std::vector<Job>();
  }
  std::vector<Job> ListAll(const SessionKey& key, std::uint64_t generation = kBlocks) {
    return List(key, Filter(kMany, std::nullopt, generation));
  }
  JobCounts Count() {
    const auto counts = store().CountJobs();
    EXPECT_TRUE(counts.ok()) << counts.status();
    return counts.value_or(JobCounts());
  }
  std::vector<MessagePtr> Rows(const SessionKey& key, std::uint64_t generation) {
    auto rows = store().ReadRange(key, generation, {0, kMany}, kMany, kMany);
    EXPECT_TRUE(rows.ok()) << rows.status();
    return rows.ok() ? *std::move(rows) : std::vector<MessagePtr>();
  }
  void PurgeAll(std::int64_t max_rows = 1000, std::int64_t now_us = 0) {
    const PurgeLimits limits{.now_us = now_us, .keep_us = 0, .max_rows = max_rows};
    for (int calls = 0; store().Purge(limits).value_or(0) == max_rows; ++calls) {
      ASSERT_LT(calls, 10'000);
    }
  }
};

TEST_P(JobContractTest, BlocksComeBackToTheByteByName) {
  SessionChange change = NewSession(kKey, 2);
  change.row.pinned = {1};
  change.row.block_generation = std::numeric_limits<std::uint64_t>::max();
  BlockState extreme;
  extreme.name = "z";
  extreme.done = std::numeric_limits<std::int64_t>::max() - 1;
  extreme.next = std::numeric_limits<std::int64_t>::max();
  extreme.entry_generation = std::uint64_t{1} << 63;
  extreme.next_entry = 5'000'000'000;
  extreme.update_us = 1'700'000'000'000'000;
  extreme.state = std::string("\0'\"\\\xFF\n", 6);
  BlockState plain;
  plain.name = "A-b_9";
  BlockState large;
  large.name = "m";
  for (std::size_t i = 0; i < kMaxBlockState; ++i) large.state += static_cast<char>(i * 7919 >> 5);
  change.blocks = {extreme, plain, large};
  MustCommit(change);
  ExpectStored(change);
  EXPECT_TRUE(Load(kKey)->blocks == (std::vector{plain, large, extreme}));

  const auto listed = store().ListSessions("tenant", "", {.max_sessions = 10});
  ASSERT_TRUE(listed.ok() && listed->sessions.size() == 1) << listed.status();
  EXPECT_EQ(listed->sessions.front().row, change.row);

  // Written over whole; what a change does not name stays.
  change = Following(change, 1);
  plain.state = "now";
  plain.done = 1;
  change.blocks = {plain};
  MustCommit(change);
  EXPECT_TRUE(Load(kKey)->blocks == (std::vector{plain, large, extreme}));
  EXPECT_THAT(Load(kKey)->active, SizeIs(3));
}

TEST_P(JobContractTest, JobsComeBackInAllTheirFields) {
  SessionChange change = WithJobs(NewSession(kKey, 1), "b", 0, 1, 2);
  Job& job = change.jobs.front();
  job.message_generation = std::numeric_limits<std::uint64_t>::max();
  job.begin = 5'000'000'000;
  job.end = std::numeric_limits<std::int64_t>::max();
  job.attempts = 3;
  job.create_us = 11;
  job.update_us = 12;
  job.last_error = std::string("\0'\"\\\xFF\n", 6);
  job.usage = {1, 5'000'000'000, 3};
  // The store knows better than what stands in the key.
  job.key.session = {"t2", "other"};
  job.key.generation = 1;
  MustCommit(change);

  std::vector<Job> stored = ListAll(kKey);
  ASSERT_THAT(stored, SizeIs(2));
  EXPECT_GT(stored[0].due_us, 0);
  EXPECT_EQ(stored[0].due_us, stored[1].due_us);
  job.key.session = kKey;
  job.key.generation = kBlocks;
  for (Job& expected : change.jobs) expected.due_us = stored[0].due_us;
  EXPECT_EQ(stored, change.jobs);
  EXPECT_EQ(Find(job.key), job);
}

TEST_P(JobContractTest, AnyNumberOfThemGoesIntoOneChange) {
  // PostgreSQL takes small changes as lists and large ones as arrays.
  for (const auto& [messages, blocks, jobs] :
       {std::tuple(0, 1, 0), std::tuple(0, 0, 1), std::tuple(3, 7, 9), std::tuple(300, 0, 0),
        std::tuple(300, 3, 3), std::tuple(0, 0, 2000), std::tuple(0, 2000, 1)}) {
    const std::string name = fmt::format("{} {} {}", messages, blocks, jobs);
    SCOPED_TRACE(name);
    SessionChange change = NewSession({"tenant", name}, messages);
    change.row.block_generation = kBlocks;
    for (int i = 0; i < blocks; ++i) {
      BlockState& block = change.blocks.emplace_back();
      block.name = fmt::format("{:05}", i);
      block.state = fmt::format("state\0 {}", i);
    }
    for (int i = 0; i < jobs; ++i) {
      Job& job = change.jobs.emplace_back();
      job.key = KeyOf(change.key, fmt::format("{:05}", i / 2), i % 2 + 1);
      job.last_error = fmt::format("error {}", i);
      job.lease = i % 3 == 0 ? 0 : kLease;
      job.lease_until_us = i % 3 == 0 ? 0 : kHour;
    }
    const SessionChange beside = WithJobs(NewSession({"beside", name}, 1), "b", 0, 1, 1);
    EXPECT_THAT(CommitAll({beside, change}), ::testing::Each(CommitOutcome::kCommitted));
    ExpectStored(change);
    EXPECT_TRUE(Load(change.key)->blocks == change.blocks);
    std::vector<Job> stored = ListAll(change.key);
    for (Job& job : stored) {
      EXPECT_EQ(job.lease_until_us, job.lease == 0 ? 0 : job.due_us + kHour);
      job.due_us = 0;
      job.lease_until_us = job.lease == 0 ? 0 : kHour;
    }
    EXPECT_TRUE(stored == change.jobs);
    EXPECT_EQ(Load(beside.key)->blocks, beside.blocks);
    EXPECT_THAT(ListAll(beside.key), SizeIs(1));
  }
}

TEST_P(JobContractTest, EntriesAreRowsUnderTheirOwnGenerations) {
  SessionChange change = WithJobs(NewSession(kKey, 2), "v", 0, 1, 1);
  for (const std::uint64_t generation : {kBlocks + 1, kBlocks + 2}) {
    for (std::int64_t position = 1; position <= 2; ++position) {
      MessageDraft row = NewMessage(position, fmt::format("id {}", position));
      row.body = std::string("\0\xFF", 2) +
                 std::to_string(generation + static_cast<std::uint64_t>(position));
      change.entries.push_back({generation, row});
    }
  }
  MustCommit(change);
  EXPECT_THAT(Positions(kKey, change.row.generation), ElementsAre(1, 2));
  ExpectSameMessages(Rows(kKey, kBlocks + 1), {change.entries[0].row, change.entries[1].row});
  ExpectSameMessages(Rows(kKey, kBlocks + 2), {change.entries[2].row, change.entries[3].row});

  // A taken id is told, and hurts its own session only.
  SessionChange taken = Following(change, 0);
  taken.entries = {{kBlocks + 1, NewMessage(3, "id 1")}};
  taken = WithJobs(taken, "v", 0, 2, 1);
  EXPECT_THAT(CommitAll({taken, NewSession({"tenant", "other"})}),
              ElementsAre(CommitOutcome::kMessageIdTaken, CommitOutcome::kCommitted));
  EXPECT_THAT(ListAll(kKey), SizeIs(1));
  EXPECT_THAT(Positions(kKey, kBlocks + 1), ElementsAre(1, 2));
}

TEST_P(JobContractTest, ErasedEntriesGoAtOnceAndTheirPlacesCanBeTakenAgain) {
  SessionChange change = WithJobs(NewSession(kKey, 3), "v", 0, 1, 1);
  for (const std::uint64_t generation : {kBlocks + 1, kBlocks + 2}) {
    for (const std::int64_t position : {1, 2, 5}) {
      change.entries.push_back({generation, NewMessage(position)});
    }
  }
  MustCommit(change);
  SessionChange second = Following(change, 0);
  second.erase = {{3, 4}};
  second.erased_entries = {{kBlocks + 1, {2, 6}}, {kBlocks + 2, {1, 2}}, {kBlocks + 2, {3, 5}}};
  SessionChange late = second;
  late.expected_revision = 17;
  late.row.revision = 18;
  EXPECT_THAT(CommitAll({late}), ElementsAre(CommitOutcome::kRevisionLost));
  EXPECT_THAT(Positions(kKey, kBlocks + 1), ElementsAre(1, 2, 5));
  MustCommit(second);
  EXPECT_THAT(Positions(kKey, change.row.generation), ElementsAre(1, 2));
  EXPECT_THAT(Positions(kKey, kBlocks + 1), ElementsAre(1));
  EXPECT_THAT(Positions(kKey, kBlocks + 2), ElementsAre(2, 5));
  // Beside one of another session, and in a change of many rows.
  for (const int messages : {0, 200}) {
    SessionChange third = Following(second, messages);
    third.entries = {{kBlocks + 1, NewMessage(messages == 0 ? 2 : 3)}};
    third.erased_entries = {{kBlocks + 2, {messages == 0 ? 2 : 5, 6}}};
    if (messages == 0) third.erased_entries.front().positions.end = 3;
    const SessionKey other{"tenant", "other " + std::to_string(messages)};
    EXPECT_THAT(CommitAll({third, NewSession(other)}),
                ElementsAre(CommitOutcome::kCommitted, CommitOutcome::kCommitted));
    second = third;
  }
  EXPECT_THAT(Positions(kKey, kBlocks + 1), ElementsAre(1, 2, 3));
  EXPECT_THAT(Positions(kKey, kBlocks + 2), IsEmpty());
}

TEST_P(JobContractTest, ALostRevisionLeavesNothing) {
  const SessionChange first = WithJobs(NewSession(kKey, 1), "b", 0, 1, 2);
  MustCommit(first);
  for (const int messages : {0, 200}) {
    SessionChange late = Ending(first, "b", 1, 3);
    late = WithJobs(late, "c", 0, 1, 1);
    late.expected_revision = 17;
    late.row.revision = 18;
    late.entries = {{77, NewMessage(1)}};
    late.cancel_jobs_of = kBlocks;
    for (int i = 0; i < messages; ++i) {
      late.messages.push_back(NewMessage(late.row.next_position++));
    }
    EXPECT_EQ(CommitOne(late), CommitOutcome::kRevisionLost);
    EXPECT_EQ(Load(kKey)->row, first.row);
    EXPECT_EQ(Load(kKey)->blocks, first.blocks);
    EXPECT_THAT(Positions(kKey, 77), IsEmpty());
    const std::vector<Job> jobs = ListAll(kKey);
    ASSERT_THAT(jobs, SizeIs(2));
    for (const Job& job : jobs) EXPECT_EQ(job.state, JobState::kOpen);
  }
}

TEST_P(JobContractTest, ANumberThatIsTakenHurtsItsOwnSessionOnly) {
  const SessionChange first = WithJobs(NewSession(kKey, 1), "b", 0, 1, 2);
  MustCommit(first);
  const SessionChange doubled = WithJobs(Following(first, 1), "b", 0, 2, 2);
  const SessionChange other = WithJobs(NewSession({"tenant", "other"}), "b", 0, 1, 1);
  EXPECT_THAT(CommitAll({doubled, other}),
              ElementsAre(CommitOutcome::kFailed, CommitOutcome::kCommitted));
  EXPECT_EQ(Load(kKey)->row, first.row);
  EXPECT_THAT(ListAll(kKey), SizeIs(2));
}

TEST_P(JobContractTest, TheJobsOfABlockAreClaimedInOrderAndThoseOfOthersBeside) {
  SessionChange change = WithJobs(NewSession(kKey), "a", 0, 1, 3);
  change = WithJobs(change, "b", 0, 1, 2);
  MustCommit(change);
  EXPECT_THAT(Claimed(kLease), ElementsAre("session a 1", "session b 1"));
  EXPECT_THAT(Claimed(kOther), IsEmpty());

  change = Ending(change, "a", 1, 4);
  MustCommit(change);
  EXPECT_THAT(Claimed(kOther), ElementsAre("session a 2"));
  // An end that is no success lets the next one go on too.
  change = Ending(change, "a", 2, 4, JobState::kFailed);
  MustCommit(change);
  EXPECT_THAT(Claimed(kOther), ElementsAre("session a 3"));
  EXPECT_THAT(Claimed(kOther), IsEmpty());
}

TEST_P(JobContractTest, AClaimLeasesAndCountsAnAttempt) {
  MustCommit(WithJobs(NewSession(kKey), "b", 0, 1, 1));
  const Job before = *Find(KeyOf(kKey, "b", 1));
  EXPECT_EQ(before.lease, 0U);
  const std::vector<Job> jobs = Claim({kLease, kHour, 10, false});
  ASSERT_THAT(jobs, SizeIs(1));
  EXPECT_EQ(Find(jobs[0].key), jobs[0]);
  Job expected = before;
  expected.lease = kLease;
  expected.attempts = 1;
  expected.lease_until_us = jobs[0].lease_until_us;
  EXPECT_EQ(jobs[0], expected);
  EXPECT_GE(jobs[0].lease_until_us, before.due_us + kHour);
}

TEST_P(JobContractTest, NoMoreAreClaimedThanAskedForAndTheOldestFirst) {
  std::vector<std::string> names;
  for (int i = 0; i < 6; ++i) {
    names.push_back(fmt::format("s{} b 1", i));
    MustCommit(WithJobs(NewSession({"tenant", fmt::format("s{}", i)}), "b", 0, 1, 1));
  }
  EXPECT_THAT(Claimed(kLease, 0), IsEmpty());
  EXPECT_THAT(Claimed(kLease, -1), IsEmpty());
  EXPECT_THAT(Claimed(kLease, 2), ElementsAre(names[0], names[1]));
  // What is given back begins anew to wait.
  ASSERT_TRUE(
      store().ReleaseJob(kLease, KeyOf({"tenant", "s0"}, "b", 1), 0, "", {}, /*begun=*/false).ok());
  EXPECT_THAT(Claimed(kOther, 3), ElementsAre(names[2], names[3], names[4]));
  EXPECT_THAT(Claimed(kOther, 1), ElementsAre(names[5]));
  EXPECT_THAT(Claimed(kOther), ElementsAre(names[0]));
}

TEST_P(JobContractTest, WhatIsSkippedIsLeftToOthersAndTakesNobodysPlace) {
  for (int i = 0; i < 6; ++i) {
    MustCommit(WithJobs(NewSession({"tenant", fmt::format("s{}", i)}), "b", 0, 1, 1));
  }
  ClaimRequest request{kLease, kHour, 2, false};
  request.skip = [](const JobKey& job) { return job.session.session < "s3"; };
  std::vector<std::string> claimed;
  for (const Job& job : Claim(request)) claimed.push_back(job.key.session.session);
  EXPECT_THAT(claimed, ElementsAre("s3", "s4"));
  request.max_jobs = 10;
  EXPECT_THAT(Claim(request), SizeIs(1));
  EXPECT_THAT(Claim(request), IsEmpty());
  EXPECT_EQ(Find(KeyOf({"tenant", "s0"}, "b", 1))->attempts, 0);
  EXPECT_THAT(Claimed(kOther), ElementsAre("s0 b 1", "s1 b 1", "s2 b 1"));
}

TEST_P(JobContractTest, ALeaseThatRanOutIsNobodys) {
  MustCommit(WithJobs(NewSession(kKey), "b", 0, 1, 1));
  EXPECT_THAT(Claim({kLease, 0, 10, false}), SizeIs(1));
  EXPECT_THAT(Claimed(kOther), ElementsAre("session b 1"));
  EXPECT_EQ(Find(KeyOf(kKey, "b", 1))->attempts, 2);
  // The first one is late: neither does it prolong nor give back what is another's.
  const std::vector<JobKey> keys = {KeyOf(kKey, "b", 1)};
  const std::optional<Job> held = Find(keys[0]);
  EXPECT_TRUE(store().RenewJobs(kLease, keys, 2 * kHour).ok());
  EXPECT_TRUE(store().ReleaseJob(kLease, keys[0], 0, "late", {1, 2, 3}, /*begun=*/true).ok());
  EXPECT_EQ(Find(keys[0]), held);
}

TEST_P(JobContractTest, ALeaseIsProlonged) {
  SessionChange change = WithJobs(NewSession(kKey), "b", 0, 1, 1);
  MustCommit(WithJobs(change, "c", 0, 1, 1));
  EXPECT_THAT(Claim({kLease, 0, 10, false}), SizeIs(2));
  const std::vector<JobKey> keys = {KeyOf(kKey, "b", 1), KeyOf(kKey, "not there", 1)};
  EXPECT_TRUE(store().RenewJobs(kLease, keys, kHour).ok());
  EXPECT_TRUE(store().RenewJobs(kLease, {}, kHour).ok());
  EXPECT_THAT(Claimed(kOther), ElementsAre("session c 1"));
  EXPECT_EQ(Find(keys[0])->attempts, 1);
}

TEST_P(JobContractTest, TakingOverTakesWhatOthersHoldButNotOnesOwn) {
  MustCommit(WithJobs(NewSession(kKey), "b", 0, 1, 2));
  EXPECT_THAT(Claimed(kLease), ElementsAre("session b 1"));
  EXPECT_THAT(Claimed(kLease, 100, /*take_over=*/true), IsEmpty());
  EXPECT_THAT(Claimed(kOther, 100, /*take_over=*/true), ElementsAre("session b 1"));
  EXPECT_EQ(Find(KeyOf(kKey, "b", 1))->attempts, 2);
}

TEST_P(JobContractTest, AJobIsGivenBackWithADelayAnErrorAndItsUsage) {
  MustCommit(WithJobs(NewSession(kKey), "b", 0, 1, 2));
  const JobKey key = KeyOf(kKey, "b", 1);
  EXPECT_THAT(Claimed(kLease), SizeIs(1));
  const std::string error("no\0 model\xFF", 10);
  EXPECT_TRUE(store().ReleaseJob(kLease, key, 0, error, {1, 20, 300}, /*begun=*/true).ok());
  std::optional<Job> job = Find(key);
  EXPECT_EQ(job->lease, 0U);
  EXPECT_EQ(job->lease_until_us, 0);
  EXPECT_EQ(job->attempts, 1);
  EXPECT_EQ(job->last_error, error);
  EXPECT_EQ(job->usage, (Usage{1, 20, 300}));

  // Not begun: neither an attempt nor an error.
  EXPECT_THAT(Claimed(kLease), ElementsAre("session b 1"));
  EXPECT_TRUE(store().ReleaseJob(kLease, key, 0, "", {}, /*begun=*/false).ok());
  job = Find(key);
  EXPECT_EQ(job->attempts, 1);
  EXPECT_EQ(job->last_error, error);

  // Not begun for a reason that is to be seen.
  EXPECT_THAT(Claimed(kLease), ElementsAre("session b 1"));
  EXPECT_TRUE(store().ReleaseJob(kLease, key, 0, "reason", {}, /*begun=*/false).ok());
  job = Find(key);
  EXPECT_EQ(job->attempts, 1);
  EXPECT_EQ(job->last_error, "reason");

  // Nobody's: nothing happens.
  EXPECT_TRUE(store().ReleaseJob(kLease, key, kHour, "again", {1, 1, 1}, /*begun=*/true).ok());
  EXPECT_EQ(Find(key), job);
  EXPECT_TRUE(store().ReleaseJob(0, KeyOf(kKey, "b", 9), 0, "none", {}, /*begun=*/true).ok());

  EXPECT_THAT(Claimed(kLease), SizeIs(1));
  EXPECT_TRUE(
      store().ReleaseJob(kLease, key, kTenMinutes, "later", {1, 1, 1}, /*begun=*/true).ok());
  EXPECT_THAT(Claimed(kOther, 100, /*take_over=*/true), IsEmpty());
  job = Find(key);
  EXPECT_EQ(job->due_us, job->update_us + kTenMinutes);
  EXPECT_EQ(job->attempts, 2);
  EXPECT_EQ(job->last_error, "later");
  EXPECT_EQ(job->usage, (Usage{2, 21, 301}));
}

TEST_P(JobContractTest, AJobMayBeBornLeased) {
  SessionChange change = WithJobs(NewSession(kKey), "b", 0, 1, 2);
  change.jobs[0].lease = kLease;
  change.jobs[0].lease_until_us = kHour;
  change.jobs[0].attempts = 1;
  MustCommit(change);
  EXPECT_THAT(Claimed(kOther), IsEmpty());
  const Job job = *Find(KeyOf(kKey, "b", 1));
  EXPECT_EQ(job.lease, kLease);
  EXPECT_EQ(job.lease_until_us, job.due_us + kHour);
  EXPECT_EQ(job.attempts, 1);
  EXPECT_TRUE(store().ReleaseJob(kLease, job.key, 0, "", {}, /*begun=*/false).ok());
  EXPECT_THAT(Claimed(kOther), ElementsAre("session b 1"));
}

TEST_P(JobContractTest, AJobEndsOnce) {
  SessionChange change = WithJobs(NewSession(kKey), "b", 0, 1, 2);
  MustCommit(change);
  EXPECT_THAT(Claimed(kLease), SizeIs(1));
  ASSERT_TRUE(
      store().ReleaseJob(kLease, KeyOf(kKey, "b", 1), 0, "once", {1, 1, 1}, /*begun=*/true).ok());
  EXPECT_THAT(Claimed(kLease), SizeIs(1));

  change = Ending(change, "b", 1, 3);
  change.ended_jobs[0].usage = {1, 20, 300};
  // Of the session that changes, whatever its key says.
  change.ended_jobs[0].key.session = {"t2", "other"};
  MustCommit(change);
  const Job ended = *Find(KeyOf(kKey, "b", 1));
  EXPECT_EQ(ended.state, JobState::kDone);
  EXPECT_EQ(ended.last_error, "once");
  EXPECT_EQ(ended.usage, (Usage{2, 21, 301}));
  EXPECT_EQ(ended.lease, 0U);
  EXPECT_EQ(ended.update_us, change.row.update_us);

  change = Ending(change, "b", 1, 3, JobState::kFailed);
  change.ended_jobs[0].usage = {1, 20, 300};
  change.ended_jobs[0].error = "too late";
  MustCommit(change);
  EXPECT_EQ(Find(ended.key), ended);
  EXPECT_TRUE(store().RenewJobs(kLease, std::vector{ended.key}, kHour).ok());
  EXPECT_TRUE(store().ReleaseJob(kLease, ended.key, 0, "too late", {1, 1, 1}, /*begun=*/true).ok());
  EXPECT_EQ(Find(ended.key), ended);

  change = Ending(change, "b", 2, 3, JobState::kFailed);
  change.ended_jobs[0].error = std::string("\0\xFF", 2);
  MustCommit(change);
  EXPECT_EQ(Find(KeyOf(kKey, "b", 2))->state, JobState::kFailed);
  EXPECT_EQ(Find(KeyOf(kKey, "b", 2))->last_error, std::string("\0\xFF", 2));
}

TEST_P(JobContractTest, CancellingLeavesWhatEndsAndWhatIsMadeInTheSameChange) {
  SessionChange change = WithJobs(NewSession(kKey), "b", 0, 1, 4);
  const SessionChange other = WithJobs(NewSession({"tenant", "other"}), "b", 0, 1, 1);
  EXPECT_THAT(CommitAll({change, other}), ::testing::Each(CommitOutcome::kCommitted));
  EXPECT_THAT(Claimed(kLease), ElementsAre("other b 1", "session b 1"));
  for (const std::int64_t number : {1, 3}) {
    change = Ending(change, "b", number, 5);
    change.ended_jobs[0].error = "as it was";
    if (number == 3) {
      change = WithJobs(change, "c", 0, 1, 1);
      change.cancel_jobs_of = kBlocks;
    }
    MustCommit(change);
  }
  std::string states;
  for (const Job& job : ListAll(kKey)) {
    states += fmt::format("{}{}:{} ", job.key.block, job.key.number, static_cast<int>(job.state));
  }
  EXPECT_EQ(states, "b1:1 b2:3 b3:1 b4:3 c1:0 ");
  EXPECT_EQ(Find(KeyOf(kKey, "b", 4))->update_us, change.row.update_us);
  EXPECT_EQ(Find(KeyOf(kKey, "b", 4))->last_error, "");
  EXPECT_EQ(Find(KeyOf(other.key, "b", 1))->state, JobState::kOpen);
}

TEST_P(JobContractTest, ANewGenerationHidesAllOfTheOld) {
  SessionChange change = WithJobs(NewSession(kKey), "b", 0, 1, 2);
  change = WithJobs(change, "c", 0, 1, 1);
  MustCommit(change);
  EXPECT_THAT(Claimed(kLease, 1), SizeIs(1));
  // As a Reset that forgets to cancel.
  change = Following(change, 0);
  change.row.block_generation = kBlocks + 1;
  MustCommit(change);
  EXPECT_THAT(Load(kKey)->blocks, IsEmpty());
  EXPECT_THAT(ListAll(kKey, kBlocks + 1), IsEmpty());
  EXPECT_THAT(Claimed(kOther, 100, /*take_over=*/true), IsEmpty());
  // Numbers begin anew under the new one.
  change = WithJobs(Following(change, 0), "b", 0, 1, 1);
  MustCommit(change);
  EXPECT_THAT(Load(kKey)->blocks, SizeIs(1));
  const std::vector<Job> jobs = Claim({kOther, kHour, 10, true});
  ASSERT_THAT(jobs, SizeIs(1));
  EXPECT_EQ(jobs[0].key, KeyOf(kKey, "b", 1, kBlocks + 1));
}

TEST_P(JobContractTest, AJobWithoutItsBlockIsNotClaimed) {
  SessionChange change = WithJobs(NewSession(kKey), "b", 0, 1, 1);
  change.blocks.clear();
  MustCommit(change);
  EXPECT_THAT(Load(kKey)->blocks, IsEmpty());
  EXPECT_THAT(Claimed(kLease, 100, /*take_over=*/true), IsEmpty());
}

TEST_P(JobContractTest, ADeletedSessionHasNone) {
  SessionChange change = WithJobs(NewSession(kKey, 3), "b", 0, 1, 600);
  change.entries = {{77, NewMessage(1)}, {77, NewMessage(2)}};
  MustCommit(change);
  const SessionChange other = WithJobs(NewSession({"tenant", "other"}, 3), "b", 0, 1, 2);
  const SessionChange tenant = WithJobs(NewSession({"t2", "session"}, 3), "b", 0, 1, 2);
  EXPECT_THAT(CommitAll({other, tenant}), ::testing::Each(CommitOutcome::kCommitted));
  change = Deleting(change, 1);
  change.garbage.push_back({kBlocks, 0, 0});
  change.garbage.push_back({77, 0, 3});
  MustCommit(change);
  EXPECT_THAT(Load(kKey)->blocks, IsEmpty());
  EXPECT_THAT(Claimed(kLease), ElementsAre("other b 1", "session b 1"));  // Of t2.

  // 3 messages, 600 jobs, a block and 2 entries, in steps that never take more than they may.
  std::int64_t purged = 0, rows = 0;
  do {
    rows = store().Purge({.now_us = 0, .keep_us = 0, .max_rows = 70}).value_or(0);
    EXPECT_LE(rows, 70);
    purged += rows;
  } while (rows == 70);
  EXPECT_GE(purged, 606);
  EXPECT_THAT(ListAll(kKey), IsEmpty());
  EXPECT_THAT(Positions(kKey, 77), IsEmpty());
  EXPECT_EQ(store().Purge({.now_us = 0, .keep_us = 0, .max_rows = 70}).value_or(-1), 0);
  for (const SessionKey& key : {other.key, tenant.key}) {
    EXPECT_THAT(ListAll(key), SizeIs(2));
    EXPECT_THAT(Load(key)->blocks, SizeIs(1));
  }
  // The block went too: a row of its generation finds nothing.
  SessionChange again = Following(change, 0);
  again.row.deleted = false;
  MustCommit(again);
  EXPECT_THAT(Load(kKey)->blocks, IsEmpty());
}

TEST_P(JobContractTest, LargeBlocksGoToo) {
  SessionChange change = NewSession(kKey);
  change.row.block_generation = kBlocks;
  for (int i = 0; i < 12; ++i) {
    BlockState& block = change.blocks.emplace_back();
    block.name = fmt::format("b{}", i);
    block.state = std::string(kMaxBlockState, 'b');
  }
  MustCommit(change);
  SessionChange reset = Following(change, 0);
  reset.row.block_generation = 0;
  reset.garbage = {{kBlocks, 0, 0}};
  MustCommit(reset);
  PurgeAll();
  reset = Following(reset, 0);
  reset.row.block_generation = kBlocks;
  MustCommit(reset);
  EXPECT_THAT(Load(kKey)->blocks, IsEmpty());
}

TEST_P(JobContractTest, JobsThatEndedGoByAgeAndOpenOnesNever) {
  SessionChange change = WithJobs(NewSession(kKey), "b", 0, 1, 4);
  MustCommit(change);
  for (std::int64_t number = 1; number <= 3; ++number) {
    change = Ending(change, "b", number, 5, static_cast<JobState>(number));
    change.row.update_us = 1000 * number;
    MustCommit(change);
  }
  // Those of before 2500.
  EXPECT_EQ(store().Purge({.now_us = 3000, .keep_us = 500, .max_rows = 1}).value_or(-1), 1);
  EXPECT_EQ(store().Purge({.now_us = 3000, .keep_us = 500, .max_rows = 10}).value_or(-1), 1);
  EXPECT_EQ(store().Purge({.now_us = 3000, .keep_us = 500, .max_rows = 10}).value_or(-1), 0);
  EXPECT_FALSE(Find(KeyOf(kKey, "b", 1)).has_value());
  EXPECT_FALSE(Find(KeyOf(kKey, "b", 2)).has_value());
  EXPECT_EQ(Find(KeyOf(kKey, "b", 3))->state, JobState::kCancelled);
  EXPECT_THAT(Load(kKey)->blocks, SizeIs(1));
  PurgeAll(10, std::numeric_limits<std::int64_t>::max() - 1);
  EXPECT_THAT(ListAll(kKey), SizeIs(1));
  EXPECT_THAT(Claimed(kLease), ElementsAre("session b 4"));
}

TEST_P(JobContractTest, TenantsWithOneSessionIdSeeTheirOwn) {
  const SessionKey keys[] = {{"t1", "s"}, {"t2", "s"}, {"t1", "s2"}};
  std::vector<SessionChange> changes;
  for (const SessionKey& key : keys) {
    changes.push_back(WithJobs(NewSession(key), "b", 0, 1, 2));
    changes.back().blocks[0].state = key.tenant + key.session;
    changes.back().entries = {{77, NewMessage(1, key.tenant + key.session)}};
    MustCommit(changes.back());
  }
  SessionChange ending = Ending(changes[0], "b", 1, 3);
  ending.ended_jobs.push_back({KeyOf(keys[1], "b", 2), JobState::kFailed, "", {}});
  ending.cancel_jobs_of = kBlocks;
  MustCommit(ending);
  for (const SessionKey& key : {keys[1], keys[2]}) {
    for (const Job& job : ListAll(key)) {
      EXPECT_EQ(job.state, JobState::kOpen);
      EXPECT_EQ(job.key.session, key);
    }
    EXPECT_EQ(Load(key)->blocks[0].state, key.tenant + key.session);
    EXPECT_EQ(Rows(key, 77).at(0)->ids->message_id, key.tenant + key.session);
  }
  EXPECT_EQ(Find(KeyOf(keys[0], "b", 1))->state, JobState::kDone);
  EXPECT_EQ(Find(KeyOf(keys[0], "b", 2))->state, JobState::kFailed);
  EXPECT_THAT(Claimed(kLease), ElementsAre("s b 1", "s2 b 1"));
  EXPECT_FALSE(Find(KeyOf({"t3", "s"}, "b", 1)).has_value());
  EXPECT_FALSE(Find(KeyOf({"t%", "s"}, "b", 1)).has_value());
  EXPECT_THAT(ListAll({"t3", "s"}), IsEmpty());
  EXPECT_THAT(ListAll({"t_", "s"}), IsEmpty());
  // Leases are by key as well.
  EXPECT_TRUE(
      store().ReleaseJob(kLease, KeyOf({"t3", "s"}, "b", 1), 0, "x", {}, /*begun=*/true).ok());
  EXPECT_EQ(Find(KeyOf(keys[1], "b", 1))->lease, kLease);
}

TEST_P(JobContractTest, ListsByBlockAndNumberInPages) {
  SessionChange change = NewSession(kKey);
  for (const std::string block : {"b", "B", "a"}) change = WithJobs(change, block, 0, 1, 12);
  MustCommit(change);
  change = Ending(change, "a", 1, 13, JobState::kFailed);
  MustCommit(change);
  std::vector<std::string> names;
  JobFilter filter = Filter(7);
  for (;;) {
    const std::vector<Job> page = List(kKey, filter);
    if (page.empty()) break;
    ASSERT_LE(page.size(), 7U);
    for (const Job& job : page)
      names.push_back(fmt::format("{}{:02}", job.key.block, job.key.number));
    filter.after_block = page.back().key.block;
    filter.after_number = page.back().key.number;
  }
  EXPECT_THAT(names, SizeIs(36));
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(names.front(), "B01");
  EXPECT_THAT(List(kKey, Filter(9, JobState::kFailed)), SizeIs(1));
  EXPECT_THAT(List(kKey, Filter(99, JobState::kOpen)), SizeIs(35));
  EXPECT_THAT(List(kKey, Filter(9, JobState::kDone)), IsEmpty());
  EXPECT_THAT(List(kKey, Filter(0)), IsEmpty());
  EXPECT_THAT(List(kKey, Filter(-1)), IsEmpty());
  EXPECT_THAT(ListAll(kKey, kBlocks + 1), IsEmpty());
}

TEST_P(JobContractTest, JobsAreCountedOverAllTenants) {
  EXPECT_EQ(Count().open, 0);
  EXPECT_EQ(Count().failed, 0);
  EXPECT_EQ(Count().oldest_open_us, 0);
  SessionChange change = WithJobs(NewSession({"t1", "s"}), "b", 0, 1, 3);
  MustCommit(change);
  const Job job = *Find(KeyOf(change.key, "b", 1));
  SessionChange other = WithJobs(NewSession({"t2", "s"}), "b", 0, 1, 1);
  other.jobs[0].create_us = job.due_us - kHour;
  MustCommit(other);
  MustCommit(Ending(change, "b", 1, 4, JobState::kFailed));
  EXPECT_EQ(Count().open, 3);
  EXPECT_EQ(Count().failed, 1);
  EXPECT_GE(Count().oldest_open_us, kHour);

  // Not from a clock that is ahead of the store's.
  const SessionKey ahead = {"t3", "s"};
  SessionChange future = WithJobs(NewSession(ahead), "b", 0, 1, 1);
  future.jobs[0].create_us = job.due_us + kHour;
  for (const SessionChange& done :
       {Ending(other, "b", 1, 2), Ending(Ending(change, "b", 1, 4), "b", 2, 4)}) {
    SessionChange cancelling = done;
    cancelling.expected_revision = Load(done.key)->row.revision;
    cancelling.row.revision = cancelling.expected_revision + 1;
    cancelling.cancel_jobs_of = kBlocks;
    MustCommit(cancelling);
  }
  MustCommit(future);
  EXPECT_EQ(Count().open, 1);
  EXPECT_EQ(Count().oldest_open_us, 0);
}

TEST_P(JobContractTest, ClaimersBesideEachOtherNeverGetTheSameJob) {
  constexpr int kThreads = 6;
  constexpr int kSessions = 40;
  constexpr int kRounds = 4;
  std::vector<SessionChange> changes;
  changes.reserve(kSessions);
  for (int i = 0; i < kSessions; ++i) {
    changes.push_back(WithJobs(NewSession({"tenant", fmt::format("{}", i)}), "b", 0, 1, kRounds));
  }
  EXPECT_THAT(CommitAll(changes), ::testing::Each(CommitOutcome::kCommitted));
  std::atomic<int> ended = 0;
  Mutex mutex;
  std::map<JobKey, int> runs;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      while (ended < kSessions * kRounds) {
        const auto jobs = store().ClaimJobs({static_cast<std::uint64_t>(i) + 1, kHour, 5, false});
        ASSERT_TRUE(jobs.ok()) << jobs.status();
        std::vector<SessionChange> ends;
        for (const Job& job : *jobs) {
          {
            const MutexLock lock(mutex);
            ++runs[job.key];
          }
          // Whoever holds a job of the one block is the only one to change the session.
          const auto loaded = store().LoadSession(job.key.session, kAllActive);
          ASSERT_TRUE(loaded.ok() && loaded->has_value()) << loaded.status();
          ASSERT_EQ((*loaded)->blocks.at(0).done + 1, job.key.number);
          SessionChange before;
          before.key = job.key.session;
          before.row = (*loaded)->row;
          ends.push_back(Ending(before, "b", job.key.number, kRounds + 1));
        }
        for (const CommitResult& result : store().Commit(ends)) {
          ASSERT_EQ(result.outcome, CommitOutcome::kCommitted) << result.status;
          ++ended;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(runs, SizeIs(kSessions * kRounds));
  for (const auto& [key, count] : runs) EXPECT_EQ(count, 1) << key.session.session;
  EXPECT_EQ(Count().open, 0);
}

// Every store call on a few sessions and blocks at random, beside a model of what they should hold.
// Random changes of the jobs of three sessions, and what shall be stored after each.
class JobHistoryTest : public JobContractTest {
 protected:
  struct Session {
    SessionChange last;
    std::map<std::string, BlockState> blocks;
    std::map<JobKey, Job> jobs;
  };
  // No delay is longer than ten minutes.
  static constexpr std::int64_t kLater = kHour / 10;

  int Below(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }

  void MakeSessions() {
    for (const SessionKey& key :
         {SessionKey{"t1", "s"}, SessionKey{"t1", "s2"}, SessionKey{"t2", "s"}}) {
      SessionChange change = NewSession(key);
      change.row.block_generation = ++generation_;
      MustCommit(change);
      sessions_[key].last = change;
    }
  }

  void Step(int step) {
    auto at = sessions_.begin();
    std::advance(at, Below(3));
    static constexpr const char* kNames[] = {"a", "b", "c"};
    const std::string name = kNames[Below(3)];
    switch (Below(8)) {
      case 0:
      case 1:
        return Flush(at->second, name);
      case 2:
      case 3:
        return EndFirst(at->first, at->second, name);
      case 4:
        return Reset(at->second);
      case 5:
        return ClaimAll();
      case 6:
        return GiveBack(at->second, step);
      default:
        return PurgeAll(1 + Below(20));
    }
  }

  void Flush(Session& session, const std::string& name) {
    BlockState block = session.blocks.contains(name) ? session.blocks[name] : BlockState();
    const int count = 1 + Below(3);
    SessionChange change =
        WithJobs(Following(session.last, Below(2)), name, block.done, block.next, count);
    if (Below(4) == 0) ++change.expected_revision;
    const bool lost = change.expected_revision != session.last.row.revision;
    EXPECT_EQ(CommitOne(change), lost ? CommitOutcome::kRevisionLost : CommitOutcome::kCommitted);
    if (lost) return;
    session.blocks[name] = change.blocks[0];
    for (const Job& job : change.jobs) session.jobs[job.key] = job;
    session.last = change;
  }

  // The first job of a block ends, held or not.
  void EndFirst(const SessionKey& key, Session& session, const std::string& name) {
    if (!session.blocks.contains(name)) return;
    BlockState& block = session.blocks[name];
    const auto job =
        session.jobs.find(KeyOf(key, name, block.done + 1, session.last.row.block_generation));
    if (job == session.jobs.end()) return;
    SessionChange change = Ending(session.last, name, block.done + 1, block.next,
                                  Below(3) == 0 ? JobState::kFailed : JobState::kDone);
    change.ended_jobs[0].usage = {1, Below(9), Below(9)};
    MustCommit(change);
    job->second.state = change.ended_jobs[0].state;
    job->second.usage += change.ended_jobs[0].usage;
    job->second.lease = 0;
    block = change.blocks[0];
    session.last = change;
  }

  // With or without cancelling.
  void Reset(Session& session) {
    if (Below(3) != 0) return;
    const std::uint64_t now = session.last.row.block_generation;
    SessionChange change = Following(session.last, 0);
    change.row.block_generation = ++generation_;
    if (Below(2) == 0) {
      change.cancel_jobs_of = now;
      for (auto& [key, job] : session.jobs) {
        if (key.generation != now || job.state != JobState::kOpen) continue;
        job.state = JobState::kCancelled;
        job.lease = 0;
      }
    }
    if (Below(2) == 0) {
      change.garbage = {{now, 0, 0}};
      std::erase_if(session.jobs, [&](const auto& job) { return job.first.generation == now; });
    }
    MustCommit(change);
    session.blocks.clear();
    session.last = change;
  }

  void ClaimAll() {
    const std::uint64_t lease = static_cast<std::uint64_t>(Below(2)) + 1;
    const bool take_over = Below(3) == 0;
    std::set<JobKey> expected;
    for (auto& [key, session] : sessions_) {
      for (auto& [job_key, job] : session.jobs) {
        if (!IsNext(session, job_key, job)) continue;
        if (job.lease != 0 && !(take_over && job.lease != lease)) continue;
        expected.insert(job_key);
        job.lease = lease;
        ++job.attempts;
      }
    }
    std::set<JobKey> claimed;
    for (const Job& job : Claim({lease, kHour, kMany, take_over})) claimed.insert(job.key);
    EXPECT_EQ(claimed, expected);
  }

  // Whether it is the turn of the job in its block, and its time.
  static bool IsNext(const Session& session, const JobKey& key, const Job& job) {
    const auto block = session.blocks.find(key.block);
    return key.generation == session.last.row.block_generation && block != session.blocks.end() &&
           block->second.done + 1 == key.number && job.state == JobState::kOpen && job.due_us == 0;
  }

  // For now or for later.
  void GiveBack(Session& session, int step) {
    if (session.jobs.empty()) return;
    auto at = session.jobs.begin();
    std::advance(at, Below(static_cast<int>(session.jobs.size())));
    auto& [key, job] = *at;
    const std::uint64_t lease = static_cast<std::uint64_t>(Below(2)) + 1;
    const bool later = Below(4) == 0;
    const std::string error = Below(2) == 0 ? "" : fmt::format("error {}", step);
    const bool begun = Below(2) == 0;
    const Usage usage = {1, 2, 3};
    ASSERT_TRUE(store().ReleaseJob(lease, key, later ? kLater : 0, error, usage, begun).ok());
    if (job.state != JobState::kOpen || job.lease != lease) return;
    job.lease = 0;
    job.usage += usage;
    if (later) job.due_us = kLater;
    if (!begun) --job.attempts;
    if (!error.empty()) job.last_error = error;
  }

  void ExpectStored() {
    std::int64_t open = 0;
    std::int64_t failed = 0;
    for (const auto& [key, expected] : sessions_) {
      std::vector<BlockState> blocks;
      blocks.reserve(expected.blocks.size());
      for (const auto& [name, block] : expected.blocks) blocks.push_back(block);
      ASSERT_EQ(Load(key)->blocks, blocks);
      for (const auto& [job_key, job] : expected.jobs) {
        const std::optional<Job> stored = Find(job_key);
        ASSERT_TRUE(stored.has_value());
        ASSERT_EQ(stored->state, job.state);
        ASSERT_EQ(stored->lease, job.lease);
        ASSERT_EQ(stored->attempts, job.attempts);
        ASSERT_EQ(stored->last_error, job.last_error);
        ASSERT_EQ(stored->usage, job.usage);
        open += job.state == JobState::kOpen ? 1 : 0;
        failed += job.state == JobState::kFailed ? 1 : 0;
      }
    }
    ASSERT_EQ(Count().open, open);
    ASSERT_EQ(Count().failed, failed);
  }

 private:
  std::mt19937 random_{20261122};
  std::uint64_t generation_ = 100;
  std::map<SessionKey, Session> sessions_;
};

TEST_P(JobHistoryTest, RandomHistoriesAgreeWithTheModel) {
  MakeSessions();
  for (int step = 0; step < 400; ++step) {
    SCOPED_TRACE(step);
    ASSERT_NO_FATAL_FAILURE(Step(step));
    PurgeAll(50);
    ASSERT_NO_FATAL_FAILURE(ExpectStored());
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, JobContractTest, ::testing::ValuesIn(AllStores()), StoreCaseName);
INSTANTIATE_TEST_SUITE_P(Stores, JobHistoryTest, ::testing::ValuesIn(AllStores()), StoreCaseName);

using JobDurabilityTest = JobContractTest;

TEST_P(JobDurabilityTest, AStoreOpenedAgainHoldsItsBlocksAndJobs) {
  const SessionChange change = WithJobs(NewSession(kKey, 1), "b", 0, 1, 2);
  MustCommit(change);
  EXPECT_THAT(Claimed(kLease), SizeIs(1));
  const std::vector<Job> jobs = ListAll(kKey);
  ASSERT_NO_FATAL_FAILURE(Reopen());
  EXPECT_EQ(Load(kKey)->blocks, change.blocks);
  EXPECT_EQ(ListAll(kKey), jobs);
  EXPECT_THAT(Claimed(kOther), IsEmpty());
  EXPECT_THAT(Claimed(kOther, 100, /*take_over=*/true), ElementsAre("session b 1"));
}

INSTANTIATE_TEST_SUITE_P(Stores, JobDurabilityTest, ::testing::ValuesIn(DurableStores()),
                         StoreCaseName);

}  // namespace
}  // namespace memoryd
