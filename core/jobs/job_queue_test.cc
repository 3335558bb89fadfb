#include "core/jobs/job_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/blocks/embedding_state.h"
#include "core/model/job.h"
#include "core/model/session.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

SessionKey Session(const std::string& tenant, const std::string& id) { return {tenant, id}; }

Job MakeJob(const SessionKey& session, const std::string& block, std::int64_t number) {
  Job job;
  job.key = {session, /*generation=*/1, block, number};
  return job;
}

// Its name and number; empty for none.
std::string Name(const std::optional<Job>& job) {
  return job.has_value() ? job->key.session.session + "/" + job->key.block + "/" +
                               std::to_string(job->key.number)
                         : "";
}

TEST(JobQueueTest, RunsTheJobsOfABlockOneByOneInTheOrderMade) {
  JobQueue queue({});
  const SessionKey session = Session("t", "s");
  queue.Hold(session, {MakeJob(session, "a", 1), MakeJob(session, "a", 2)}, false);
  const std::optional<Job> first = queue.TakeNext();
  EXPECT_EQ(Name(first), "s/a/1");
  EXPECT_EQ(queue.TakeNext(), std::nullopt);
  queue.Leave(first->key);
  EXPECT_EQ(Name(queue.TakeNext()), "s/a/2");
}

TEST(JobQueueTest, RunsBlocksOfASessionBesideEachOtherUnlessInOrder) {
  for (const bool in_order : {false, true}) {
    JobQueue queue({});
    const SessionKey session = Session("t", "s");
    queue.Hold(session,
               {MakeJob(session, "a", 1), MakeJob(session, "b", 1),
                MakeJob(session, std::string(kRetrievalBlock), 1)},
               in_order);
    const std::optional<Job> first = queue.TakeNext();
    EXPECT_EQ(Name(first), "s/a/1");
    if (!in_order) {
      EXPECT_EQ(Name(queue.TakeNext()), "s/b/1");
    }
    EXPECT_EQ(Name(queue.TakeNext()), "s/.retrieval/1");
    EXPECT_EQ(queue.TakeNext(), std::nullopt);
    queue.Leave(first->key);
    EXPECT_EQ(Name(queue.TakeNext()), in_order ? "s/b/1" : "");
  }
}

TEST(JobQueueTest, SessionsTakeTurns) {
  JobQueue queue({});
  for (const char* id : {"one", "two"}) {
    const SessionKey session = Session("t", id);
    queue.Hold(session, {MakeJob(session, "a", 1), MakeJob(session, "b", 1)}, false);
  }
  std::vector<std::string> order;
  while (const std::optional<Job> job = queue.TakeNext()) order.push_back(Name(job));
  EXPECT_THAT(order, ElementsAre("one/a/1", "two/a/1", "one/b/1", "two/b/1"));
}

TEST(JobQueueTest, ATenantThatHasItsShareLetsOthersBy) {
  JobQueue queue({.max_running = 3, .max_running_of_tenant = 2});
  for (const char* id : {"1", "2", "3"}) {
    queue.Hold(Session("many", id), {MakeJob(Session("many", id), "a", 1)}, false);
  }
  queue.Hold(Session("few", "4"), {MakeJob(Session("few", "4"), "a", 1)}, false);
  const std::optional<Job> first = queue.TakeNext();
  EXPECT_EQ(Name(queue.TakeNext()), "2/a/1");
  EXPECT_EQ(Name(queue.TakeNext()), "4/a/1");
  EXPECT_EQ(queue.TakeNext(), std::nullopt);
  queue.Leave(first->key);
  EXPECT_EQ(Name(queue.TakeNext()), "3/a/1");
}

TEST(JobQueueTest, EmbeddingTakesHalfOfTheRoomAndAtLeastOne) {
  for (const int room : {1, 2, 5}) {
    JobQueue queue({.max_running = room, .max_running_of_tenant = room});
    for (int i = 0; i < 8; ++i) {
      const SessionKey session = Session("t", std::to_string(i));
      queue.Hold(session, {MakeJob(session, std::string(kRetrievalBlock), 1)}, false);
    }
    int taken = 0;
    while (queue.TakeNext().has_value()) ++taken;
    EXPECT_EQ(taken, std::max(1, room / 2)) << room;
  }
}

TEST(JobQueueTest, HoldsAJobOnceAndAgainOnlyAfterUnhold) {
  JobQueue queue({});
  const SessionKey session = Session("t", "s");
  const Job job = MakeJob(session, "a", 1);
  queue.Hold(session, {job}, false);
  queue.Hold(session, {job}, false);
  EXPECT_EQ(queue.HeldOf("t"), 1);
  ASSERT_EQ(Name(queue.TakeNext()), "s/a/1");
  // Given back, and claimed again before its attempt is over.
  queue.Unhold(job.key);
  EXPECT_EQ(queue.HeldOf("t"), 0);
  queue.Hold(session, {job}, false);
  EXPECT_EQ(queue.TakeNext(), std::nullopt);
  queue.Leave(job.key);
  EXPECT_EQ(Name(queue.TakeNext()), "s/a/1");
  EXPECT_EQ(queue.TakeNext(), std::nullopt);
}

TEST(JobQueueTest, HandsOutNothingOnceClosed) {
  JobQueue queue({});
  const SessionKey session = Session("t", "s");
  queue.Hold(session, {MakeJob(session, "a", 1), MakeJob(session, "b", 1)}, false);
  const std::optional<Job> running = queue.TakeNext();
  EXPECT_THAT(queue.Close(),
              ElementsAre(MakeJob(session, "a", 1).key, MakeJob(session, "b", 1).key));
  EXPECT_THAT(queue.held(), IsEmpty());
  queue.Leave(running->key);
  EXPECT_EQ(queue.TakeNext(), std::nullopt);
}

// A queue beside plain lists of what waits and what runs. What the queue does is checked against
// the rules of its header, each looked up in those lists.
class JobQueuePropertyTest : public ::testing::TestWithParam<unsigned> {
 protected:
  struct Held {
    Job job;
    bool in_order = false;
    int passed_over = 0;  // Jobs of other sessions taken since it could have been taken.
  };

  std::uint64_t Pick(std::uint64_t below) { return generator_() % below; }

  static bool Embeds(const Job& job) { return job.key.block == kRetrievalBlock; }

  int CountRunning(const std::string* tenant, bool embedding) const {
    return static_cast<int>(std::count_if(running_.begin(), running_.end(), [&](const Held& held) {
      return (tenant == nullptr || held.job.key.session.tenant == *tenant) &&
             (!embedding || Embeds(held.job));
    }));
  }

  bool HasRoom(const Job& job) const {
    const std::string& tenant = job.key.session.tenant;
    if (CountRunning(nullptr, false) >= limits_.max_running) return false;
    if (CountRunning(&tenant, false) >= limits_.max_running_of_tenant) return false;
    return !Embeds(job) ||
           (CountRunning(nullptr, true) < std::max(1, limits_.max_running / 2) &&
            CountRunning(&tenant, true) < std::max(1, limits_.max_running_of_tenant / 2));
  }

  // Whether the job at `index` of waiting_ may run, room or not.
  bool IsNext(std::size_t index) const {
    const Held& held = waiting_[index];
    const JobKey& key = held.job.key;
    for (const Held& other : running_) {
      if (other.job.key.session != key.session) continue;
      if (other.job.key.block == key.block) return false;
      if (in_order_.at(key.session) && !Embeds(held.job) && !Embeds(other.job)) return false;
    }
    return std::none_of(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(index),
                        [&key](const Held& other) {
                          return other.job.key.session == key.session &&
                                 other.job.key.block == key.block;
                        });
  }

  void Hold() {
    const SessionKey session =
        Session("tenant-" + std::to_string(Pick(3)), "session-" + std::to_string(Pick(4)));
    const bool in_order = Pick(3) == 0;
    in_order_[session] = in_order;
    std::vector<Job> jobs;
    for (std::uint64_t i = Pick(4); i > 0; --i) {
      static constexpr std::string_view kBlocks[] = {"a", "b", kRetrievalBlock};
      const std::string block(kBlocks[Pick(3)]);
      jobs.push_back(MakeJob(session, block, ++numbers_[{session, block}]));
      waiting_.push_back({jobs.back()});
    }
    queue_.Hold(session, std::move(jobs), in_order);
  }

  void Take() {
    const std::optional<Job> job = queue_.TakeNext();
    if (!job.has_value()) {
      // It is never idle while something may run.
      for (std::size_t i = 0; i < waiting_.size(); ++i) {
        EXPECT_FALSE(IsNext(i) && HasRoom(waiting_[i].job)) << Name(waiting_[i].job);
      }
      return;
    }
    const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                    [&job](const Held& held) { return held.job == *job; });
    ASSERT_NE(found, waiting_.end()) << Name(job);
    EXPECT_TRUE(IsNext(static_cast<std::size_t>(found - waiting_.begin()))) << Name(job);
    EXPECT_TRUE(HasRoom(*job)) << Name(job);
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      Held& held = waiting_[i];
      if (held.job.key.session == job->key.session || !IsNext(i) || !HasRoom(held.job)) {
        held.passed_over = 0;
      } else {
        // No session waits for more than one turn of each other.
        EXPECT_LT(++held.passed_over, 3 * 4) << Name(held.job);
      }
    }
    running_.push_back(*found);
    waiting_.erase(found);
  }

  void Leave() {
    if (running_.empty()) return;
    const auto held = running_.begin() + static_cast<std::ptrdiff_t>(Pick(running_.size()));
    queue_.Unhold(held->job.key);
    queue_.Leave(held->job.key);
    running_.erase(held);
  }

  std::minstd_rand generator_{GetParam()};
  const JobQueue::Limits limits_{.max_running = 1 + static_cast<int>(Pick(6)),
                                 .max_running_of_tenant = 1 + static_cast<int>(Pick(4))};
  JobQueue queue_{limits_};
  std::vector<Held> waiting_;  // In the order made.
  std::vector<Held> running_;
  std::map<SessionKey, bool> in_order_;
  std::map<std::pair<SessionKey, std::string>, std::int64_t> numbers_;
};

TEST_P(JobQueuePropertyTest, KeepsItsRules) {
  for (int step = 0; step < 2000 && !HasFailure(); ++step) {
    switch (Pick(waiting_.size() < 60 ? 4 : 3)) {
      case 0:
      case 1:
        Take();
        break;
      case 2:
        Leave();
        break;
      default:
        Hold();
    }
    EXPECT_EQ(queue_.held().size(), waiting_.size() + running_.size());
  }
  while (!HasFailure() && (!waiting_.empty() || !running_.empty())) {
    Take();
    Leave();
  }
  EXPECT_THAT(queue_.held(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Seeds, JobQueuePropertyTest, ::testing::Range(1U, 41U));

}  // namespace
}  // namespace memoryd
