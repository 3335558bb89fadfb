#include "core/jobs/retry_policy.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/jobs/job_settings.h"
#include "core/model/job.h"

namespace memoryd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::int64_t kNow = 1'800'000'000 * kSecond;
constexpr std::uint64_t kNoRandom = 0;

JobSettings ThreeAttempts() {
  JobSettings settings;
  settings.max_attempts = 3;
  return settings;
}

Job JobOfAge(std::int64_t age_us, std::int64_t attempts = 1) {
  Job job;
  job.create_us = kNow - age_us;
  job.attempts = attempts;
  return job;
}

absl::Status Short() {
  return Error(absl::StatusCode::kResourceExhausted, "MEMORY_SHORT", "the job waits");
}

TEST(RetryPolicyTest, TriesUntilTheLastAttempt) {
  const RetryPolicy policy(ThreeAttempts());
  const absl::Status away = absl::UnavailableError("connection refused");
  EXPECT_EQ(policy.Judge({.attempts = 1}, away), Verdict::kTryAgain);
  EXPECT_EQ(policy.Judge({.attempts = 2}, away), Verdict::kTryAgain);
  EXPECT_EQ(policy.Judge({.attempts = 3}, away), Verdict::kGiveUp);
}

TEST(RetryPolicyTest, GivesUpAtOnceWhatWouldFailAgain) {
  const RetryPolicy policy(ThreeAttempts());
  EXPECT_EQ(policy.Judge({}, absl::InvalidArgumentError("no such model")), Verdict::kGiveUp);
  EXPECT_EQ(policy.Judge({}, Error(absl::StatusCode::kInternal, "ANSWER_CUT", "cut")),
            Verdict::kGiveUp);
  // Fewer entries are tried with each attempt.
  EXPECT_EQ(policy.Judge({.entries = 128, .embeds_anew = true},
                         absl::InvalidArgumentError("too long a text")),
            Verdict::kTryAgain);
}

TEST(RetryPolicyTest, NeverGivesUpEmbeddingsThatAreMadeAnew) {
  const RetryPolicy policy(ThreeAttempts());
  EXPECT_EQ(policy.Judge({.attempts = 100, .embeds_anew = true}, absl::UnavailableError("away")),
            Verdict::kTryAgain);
}

TEST(RetryPolicyTest, StoresTheOneEntryThatAModelRefusesWithoutAVector) {
  const RetryPolicy policy(ThreeAttempts());
  const FailedAttempt last{.attempts = 3, .entries = 1, .embeds_anew = true};
  for (const auto code : {absl::StatusCode::kInvalidArgument, absl::StatusCode::kOutOfRange,
                          absl::StatusCode::kFailedPrecondition}) {
    EXPECT_EQ(policy.Judge(last, absl::Status(code, "refused")), Verdict::kEndWithoutVector);
  }
  EXPECT_EQ(policy.Judge(last, absl::UnavailableError("away")), Verdict::kTryAgain);
  EXPECT_EQ(policy.Judge({.attempts = 3, .entries = 2, .embeds_anew = true},
                         absl::InvalidArgumentError("refused")),
            Verdict::kTryAgain);
  EXPECT_EQ(policy.Judge({.attempts = 2, .entries = 1, .embeds_anew = true},
                         absl::InvalidArgumentError("refused")),
            Verdict::kTryAgain);
}

TEST(RetryPolicyTest, WaitsForAWorkerOrABudgetEvenAfterTheLastAttempt) {
  const RetryPolicy policy(ThreeAttempts());
  const FailedAttempt last{.attempts = 3};
  EXPECT_EQ(
      policy.Judge(last, Error(absl::StatusCode::kUnavailable, "WORKER_ELSEWHERE", "elsewhere")),
      Verdict::kLeaveToOthers);
  EXPECT_EQ(
      policy.Judge(last, Error(absl::StatusCode::kResourceExhausted, "MODEL_BUDGET", "spent")),
      Verdict::kAwaitBudget);
}

TEST(RetryPolicyTest, TheDelayDoublesUpToTheLongestAndHalfOfItIsRandom) {
  JobSettings settings;
  settings.first_retry = seconds(1);
  settings.max_retry = seconds(6);
  const RetryPolicy policy(settings);
  const absl::Status away = absl::UnavailableError("away");
  const auto delay = [&](std::int64_t attempts, std::uint64_t random) {
    return policy.TryAgain(JobOfAge(0, attempts), away, random).delay;
  };
  EXPECT_EQ(delay(1, kNoRandom), milliseconds(500));
  EXPECT_EQ(delay(1, 500), milliseconds(1000));
  EXPECT_EQ(delay(1, 501), milliseconds(500));
  EXPECT_EQ(delay(2, 1000), milliseconds(2000));
  EXPECT_EQ(delay(3, 2000), milliseconds(4000));
  EXPECT_EQ(delay(4, 3000), milliseconds(6000));
  EXPECT_EQ(delay(std::numeric_limits<std::int64_t>::max(), 3000), milliseconds(6000));
}

TEST(RetryPolicyTest, WhatOnlyWaitsIsLookedAtLessAndLessOftenAndIsNoAttempt) {
  const RetryPolicy policy({});
  const absl::Status spent = Error(absl::StatusCode::kResourceExhausted, "MODEL_BUDGET", "spent");
  const auto budget = [&](std::int64_t age_us) {
    return policy.AwaitBudget(JobOfAge(age_us), spent, kNow).delay;
  };
  EXPECT_EQ(budget(0), seconds(2));
  EXPECT_EQ(budget(40 * kSecond), seconds(10));
  EXPECT_EQ(budget(3600 * kSecond), seconds(60));
  EXPECT_EQ(budget(-5 * kSecond), seconds(2));  // The clock was set back.
  EXPECT_EQ(policy.AwaitMemory(JobOfAge(0), Short(), kNow, 500).delay, seconds(1));
  EXPECT_EQ(policy.AwaitMemory(JobOfAge(3600 * kSecond), Short(), kNow, kNoRandom).delay,
            seconds(5));
  EXPECT_EQ(RetryPolicy::LeaveToOthers(JobOfAge(0), spent, kNow).delay, seconds(2));
  EXPECT_EQ(RetryPolicy::LeaveToOthers(JobOfAge(3600 * kSecond), spent, kNow).delay, seconds(30));

  EXPECT_FALSE(policy.AwaitBudget(JobOfAge(0), spent, kNow).begun);
  EXPECT_FALSE(policy.AwaitMemory(JobOfAge(0), Short(), kNow, 0).begun);
  EXPECT_FALSE(RetryPolicy::LeaveToOthers(JobOfAge(0), spent, kNow).begun);
  EXPECT_TRUE(policy.TryAgain(JobOfAge(0), spent, 0).begun);
}

TEST(RetryPolicyTest, TellsWhyInAtMostAKibibyteCutBetweenCharacters) {
  const RetryPolicy policy({});
  EXPECT_EQ(JobErrorText(absl::UnavailableError("away")), "UNAVAILABLE: away");
  EXPECT_EQ(policy.AwaitMemory(JobOfAge(0), Short(), kNow, 0).stored_error,
            "MEMORY_SHORT: the job waits");
  // Two bytes each, and the last one would be cut: "INTERNAL: " has ten.
  std::string text = "x";
  for (int i = 0; i < 1000; ++i) text += "ä";
  const std::string cut = JobErrorText(absl::InternalError(text));
  EXPECT_EQ(cut.size(), 1023U);
  EXPECT_TRUE(cut.ends_with("ä"));
  // What was not tried here leaves no error in the store.
  const JobRelease elsewhere =
      RetryPolicy::LeaveToOthers(JobOfAge(0), absl::UnavailableError("elsewhere"), kNow);
  EXPECT_EQ(elsewhere.stored_error, "");
  EXPECT_EQ(elsewhere.shown_error, "UNAVAILABLE: elsewhere");
}

}  // namespace
}  // namespace memoryd
