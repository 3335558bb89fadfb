#include "server/rpc/subject_gate.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "core/sessions/session_errors.h"
#include "server/wire/field_checks.h"

namespace memoryd {
namespace {

SessionOwner Of(const char* subject, std::uint64_t generation, std::int64_t revision) {
  return {true, subject, generation, revision};
}
SessionOwner None(std::uint64_t generation = 0, std::int64_t revision = 0) {
  return {false, "", generation, revision};
}

TEST(SubjectGateTest, NoSessionHasTheIdThatStandsForUnknown) {
  EXPECT_TRUE(CheckSessionId(kNobodysSession).ok());
  EXPECT_FALSE(CheckNewName("session_id", kNobodysSession).ok());
}

TEST(SubjectGateTest, NothingChangedMeanwhile) {
  EXPECT_TRUE(WasOf("ann", Of("ann", 7, 3), Of("ann", 7, 3)));
  EXPECT_TRUE(WasOf("ann", None(), None()));
  EXPECT_TRUE(WasOf("ann", None(7, 4), None(7, 4)));
}

TEST(SubjectGateTest, WritesToHisOwnMeanwhileDoNoHarm) {
  EXPECT_TRUE(WasOf("ann", Of("ann", 7, 3), Of("ann", 7, 9)));
}

TEST(SubjectGateTest, WhatMayHaveBeenAnothersMeanwhileIsNotAnswered) {
  EXPECT_FALSE(WasOf("ann", Of("ann", 7, 3), Of("bob", 7, 4)));
  EXPECT_FALSE(WasOf("ann", Of("ann", 7, 3), Of("", 7, 4)));
  EXPECT_FALSE(WasOf("ann", None(), Of("bob", 8, 1)));
  // Made and deleted again.
  EXPECT_FALSE(WasOf("ann", None(), None(8, 2)));
  EXPECT_FALSE(WasOf("ann", None(8, 2), None(8, 4)));
  // Another's between, perhaps.
  EXPECT_FALSE(WasOf("ann", Of("ann", 7, 3), Of("ann", 9, 8)));
  EXPECT_FALSE(WasOf("ann", None(), Of("ann", 9, 8)));
  EXPECT_FALSE(WasOf("ann", Of("ann", 7, 3), None(7, 8)));
}

}  // namespace
}  // namespace memoryd
