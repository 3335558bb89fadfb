#include "core/model/role.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "core/model/message.h"

namespace memoryd {
namespace {

TEST(RoleTest, TheHumanSideHasManyNamesInAnyCase) {
  for (const char* role :
       {"user", "User", "USER", "human", "Human", "customer", "client", "guest", "visitor",
        "caller", "person", "prompter", "end_user", "end-user", "end user", "human_message"}) {
    EXPECT_EQ(ParseRole(role), Role::kUser) << role;
  }
  for (const char* role : {"", "gpt", "ai", "agent", "usher", "superuser", "Assistant", "System"}) {
    EXPECT_EQ(ParseRole(role), Role::kOther) << role;
  }
  EXPECT_EQ(ParseRole("assistant"), Role::kAssistant);
  EXPECT_EQ(ParseRole("system"), Role::kSystem);
  EXPECT_EQ(ParseRole("developer"), Role::kDeveloper);
  EXPECT_EQ(ParseRole("tool"), Role::kTool);
}

TEST(RoleTest, ASessionNamesFurtherOnes) {
  const std::vector<std::string> boss = {"Boss", "assistant"};
  EXPECT_EQ(ParseRole("boss", boss), Role::kUser);
  EXPECT_EQ(ParseRole("agent", boss), Role::kOther);
  EXPECT_EQ(ParseRole("assistant", boss), Role::kAssistant) << "what is known stays as it is";
}

// Fields 1 (bytes), 2 (the role), 9 (varint), 3 (fixed 32 bits), 4 (fixed 64 bits).
TEST(RoleTest, IsFoundInABodyWhereverItStands) {
  const std::string id = "\x0A\x02id", role = "\x12\x05human", count = "\x48\x96\x01",
                    fixed = std::string("\x1D\x01\x02\x03\x04", 5),
                    wide = std::string("\x21\x01\x02\x03\x04\x05\x06\x07\x08", 9);
  EXPECT_EQ(RoleInBody(role), "human");
  EXPECT_EQ(RoleInBody(id + count + fixed + wide + role), "human");
  EXPECT_EQ(RoleInBody(role + id + count + fixed + wide), "human");
  EXPECT_EQ(RoleInBody("\x12\x01x" + role), "human") << "the last one counts";
  EXPECT_EQ(RoleInBody(id + count), "");
}

TEST(RoleTest, WhatIsNoMessageHasNone) {
  const std::string role = "\x12\x05human";
  for (std::size_t size = 0; size < role.size(); ++size) {
    EXPECT_EQ(RoleInBody(role.substr(0, size)), "") << size;
  }
  EXPECT_EQ(RoleInBody("\x13"), "") << "a group";
  EXPECT_EQ(RoleInBody("\x12\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"), "");
  EXPECT_EQ(RoleInBody("\x21\x01"), "");
}

TEST(RoleTest, AStoredMessageIsLookedAtAgain) {
  MessageDraft draft;
  draft.position = 7;
  draft.token_count = 3;
  draft.body = "\x12\x05human";
  EXPECT_EQ(WithRoleOfBody(MessagePtr(draft), {})->role, Role::kUser);
  EXPECT_EQ(WithRoleOfBody(MessagePtr(draft), {})->position, 7);
  draft.body =
      "\x12\x04"
      "boss";
  EXPECT_EQ(WithRoleOfBody(MessagePtr(draft), {})->role, Role::kOther);
  const std::vector<std::string> boss = {"boss"};
  EXPECT_EQ(WithRoleOfBody(MessagePtr(draft), boss)->role, Role::kUser);
  draft.role = Role::kAssistant;
  const MessagePtr known(draft);
  EXPECT_EQ(WithRoleOfBody(known, boss), known);
}

}  // namespace
}  // namespace memoryd
