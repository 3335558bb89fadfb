#include "server/rpc/handed_on.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/blocks/block.h"
#include "core/model/message.h"
#include "core/writes/command.h"
#include "core/writes/incoming.h"
#include "core/writes/write.h"
#include "memoryd/v1/memory.pb.h"

namespace memoryd {
namespace {

class HandedOnTest : public ::testing::Test {
 protected:
  void Add(const v1::Message& message) {
    MessageDraft row;
    row.body = message.SerializeAsString();
    row.token_count = 7;
    messages_.push_back({row, "id" + std::to_string(messages_.size()), {}});
  }
  WriteRequest Encode(const std::string& session, const std::string& job) {
    WriteRequest write;
    EXPECT_TRUE(EncodeHandedOn({session, job, messages_}, write).ok());
    return write;
  }

  std::vector<BlockMessage> messages_;
};

TEST_F(HandedOnTest, WhoWroteItAndWhereItComesFromGoWithIt) {
  v1::Message message;
  message.set_role("user");
  message.set_text("Likes tea.");
  message.set_writer("token:web");
  message.set_untrusted(true);
  Add(message);
  const WriteRequest write = Encode("s1", "job");
  const std::vector<IncomingMessage>& messages = ItemsOf(write.command).messages;
  ASSERT_EQ(messages.size(), 1U);
  v1::Message stored;
  ASSERT_TRUE(stored.ParseFromString(messages[0].message.body));
  EXPECT_EQ(stored.text(), "Likes tea.");
  EXPECT_EQ(stored.writer(), "token:web");
  EXPECT_TRUE(stored.untrusted());
  EXPECT_EQ(stored.source_session_id(), "s1");
  EXPECT_EQ(stored.source_message_id(), "id0");
  EXPECT_FALSE(stored.has_token_count());
  EXPECT_EQ(messages[0].message.ids->message_id, "");
  EXPECT_EQ(messages[0].token_count, 7);
  ASSERT_EQ(messages[0].parts.size(), 1U);
  EXPECT_EQ(messages[0].parts[0].text, "Likes tea.");
}

TEST_F(HandedOnTest, OneJobIsOneRequest) {
  v1::Message message;
  message.set_role("user");
  Add(message);
  const WriteRequest first = Encode("s1", "job");
  EXPECT_EQ(first.fingerprint.size(), 32U);
  EXPECT_LE(first.request_id.size(), 128U);
  EXPECT_EQ(Encode("s1", "job").request_id, first.request_id);
  EXPECT_EQ(Encode("s1", "job").fingerprint, first.fingerprint);
  EXPECT_NE(Encode("s1", "other").request_id, first.request_id);
  EXPECT_NE(Encode("s2", "job").request_id, first.request_id);
}

TEST_F(HandedOnTest, ABodyThatCantBeReadIsAnError) {
  MessageDraft row;
  row.body = "\x0a";
  messages_.push_back({row, "id", {}});
  WriteRequest write;
  EXPECT_TRUE(absl::IsDataLoss(EncodeHandedOn({"s1", "job", messages_}, write)));
}

}  // namespace
}  // namespace memoryd
