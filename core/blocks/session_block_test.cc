
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/blocks/block.h"
#include "core/blocks/block_kinds.h"
#include "core/blocks/block_traits.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "tests/support/block_fixture.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SessionBlockTest : public testing::Test, protected BlockFixture {
 protected:
  static BlockMessage HandedOn(std::string text) {
    BlockMessage message = Text("user", std::move(text));
    message.parts.source_session_id = "another";
    return message;
  }
  static BlockSettings Settings(std::string options) {
    BlockSettings settings;
    settings.name = "block";
    settings.kind = "session";
    settings.options_json = std::move(options);
    return settings;
  }
  std::string Refused(std::string options) {
    const auto made = TryMake(Settings(std::move(options)), Profile::kDefault);
    EXPECT_TRUE(absl::IsInvalidArgument(made.status()));
    return std::string(made.status().message());
  }
};

TEST_F(SessionBlockTest, AsksTheOtherSessionOfItsTenant) {
  Make("session", R"({"session_id":"user:42"})");
  other_sessions.said.parts.emplace_back().text = "Likes tea.";
  EXPECT_EQ(Said({Text("user", "hi")}), "Likes tea.");
  ASSERT_TRUE(Feed({Text("user", "a"), Text("assistant", "b")}).ok());
  EXPECT_THAT(other_sessions.taken, ElementsAre("m1", "m2"));
  const SessionKey other{"tenant", "user:42"};
  EXPECT_THAT(other_sessions.asked, ElementsAre(other, other));
}

TEST_F(SessionBlockTest, HandsOnNothingThatWasHandedOn) {
  Make("session", R"({"session_id":"other"})");
  ASSERT_TRUE(Feed({HandedOn("a"), Text("user", "b"), HandedOn("c")}).ok());
  EXPECT_THAT(other_sessions.taken, ElementsAre("m2"));
  ASSERT_TRUE(Feed({HandedOn("d")}).ok());
  EXPECT_EQ(other_sessions.asked.size(), 1U);
}

TEST_F(SessionBlockTest, OfItsOwnSessionItSaysNothing) {
  Make("session", R"({"session_id":"session-1"})");
  ASSERT_TRUE(Feed({Text("user", "a")}).ok());
  EXPECT_EQ(Said(), "");
  EXPECT_THAT(other_sessions.asked, IsEmpty());
}

TEST_F(SessionBlockTest, LeavesOutTheLowestRanksFirst) {
  Make("session", R"({"session_id":"other"})");
  BlockContent content;
  for (const std::int64_t rank : {2, 0, 1}) {
    BlockPart& part = content.parts.emplace_back();
    part.text = "one two";
    part.rank = rank;
  }
  const BlockContent rest = Truncate(content, 3);
  ASSERT_EQ(rest.parts.size(), 1U);
  EXPECT_EQ(rest.parts[0].rank, 2);
}

TEST_F(SessionBlockTest, OptionsAreChecked) {
  EXPECT_THAT(Refused(""), HasSubstr("`session_id` is required"));
  EXPECT_THAT(Refused(R"({"session_id":""})"), HasSubstr("`session_id` is required"));
  EXPECT_THAT(Refused(R"({"session_id":")" + std::string(257, 'x') + R"("})"),
              HasSubstr("at most 256 bytes"));
  EXPECT_THAT(Refused(R"({"session_id":"x","other":1})"), HasSubstr("other"));
  const BlockSettings settings = Settings(R"({"session_id":"x"})");
  const auto traits = TraitsOf(settings, Profile::kDefault);
  EXPECT_EQ(traits->other_session(), "x");
  EXPECT_EQ(traits->feed(), BlockFeed::kPut);
  const BlockSettings deaf = Settings(R"({"session_id":"x","accept_short_term_memory":false})");
  EXPECT_EQ(TraitsOf(deaf, Profile::kDefault)->feed(), BlockFeed::kNever);
  EXPECT_FALSE(TryMake(deaf, Profile::kDefault).value()->feeds());
}

TEST_F(SessionBlockTest, ThereAreNotTooManyOfThem) {
  std::vector<BlockSettings> settings;
  for (std::size_t i = 0; i <= kMaxOtherSessions; ++i) {
    settings.push_back(Settings(R"({"session_id":"x"})"));
    settings.back().name = "b" + std::to_string(i);
  }
  const auto made = MakeBlocks(settings, Profile::kDefault, Environment());
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("config.blocks[8].kind"));
  settings.pop_back();
  EXPECT_TRUE(MakeBlocks(settings, Profile::kDefault, Environment()).ok());
}

}  // namespace
}  // namespace memoryd
