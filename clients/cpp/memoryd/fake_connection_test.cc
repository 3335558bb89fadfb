#include "memoryd/fake_connection.h"

#include <absl/status/status.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "memoryd/client.h"
#include "memoryd/error_info.h"

namespace memoryd::client {
namespace {

class FakeConnectionTest : public testing::Test {
 protected:
  v1::PutRequest PutOf(const std::string& text) {
    v1::PutRequest request;
    request.set_session_id("s");
    *request.add_messages() = MakeMessage("user", text);
    return request;
  }

  const std::shared_ptr<FakeConnection> fake_ = std::make_shared<FakeConnection>();
  const Client client_{fake_};
};

TEST_F(FakeConnectionTest, RefusesWithReasonAndField) {
  v1::PutRequest request = PutOf("a");
  request.add_messages();
  const auto no_role = client_.Put(request);
  EXPECT_TRUE(absl::IsInvalidArgument(no_role.status()));
  EXPECT_EQ(GetErrorInfo(no_role.status()).field, "messages[1].role");
  EXPECT_EQ(GetErrorInfo(client_.Get("").status()).field, "session_id");
  EXPECT_EQ(GetErrorInfo(client_.GetSession("s").status()).reason, "SESSION_NOT_FOUND");
}

TEST_F(FakeConnectionTest, ExpectedRevisionsAndRequestIdsCount) {
  v1::PutRequest request = PutOf("a");
  request.set_request_id("r");
  request.set_expected_revision(0);
  EXPECT_EQ(client_.Put(request)->revision(), 1);
  EXPECT_TRUE(client_.Put(request)->replayed());
  request.mutable_messages(0)->set_text("b");
  EXPECT_EQ(GetErrorInfo(client_.Put(request).status()).reason, "REQUEST_ID_REUSED");
  request.set_request_id("r2");
  const ErrorInfo info = GetErrorInfo(client_.Put(request).status());
  EXPECT_EQ(info.reason, "REVISION_MISMATCH");
  EXPECT_EQ(info.details.at("current_revision"), "1");
}

TEST_F(FakeConnectionTest, SetReplacesAndResetRemoves) {
  v1::PutRequest put = PutOf("a");
  *put.add_contents() = MakeContent("likes tea");
  ASSERT_TRUE(client_.Put(put).ok());
  v1::SetRequest set;
  set.set_session_id("s");
  *set.add_messages() = MakeMessage("system", "b");
  *set.add_contents() = MakeContent("likes coffee");
  const auto replaced = client_.Set(set);
  ASSERT_TRUE(replaced.ok());
  EXPECT_EQ(replaced->removed_count(), 1);
  EXPECT_EQ(replaced->removed_content_count(), 1);
  EXPECT_EQ(client_.AllMessages("s")->at(0).text(), "b");
  v1::ResetRequest reset;
  reset.set_session_id("s");
  reset.set_scope(v1::RESET_SCOPE_MESSAGES);
  EXPECT_EQ(client_.Reset(reset)->active_count(), 1);
  EXPECT_EQ(client_.AllContents("s")->size(), 1U);
  reset.set_scope(v1::RESET_SCOPE_EVERYTHING);
  EXPECT_EQ(client_.Reset(reset)->content_count(), 1);
  EXPECT_EQ(client_.GetSession("s")->content_count(), 0);
}

TEST_F(FakeConnectionTest, SingleMessagesChangeAndGo) {
  ASSERT_TRUE(client_.Put(PutOf("a")).ok());
  const auto put = client_.Put(PutOf("b"));
  v1::UpdateMessageRequest update;
  update.set_session_id("s");
  update.set_message_id(put->message_ids(0));
  update.set_text("c");
  update.set_name("Ada");
  EXPECT_EQ(client_.UpdateMessage(update)->position(), put->positions(0));
  const auto changed = client_.AllMessages("s")->at(1);
  EXPECT_EQ(changed.text(), "c");
  EXPECT_EQ(changed.name(), "Ada");
  v1::DeleteMessageRequest remove;
  remove.set_session_id("s");
  remove.set_message_id(put->message_ids(0));
  remove.set_expected_revision(1);
  EXPECT_EQ(GetErrorInfo(client_.DeleteMessage(remove).status()).reason, "REVISION_MISMATCH");
  remove.clear_expected_revision();
  EXPECT_EQ(client_.DeleteMessage(remove)->message_ids(0), put->message_ids(0));
  EXPECT_EQ(client_.AllMessages("s")->size(), 1U);
  EXPECT_EQ(GetErrorInfo(client_.DeleteMessage(remove).status()).reason, "MESSAGE_NOT_FOUND");
  remove.set_message_id("");
  EXPECT_EQ(GetErrorInfo(client_.DeleteMessage(remove).status()).field, "message_id");
}

TEST_F(FakeConnectionTest, PutsOfABatchHaveTheirOwnOutcomes) {
  v1::PutBatchRequest batch;
  for (const char* text : {"a", "b"}) {
    v1::PutRequest& put = *batch.add_puts();
    put.set_session_id("s");
    *put.add_messages() = MakeMessage("user", text);
  }
  *batch.add_puts()->add_messages() = MakeMessage("user", "of no session");
  fake_->FailNext(absl::UnavailableError("lost"), FailAt::kReply);
  const auto reply = client_.PutBatch(batch);
  ASSERT_EQ(reply->outcomes_size(), 3);
  EXPECT_TRUE(reply->outcomes(1).reply().replayed());
  EXPECT_EQ(reply->outcomes(1).reply().positions(0), 2);
  EXPECT_EQ(reply->outcomes(2).error().metadata().at("field"), "puts[2].session_id");
  EXPECT_EQ(reply->outcomes(2).error().message().find("puts[2].session_id"), 0);
  EXPECT_EQ(client_.Get("s")->messages_size(), 2);
}

TEST_F(FakeConnectionTest, SingleContentsChangeAndGo) {
  v1::PutRequest put;
  put.set_session_id("s");
  *put.add_contents() = MakeContent("a");
  const std::string id = client_.Put(put)->content_ids(0);
  v1::UpdateContentRequest update;
  update.set_session_id("s");
  update.set_content_id(id);
  update.set_json("[1]");
  update.set_mime_type("application/json");
  fake_->FailNext(absl::UnavailableError("lost"), FailAt::kReply);
  EXPECT_TRUE(client_.UpdateContent(update)->replayed());
  v1::GetContentRequest get;
  get.set_session_id("s");
  get.set_content_id(id);
  EXPECT_EQ(client_.GetContent(get)->content().json(), "[1]");
  EXPECT_EQ(client_.GetContent(get)->content().mime_type(), "application/json");
  v1::DeleteContentRequest remove;
  remove.set_session_id("s");
  remove.set_content_id(id);
  remove.set_expected_revision(9);
  EXPECT_EQ(GetErrorInfo(client_.DeleteContent(remove).status()).reason, "REVISION_MISMATCH");
  remove.clear_expected_revision();
  EXPECT_EQ(client_.DeleteContent(remove)->position(), 1);
  EXPECT_EQ(GetErrorInfo(client_.GetContent(get).status()).reason, "CONTENT_NOT_FOUND");
}

TEST_F(FakeConnectionTest, QueryFindsTheNewestThatHoldsAllWords) {
  ASSERT_TRUE(client_
                  .Put("s", {MakeMessage("user", "tea in China"), MakeMessage("user", "coffee"),
                             MakeMessage("user", "China has tea")})
                  .ok());
  v1::QueryRequest query;
  query.set_session_id("s");
  query.set_query("tea China");
  const auto found = client_.Query(query);
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->results_size(), 2);
  EXPECT_EQ(found->results(0).message().text(), "China has tea");
  query.set_top_k(1);
  EXPECT_EQ(client_.Query(query)->results_size(), 1);
}

TEST_F(FakeConnectionTest, SessionsAreMadeChangedAndDeleted) {
  v1::CreateSessionRequest create;
  create.set_session_id("s");
  create.mutable_config()->set_token_limit(5);
  create.mutable_config()->add_blocks()->set_name("a");
  ASSERT_TRUE(client_.CreateSession(create).ok());
  EXPECT_EQ(GetErrorInfo(client_.CreateSession(create).status()).reason, "SESSION_EXISTS");
  v1::UpdateSessionRequest update;
  update.set_session_id("s");
  update.mutable_config()->add_blocks()->set_name("b");
  const auto updated = client_.UpdateSession(update);
  ASSERT_TRUE(updated.ok());
  EXPECT_EQ(updated->config().token_limit(), 5);
  ASSERT_EQ(updated->config().blocks_size(), 1);
  EXPECT_EQ(updated->config().blocks(0).name(), "b");
  ASSERT_TRUE(client_.Put(PutOf("a")).ok());
  v1::DeleteSessionRequest remove;
  remove.set_session_id("s");
  EXPECT_EQ(client_.DeleteSession(remove)->message_count(), 1);
  EXPECT_TRUE(client_.AllSessions()->empty());
}

TEST_F(FakeConnectionTest, ThreadsShareIt) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this] {
      for (int n = 0; n < 50; ++n) EXPECT_TRUE(client_.Put(PutOf("a")).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(client_.GetSession("s")->revision(), 400);
}

}  // namespace
}  // namespace memoryd::client
