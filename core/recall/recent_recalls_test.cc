#include "core/recall/recent_recalls.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "core/model/session.h"
#include "core/recall/update_context.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Recalled = RecentRecalls::Recalled;

const SessionKey kKey{"tenant", "session"};
constexpr std::int64_t kHour = RecentRecalls::kKeptForUs;

TEST(RecentRecallsTest, TheSameQuestionFindsWhatWasKept) {
  RecentRecalls recent;
  const Question question{"what?", 3, "before"};
  EXPECT_FALSE(recent.Find(kKey, 7, question, 0).has_value());
  recent.Keep(kKey, 7, question, 0, {{4, 1.0}, {9, 0.5}});
  const auto found = recent.Find(kKey, 7, question, 1);
  ASSERT_TRUE(found.has_value());
  EXPECT_THAT(*found, ElementsAre(Recalled{4, 1.0}, Recalled{9, 0.5}));
  recent.Keep(kKey, 7, question, 2, {});
  EXPECT_THAT(recent.Find(kKey, 7, question, 3).value(), IsEmpty()) << "nothing is kept as well";
  EXPECT_EQ(recent.size(), 1U);
}

TEST(RecentRecallsTest, AnotherQuestionFindsNothing) {
  RecentRecalls recent;
  const Question question{"what?", 3, "before"};
  recent.Keep(kKey, 7, question, 0, {{4, 1.0}});
  const auto finds = [&recent](const SessionKey& key, std::uint64_t generation,
                               const Question& asked) {
    return recent.Find(key, generation, asked, 1).has_value();
  };
  EXPECT_FALSE(finds(kKey, 7, {"what", 3, "before"}));
  EXPECT_FALSE(finds(kKey, 7, {"what?", 4, "before"})) << "said again";
  EXPECT_FALSE(finds(kKey, 7, {"what?", 3, "something else"}));
  EXPECT_FALSE(finds(kKey, 8, question)) << "the session was reset";
  EXPECT_FALSE(finds({"tenant", "other"}, 7, question));
  EXPECT_FALSE(finds({"other", "session"}, 7, question));
  EXPECT_FALSE(finds({"tenantsession", ""}, 7, question));
  EXPECT_TRUE(finds(kKey, 7, question));
}

TEST(RecentRecallsTest, AContextThatIsCutHasTheSameQuestion) {
  RecentRecalls recent;
  recent.Keep(kKey, 7, {"what?", 5, "before"}, 0, {{4, 1.0}});
  EXPECT_TRUE(recent.Find(kKey, 7, {"what?", 3, "before"}, 1).has_value());
  EXPECT_TRUE(recent.Find(kKey, 7, {"what?", 1, ""}, 1).has_value());
  EXPECT_FALSE(recent.Find(kKey, 7, {"what?", 2, "before"}, 1).has_value()) << "more than the last";
}

TEST(RecentRecallsTest, AnHourAfterTheLastUseItIsGone) {
  RecentRecalls recent;
  const Question question{"what?", 1, ""};
  recent.Keep(kKey, 7, question, 0, {{4, 1.0}});
  EXPECT_TRUE(recent.Find(kKey, 7, question, kHour).has_value());
  EXPECT_TRUE(recent.Find(kKey, 7, question, 2 * kHour).has_value());
  EXPECT_FALSE(recent.Find(kKey, 7, question, 3 * kHour + 1).has_value());
}

TEST(RecentRecallsTest, TheLeastRecentlyUsedGoesFirst) {
  RecentRecalls recent;
  const auto question = [](std::size_t number) {
    return Question{fmt::format("question {}", number), 1, ""};
  };
  for (std::size_t i = 0; i < RecentRecalls::kMaxQuestions; ++i) {
    recent.Keep(kKey, 7, question(i), 0, {{static_cast<std::int64_t>(i), 1.0}});
  }
  EXPECT_TRUE(recent.Find(kKey, 7, question(0), 1).has_value());
  recent.Keep(kKey, 7, {"one more", 1, ""}, 2, {});
  EXPECT_EQ(recent.size(), RecentRecalls::kMaxQuestions);
  EXPECT_TRUE(recent.Find(kKey, 7, question(0), 3).has_value());
  EXPECT_FALSE(recent.Find(kKey, 7, question(1), 3).has_value());
  EXPECT_TRUE(recent.Find(kKey, 7, question(2), 3).has_value());
}

}  // namespace
}  // namespace memoryd
