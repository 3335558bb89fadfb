#include "core/jobs/job_claimer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/calls/engine_stats.h"
#include "core/model/job.h"
#include "core/storage/store.h"
#include "tests/support/fake_clock.h"
#include "tests/support/faulty_store.h"
#include "tests/support/memory_store.h"

namespace memoryd {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t kLease = 7;

Job JobOf(const std::string& tenant, std::int64_t number) {
  Job job;
  job.key = {{tenant, "s"}, /*generation=*/1, "block", number};
  return job;
}

// Has the jobs it is given, and notes what is asked of it.
class JobStore final : public FaultyStore {
 public:
  explicit JobStore(Store* store) : FaultyStore(store) {}

  struct Released {
    JobKey job;
    std::int64_t delay_us = 0;
    bool begun = true;
  };

  absl::StatusOr<std::vector<Job>> ClaimJobs(const ClaimRequest& request) override {
    requests.push_back(request);
    if (!status.ok()) return status;
    std::vector<Job> claimed;
    std::vector<Job> left;
    for (Job& job : open) {
      const bool is_claimed = std::ssize(claimed) < request.max_jobs && !request.skip(job.key);
      (is_claimed ? claimed : left).push_back(std::move(job));
    }
    open = std::move(left);
    return claimed;
  }
  absl::Status RenewJobs(std::uint64_t lease, std::span<const JobKey> jobs,
                         std::int64_t lease_us) override {
    EXPECT_EQ(lease, kLease);
    EXPECT_EQ(lease_us, 30'000'000);
    renewed.assign(jobs.begin(), jobs.end());
    return absl::OkStatus();
  }
  absl::Status ReleaseJob(std::uint64_t lease, const JobKey& job, std::int64_t delay_us,
                          std::string_view, const Usage&, bool begun) override {
    EXPECT_EQ(lease, kLease);
    released.push_back({job, delay_us, begun});
    return absl::OkStatus();
  }

  absl::Status status;
  std::vector<Job> open;
  std::vector<ClaimRequest> requests;
  std::vector<JobKey> renewed;
  std::vector<Released> released;
};

class Jobs final : public JobClaimer::Holder {
 public:
  std::vector<JobKey> Held() override { return {keys.begin(), keys.end()}; }
  std::size_t held() override { return keys.size(); }
  std::int64_t HeldOf(const std::string& tenant) override {
    return std::ranges::count(keys, tenant, [](const JobKey& key) { return key.session.tenant; });
  }
  void Take(Job job) override { keys.insert(job.key); }
  void Clean() override {}

  std::set<JobKey> keys;
};

class JobClaimerTest : public ::testing::Test {
 protected:
  JobClaimer Make(bool take_over = false) {
    JobClaimer::Options options;
    options.store = &store_;
    options.stats = &stats_;
    options.random = &random_;
    options.settings.limits = {.max_running = 3, .max_running_of_tenant = 2};
    options.settings.poll_interval = milliseconds(1000);
    options.lease = kLease;
    options.take_over = take_over;
    return JobClaimer(std::move(options), &jobs_);
  }
  std::vector<std::int64_t> Taken() const {
    std::vector<std::int64_t> numbers;
    for (const JobKey& key : jobs_.keys) numbers.push_back(key.number);
    return numbers;
  }

  std::unique_ptr<Store> real_ = *OpenMemoryStore();
  JobStore store_{real_.get()};
  FakeRandom random_{[] { return std::uint64_t{0}; }};
  EngineStats stats_;
  Jobs jobs_;
};

TEST_F(JobClaimerTest, ClaimsOnlyWhatCanBeBegunSoon) {
  store_.open = {JobOf("a", 1), JobOf("b", 2), JobOf("c", 3)};
  jobs_.keys = {JobOf("d", 4).key};
  JobClaimer claimer = Make();
  claimer.Claim();
  ASSERT_EQ(store_.requests.size(), 1U);
  EXPECT_EQ(store_.requests[0].max_jobs, 2);
  EXPECT_EQ(store_.requests[0].lease, kLease);
  EXPECT_THAT(Taken(), ElementsAre(1, 2, 4));
  claimer.Claim();
  EXPECT_EQ(store_.requests.size(), 1U) << "a full server does not ask";
}

TEST_F(JobClaimerTest, GivesBackWhatATenantHasNoRoomFor) {
  store_.open = {JobOf("a", 1), JobOf("a", 2), JobOf("a", 3)};
  Make().Claim();
  EXPECT_THAT(Taken(), ElementsAre(1, 2));
  ASSERT_EQ(store_.released.size(), 1U);
  EXPECT_EQ(store_.released[0].job.number, 3);
  EXPECT_EQ(store_.released[0].delay_us, 1'000'000);
  EXPECT_FALSE(store_.released[0].begun);
}

TEST_F(JobClaimerTest, LeavesAJobToOthersUntilItsTimeOrUntilAWorkerAttaches) {
  store_.open = {JobOf("a", 1), JobOf("b", 2)};
  JobClaimer claimer = Make();
  EXPECT_TRUE(claimer.LeaveToOthers(store_.open[0].key, std::chrono::hours(1)));
  EXPECT_TRUE(claimer.LeaveToOthers(store_.open[1].key, milliseconds(0)));
  claimer.Claim();
  EXPECT_THAT(Taken(), ElementsAre(2));
  claimer.WorkerAttached();
  claimer.Claim();
  EXPECT_THAT(Taken(), ElementsAre(1, 2));
}

TEST_F(JobClaimerTest, LeavesNoMoreJobsToOthersThanAStoreCanSkip) {
  JobClaimer claimer = Make();
  for (std::int64_t i = 0; i < kMaxSkippedJobs; ++i) {
    EXPECT_TRUE(claimer.LeaveToOthers(JobOf("a", i).key, std::chrono::hours(1)));
  }
  EXPECT_FALSE(claimer.LeaveToOthers(JobOf("a", kMaxSkippedJobs).key, std::chrono::hours(1)));
}

TEST_F(JobClaimerTest, TakesOverUntilFewerAreFoundThanAskedFor) {
  store_.open = {JobOf("a", 1), JobOf("b", 2), JobOf("c", 3), JobOf("d", 4)};
  JobClaimer claimer = Make(/*take_over=*/true);
  claimer.Claim();
  jobs_.keys.clear();
  claimer.Claim();
  jobs_.keys.clear();
  claimer.Claim();
  ASSERT_EQ(store_.requests.size(), 3U);
  EXPECT_TRUE(store_.requests[0].take_over);
  EXPECT_TRUE(store_.requests[1].take_over);
  EXPECT_FALSE(store_.requests[2].take_over);
}

TEST_F(JobClaimerTest, StillTakesOverWhenTheStoreWasAway) {
  store_.status = absl::UnavailableError("away");
  JobClaimer claimer = Make(/*take_over=*/true);
  claimer.Claim();
  store_.status = absl::OkStatus();
  claimer.Claim();
  EXPECT_TRUE(store_.requests[1].take_over);
}

TEST_F(JobClaimerTest, RenewsTheLeasesOfWhatIsHeld) {
  JobClaimer claimer = Make();
  claimer.Renew();
  EXPECT_THAT(store_.renewed, IsEmpty());
  jobs_.keys = {JobOf("a", 1).key, JobOf("b", 2).key};
  claimer.Renew();
  EXPECT_THAT(store_.renewed, ElementsAre(JobOf("a", 1).key, JobOf("b", 2).key));
}

}  // namespace
}  // namespace memoryd
