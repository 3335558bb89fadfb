#include "core/calls/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace memoryd {
namespace {

using Outcome = Admission::Outcome;

class AdmissionTest : public ::testing::Test {
 protected:
  Outcome Enter(const std::string& tenant, std::int64_t bytes = 0, bool forced = false) {
    Admission::Place place;
    const Outcome outcome = admission_.Enter(tenant, bytes, forced, place);
    if (outcome == Outcome::kAdmitted) places_.push_back(std::move(place));
    return outcome;
  }

  std::atomic<int> idle_{0};
  Admission admission_{8, 800, [this] { ++idle_; }};
  std::vector<Admission::Place> places_;
};

TEST_F(AdmissionTest, ATenantAloneMayHaveAllCallsAndNotOneMore) {
  for (int i = 0; i < 8; ++i) EXPECT_EQ(Enter("a"), Outcome::kAdmitted);
  EXPECT_EQ(Enter("a"), Outcome::kTooManyCalls);
  EXPECT_EQ(admission_.calls(), 8);
  places_.pop_back();
  EXPECT_EQ(Enter("a"), Outcome::kAdmitted);
}

TEST_F(AdmissionTest, WhoFillsTheCallsShutsNobodyOut) {
  for (int i = 0; i < 8; ++i) EXPECT_EQ(Enter("a"), Outcome::kAdmitted);
  EXPECT_EQ(Enter("b"), Outcome::kAdmitted);
  EXPECT_EQ(Enter("a"), Outcome::kTooManyCalls);
  EXPECT_EQ(Enter("b"), Outcome::kAdmitted);
  EXPECT_EQ(Enter("b"), Outcome::kTooManyCalls) << "within its share of 4, but above 5/4 in all";
}

TEST_F(AdmissionTest, WhoFillsTheBytesShutsNobodyOut) {
  EXPECT_EQ(Enter("a", 700), Outcome::kAdmitted);
  EXPECT_EQ(Enter("a", 101), Outcome::kTooManyBytes);
  EXPECT_EQ(Enter("b", 200), Outcome::kAdmitted);
  EXPECT_EQ(Enter("b", 201), Outcome::kTooManyBytes) << "above 5/4 in all";
  EXPECT_EQ(Enter("a", 1), Outcome::kTooManyBytes);
  EXPECT_EQ(admission_.bytes(), 900);
}

TEST_F(AdmissionTest, WhatIsForcedCountsAndIsNotRefused) {
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Enter("a", 100, /*forced=*/true), Outcome::kAdmitted);
  EXPECT_EQ(admission_.calls(), 20);
  EXPECT_EQ(admission_.bytes(), 2000);
  EXPECT_EQ(Enter("a"), Outcome::kTooManyCalls);
}

TEST_F(AdmissionTest, NothingStaysCounted) {
  Enter("a", 100);
  Enter("b", 200);
  Enter("a", 5000);
  EXPECT_EQ(idle_, 0);
  places_.clear();
  EXPECT_EQ(idle_, 1);
  EXPECT_EQ(admission_.calls(), 0);
  EXPECT_EQ(admission_.bytes(), 0);
  EXPECT_EQ(Enter("a", 800), Outcome::kAdmitted) << "alone again";
}

TEST_F(AdmissionTest, ManyTenantsOnManyThreadsLeaveNothingBehind) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this, thread] {
      for (int i = 0; i < 5000; ++i) {
        Admission::Place place;
        admission_.Enter(std::to_string((i * 7 + thread) % 3000), 10, i % 5 == 0, place);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(admission_.calls(), 0);
  EXPECT_EQ(admission_.bytes(), 0);
  EXPECT_EQ(Enter("a", 800), Outcome::kAdmitted);
  EXPECT_EQ(Enter("b", 201), Outcome::kTooManyBytes);
  EXPECT_EQ(Enter("b", 200), Outcome::kAdmitted) << "two tenants have calls, no more";
}

}  // namespace
}  // namespace memoryd
