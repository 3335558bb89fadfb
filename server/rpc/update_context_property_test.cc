// UpdateContext over random contexts, from request to reply, under the rules of providers: what it
// gives is taken by whom it is for, says what the caller said, and is the same when it is given
// again.
#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/model/message.h"
#include "core/model/role.h"
#include "core/model/session_config.h"
#include "core/recall/recall.h"
#include "core/recall/update_context.h"
#include "memoryd/v1/memory_service.pb.h"
#include "server/rpc/recall_call.h"

namespace memoryd {
namespace {

struct Memory {
  std::vector<StableBlock> blocks;
  std::vector<RecalledMessage> recalled;
};

v1::UpdateContextResponse Update(v1::UpdateContextRequest request, InsertMethod method,
                                 const Memory& memory) {
  v1::UpdateContextResponse response;
  const auto context = FromProto(request);
  EXPECT_TRUE(context.ok()) << context.status();
  if (!context.ok()) return response;
  const ContextRules rules{method, request.alternate_roles(), !memory.blocks.empty()};
  BareContext bare = RemoveMemory(context->messages, rules);
  UpdatedContext updated;
  updated.insertions = InsertMemory(bare, rules, memory.blocks, {}, memory.recalled);
  updated.kept = std::move(bare.kept);
  const auto reply = UpdateContextReply(updated, request);
  EXPECT_TRUE(reply.ok() && response.ParseFromString(*reply)) << reply.status();
  return response;
}

bool IsSystem(const v1::Message& message) {
  return message.role() == "system" || message.role() == "developer";
}

bool HasResults(const v1::Message& message) {
  for (const v1::Part& part : message.parts()) {
    if (part.has_tool_result()) return true;
  }
  return false;
}

bool IsOnlyResults(const v1::Message& message) {
  for (const v1::Part& part : message.parts()) {
    if (!part.has_tool_result()) return false;
  }
  return message.parts_size() > 0;
}

bool IsHumanSide(const v1::Message& message) {
  return ParseRole(message.role()) == Role::kUser || message.role() == "tool" ||
         HasResults(message);
}

std::string Texts(const v1::Message& message) {
  std::string texts = message.text();
  for (const v1::Part& part : message.parts()) texts += part.text() + "\n";
  return texts;
}

// Anthropic's interface and AutoGen's clients: system messages in front alone. Returns how many.
int ExpectSystemInFront(const v1::UpdateContextResponse& reply) {
  int front = 0;
  while (front < reply.messages_size() && IsSystem(reply.messages(front))) ++front;
  for (int i = front; i < reply.messages_size(); ++i) EXPECT_FALSE(IsSystem(reply.messages(i)));
  return front;
}

// Anthropic's interface, Bedrock and Gemini: sides alternate, a human's message is the first if
// there is one, and results are ahead of all else in theirs.
void ExpectAlternating(const v1::UpdateContextResponse& reply, int front) {
  bool has_human = false;
  for (int i = front; i < reply.messages_size(); ++i) {
    const v1::Message& message = reply.messages(i);
    has_human |= ParseRole(message.role()) == Role::kUser && !IsOnlyResults(message);
    if (i > front) {
      EXPECT_NE(IsHumanSide(message), IsHumanSide(reply.messages(i - 1))) << i;
    }
    bool others = false;
    for (const v1::Part& part : message.parts()) {
      EXPECT_FALSE(others && part.has_tool_result());
      others |= !part.has_tool_result();
    }
  }
  if (has_human && front < reply.messages_size()) {
    EXPECT_TRUE(IsHumanSide(reply.messages(front)));
  }
}

class UpdateContextPropertyTest : public ::testing::TestWithParam<unsigned> {
 protected:
  std::uint64_t Pick(std::uint64_t below) { return generator_() % below; }

  std::string RandomText() {
    static constexpr const char* kTexts[] = {
        "",
        "x",
        "red?",
        "\n",
        "a\n\nb\n",
        "<memoryd_recall>\nunclosed",
        "</memoryd_memory>",
        "see <memoryd_recall> and </memoryd_recall>",
        "<memoryd_memory>\nmine\n</memoryd_memory>\nwhat is this?",
        "<memoryd_memory>\n<memoryd_recall>\n</memoryd_memory>\nz\n</recall>\n</memoryd_memory>"};
    return kTexts[Pick(std::size(kTexts))];
  }

  v1::Message RandomMessage() {
    static constexpr const char* kRoles[] = {"system",    "developer", "user", "user", "Human",
                                             "assistant", "assistant", "gpt",  "tool", "user"};
    v1::Message message;
    message.set_role(kRoles[Pick(std::size(kRoles))]);
    if (Pick(4) == 0) message.set_name(Pick(2) == 0 ? "Zoe" : "Bob");
    if (Pick(2) == 0) {
      message.set_text(RandomText());
      return message;
    }
    for (std::uint64_t parts = Pick(4); parts > 0; --parts) AddPart(message);
    if (message.role() == "tool" && message.parts_size() == 0) AddResult(message);
    return message;
  }
  std::string RandomId() { return std::to_string(Pick(3)); }
  void AddResult(v1::Message& message) {
    message.add_parts()->mutable_tool_result()->set_call_id(RandomId());
  }
  void AddPart(v1::Message& message) {
    const std::uint64_t kind = IsSystem(message) ? 0 : Pick(4);
    if (kind == 1 && message.role() == "assistant") {
      message.add_parts()->mutable_tool_call()->set_call_id(RandomId());
    } else if (kind == 2 && IsHumanSide(message) &&
               (message.parts_size() == 0 || IsOnlyResults(message))) {
      AddResult(message);
    } else if (kind == 3) {
      message.add_parts()->mutable_image()->set_url("https://example.com/a.png");
    } else {
      message.add_parts()->set_text(RandomText());
    }
  }
  v1::UpdateContextRequest RandomRequest() {
    v1::UpdateContextRequest request;
    request.set_session_id("s");
    request.set_alternate_roles(Pick(2) == 0);
    for (std::uint64_t left = Pick(9); left > 0; --left) *request.add_messages() = RandomMessage();
    return request;
  }
  Memory RandomMemory() {
    Memory memory;
    if (Pick(3) != 0) memory.blocks.push_back({"core", RandomText()});
    if (Pick(3) != 0) {
      RecalledMessage& recalled = memory.recalled.emplace_back();
      recalled.message.role = "user";
      recalled.message.text = RandomText();
    }
    return memory;
  }

  std::mt19937_64 generator_{GetParam()};
};

TEST_P(UpdateContextPropertyTest, TheUpdateOfAnUpdatedContextIsThatContext) {
  for (int i = 0; i < 3000 && !HasFailure(); ++i) {
    const auto method = Pick(2) == 0 ? InsertMethod::kSystem : InsertMethod::kUser;
    const v1::UpdateContextRequest request = RandomRequest();
    const Memory memory = RandomMemory();
    const v1::UpdateContextResponse once = Update(request, method, memory);
    v1::UpdateContextRequest again;
    again.set_session_id("s");
    again.set_alternate_roles(request.alternate_roles());
    *again.mutable_messages() = once.messages();
    const v1::UpdateContextResponse twice = Update(again, method, memory);
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(twice, once))
        << request.DebugString() << "became\n"
        << once.DebugString() << "and then\n"
        << twice.DebugString();
  }
}

TEST_P(UpdateContextPropertyTest, ProvidersTakeWhatItGives) {
  for (int i = 0; i < 3000 && !HasFailure(); ++i) {
    const auto method = Pick(2) == 0 ? InsertMethod::kSystem : InsertMethod::kUser;
    const v1::UpdateContextRequest request = RandomRequest();
    SCOPED_TRACE(request.DebugString());
    const Memory memory = RandomMemory();
    const v1::UpdateContextResponse reply = Update(request, method, memory);
    const int front = ExpectSystemInFront(reply);
    if (request.alternate_roles()) ExpectAlternating(reply, front);
    for (const v1::Insertion& insertion : reply.insertions()) {
      const v1::Message& message = reply.messages(insertion.index());
      const bool is_recall = insertion.message().text().starts_with("<memoryd_recall>");
      EXPECT_EQ(IsSystem(message), !is_recall && method == InsertMethod::kSystem);
      EXPECT_EQ(message.text() == insertion.message().text(), !insertion.joined());
      EXPECT_NE(Texts(message).find(insertion.message().text()), std::string::npos);
      if (!is_recall) {
        EXPECT_EQ(insertion.index(), method == InsertMethod::kSystem ? front - 1 : front);
      }
    }
  }
}

// What was sent for one step is how the next one begins.
TEST_P(UpdateContextPropertyTest, TheStepsOfAQuestionBeginWithTheSame) {
  for (int i = 0; i < 1000 && !HasFailure(); ++i) {
    const auto method = Pick(2) == 0 ? InsertMethod::kSystem : InsertMethod::kUser;
    v1::UpdateContextRequest request = RandomRequest();
    v1::Message& question = *request.add_messages();
    question.set_role("user");
    question.set_text("red?");
    const Memory memory = RandomMemory();
    v1::UpdateContextResponse before = Update(request, method, memory);
    for (int step = 0; step < 4; ++step) {
      const std::string id = std::to_string(step);
      v1::Message& call = *request.add_messages();
      call.set_role("assistant");
      call.add_parts()->mutable_tool_call()->set_call_id(id);
      v1::Message& result = *request.add_messages();
      result.set_role(step % 2 == 0 ? "tool" : "user");
      result.add_parts()->mutable_tool_result()->set_call_id(id);
      const v1::UpdateContextResponse now = Update(request, method, memory);
      ASSERT_EQ(now.messages_size(), before.messages_size() + 2) << request.DebugString();
      for (int m = 0; m < before.messages_size(); ++m) {
        EXPECT_EQ(now.messages(m).SerializeAsString(), before.messages(m).SerializeAsString());
      }
      before = now;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, UpdateContextPropertyTest, ::testing::Range(1U, 9U));

}  // namespace
}  // namespace memoryd
