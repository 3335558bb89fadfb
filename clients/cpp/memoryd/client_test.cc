#include "memoryd/client.h"

#include <absl/status/status.h>
#include <absl/time/time.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "memoryd/connection.h"
#include "memoryd/error_info.h"
#include "memoryd/fake_connection.h"
#include "memoryd/options.h"

namespace memoryd::client {
namespace {

using testing::ElementsAre;

std::vector<std::string> Texts(const std::vector<v1::Message>& messages) {
  std::vector<std::string> texts;
  texts.reserve(messages.size());
  for (const v1::Message& message : messages) texts.push_back(message.text());
  return texts;
}

class ClientTest : public testing::Test {
 protected:
  const std::shared_ptr<FakeConnection> fake_ = std::make_shared<FakeConnection>();
  const Client client_{fake_, {.timeout = absl::Seconds(10)}};
};

TEST_F(ClientTest, MessagesComeBackInOrder) {
  ASSERT_TRUE(client_.Put("s", {MakeMessage("user", "a"), MakeMessage("assistant", "b")}).ok());
  const auto context = client_.Get("s");
  ASSERT_TRUE(context.ok()) << context.status();
  ASSERT_EQ(context->messages_size(), 2);
  EXPECT_EQ(context->messages(0).role(), "user");
  EXPECT_EQ(context->messages(1).text(), "b");
}

TEST_F(ClientTest, PagesAreFetchedToTheLast) {
  std::vector<v1::Message> messages;
  v1::PutRequest request;
  request.set_session_id("s");
  for (int i = 0; i < 1500; ++i) {
    *request.add_messages() = MakeMessage("user", std::to_string(i));
    *request.add_contents() = MakeContent(std::to_string(i));
  }
  ASSERT_TRUE(client_.Put(request).ok());
  const auto all = client_.AllMessages("s");
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->size(), 1500U);
  EXPECT_EQ(all->back().text(), "1499");
  const auto contents = client_.AllContents("s");
  ASSERT_TRUE(contents.ok());
  ASSERT_EQ(contents->size(), 1500U);
  EXPECT_EQ(contents->back().text(), "1499");
  EXPECT_EQ(client_.AllSessions()->size(), 1U);
}

TEST_F(ClientTest, PagesAndStreamsBeginWithTheNewestWhereTheRequestSaysSo) {
  v1::PutRequest put;
  put.set_session_id("s");
  for (const char* text : {"a", "b", "c"}) {
    *put.add_messages() = MakeMessage("user", text);
    *put.add_contents() = MakeContent(text);
  }
  ASSERT_TRUE(client_.Put(put).ok());
  v1::GetAllRequest request;
  request.set_session_id("s");
  request.set_order(v1::MESSAGE_ORDER_NEWEST_FIRST);
  request.set_include_contents(true);
  request.set_page_size(2);
  std::string found;
  do {
    const auto page = client_.GetAll(request);
    ASSERT_TRUE(page.ok()) << page.status();
    for (const v1::Message& message : page->messages()) found += message.text();
    for (const v1::Content& content : page->contents()) found += content.text();
    found += page->next_page_token().empty() ? "" : "|";
    request.set_page_token(page->next_page_token());
    // Messages that are put after the first page was read are on no later page.
    ASSERT_TRUE(client_.Put("s", {MakeMessage("user", "late")}).ok());
  } while (!request.page_token().empty());
  EXPECT_EQ(found, "cb|ac|ba");

  request.clear_include_contents();
  request.set_page_token("2");
  const auto refused = client_.GetAll(request);
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << "a token of the other order";
  request.clear_page_token();
  const auto first = client_.GetAll(request);
  ASSERT_TRUE(first.ok());
  request.clear_order();
  request.set_page_token(first->next_page_token());
  EXPECT_TRUE(absl::IsInvalidArgument(client_.GetAll(request).status()));

  v1::StreamAllRequest stream;
  stream.set_session_id("s");
  stream.set_order(v1::MESSAGE_ORDER_NEWEST_FIRST);
  std::string streamed;
  const absl::Status status = client_.StreamAll(stream, [&](const v1::StreamAllResponse& page) {
    for (const v1::Message& message : page.messages()) streamed += message.text() + " ";
    return true;
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(streamed, "late late late c b a ");
}

class ClientStreamTest : public ClientTest {
 protected:
  ClientStreamTest() {
    for (int i = 0; i < 25; ++i) {
      EXPECT_TRUE(client_.Put("s", {MakeMessage("user", std::to_string(i))}).ok());
      expected_.push_back(std::to_string(i));
    }
    request_.set_session_id("s");
    request_.set_page_size(10);
  }

  // Reads messages until `enough` are there.
  PageReader Reader(std::size_t enough = 1000) {
    return [this, enough](const v1::StreamAllResponse& page) {
      for (const v1::Message& message : page.messages()) found_.push_back(message.text());
      if (!failures_.empty()) {
        fake_->FailNext(failures_.back());
        failures_.pop_back();
      }
      return found_.size() < enough;
    };
  }

  v1::StreamAllRequest request_;
  std::vector<std::string> expected_;
  std::vector<std::string> found_;
  std::vector<absl::Status> failures_;  // The last comes first, behind a page each.
};

TEST_F(ClientStreamTest, AStreamIsReadToItsEndOrUntilTheReaderHasEnough) {
  EXPECT_TRUE(client_.StreamAll(request_, Reader()).ok());
  EXPECT_EQ(found_, expected_);
  found_.clear();
  EXPECT_TRUE(client_.StreamAll(request_, Reader(15)).ok());
  EXPECT_EQ(found_.size(), 20U);
  request_.set_session_id("");
  EXPECT_TRUE(absl::IsInvalidArgument(client_.StreamAll(request_, Reader())));
}

TEST_F(ClientStreamTest, AStreamThatBreaksOffIsGoneOnWith) {
  failures_ = {absl::DeadlineExceededError("slow reader"), absl::UnavailableError("restarting")};
  EXPECT_TRUE(client_.StreamAll(request_, Reader()).ok());
  EXPECT_EQ(found_, expected_);
}

TEST_F(ClientStreamTest, OtherFailuresEndAStream) {
  failures_ = {absl::AbortedError("replaced")};
  EXPECT_TRUE(absl::IsAborted(client_.StreamAll(request_, Reader())));
  EXPECT_EQ(found_.size(), 10U);
  fake_->FailNext(absl::DeadlineExceededError("no page came"));
  EXPECT_TRUE(absl::IsDeadlineExceeded(client_.StreamAll(request_, Reader())));
}

TEST_F(ClientStreamTest, APageIsWaitedForAsLongAsTheTimeoutSays) {
  for (int i = 0; i < 1000; ++i) fake_->FailNext(absl::UnavailableError("away"));
  EXPECT_TRUE(
      absl::IsUnavailable(client_.StreamAll(request_, Reader(), {.timeout = absl::Seconds(3)})));
  EXPECT_LT(fake_->waited(), absl::Seconds(3));
  EXPECT_GT(fake_->waited(), absl::Seconds(1.5));
}

TEST_F(ClientTest, ALostReplyIsAskedForAgainAndTheChangeMadeOnce) {
  fake_->FailNext(absl::UnavailableError("gone"), FailAt::kReply);
  const auto reply = client_.Put("s", {MakeMessage("user", "a")});
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->replayed());
  EXPECT_EQ(fake_->attempts(), 2);
  EXPECT_THAT(Texts(*client_.AllMessages("s")), ElementsAre("a"));
}

TEST_F(ClientTest, EachCallHasARequestIdOfItsOwnOrTheCallersOwn) {
  ASSERT_TRUE(client_.Put("s", {MakeMessage("user", "a")}).ok());
  ASSERT_TRUE(client_.Put("s", {MakeMessage("user", "a")}).ok());
  v1::PutRequest request;
  request.set_session_id("s");
  request.set_request_id("mine");
  *request.add_messages() = MakeMessage("user", "b");
  EXPECT_FALSE(client_.Put(request)->replayed());
  EXPECT_TRUE(client_.Put(request)->replayed());
  EXPECT_THAT(Texts(*client_.AllMessages("s")), ElementsAre("a", "a", "b"));
}

TEST_F(ClientTest, RepeatsUntilTheDeadlineAndNoLonger) {
  for (int i = 0; i < 1000; ++i) fake_->FailNext(absl::UnavailableError("away"));
  const auto reply = client_.Get("s", {.timeout = absl::Seconds(3)});
  EXPECT_TRUE(absl::IsUnavailable(reply.status()));
  EXPECT_LT(fake_->waited(), absl::Seconds(3));
  // The longest pause is one and a half seconds.
  EXPECT_GT(fake_->waited(), absl::Seconds(1.5));
  EXPECT_GT(fake_->attempts(), 5);
}

TEST_F(ClientTest, OtherFailuresAreFinal) {
  fake_->FailNext(absl::DeadlineExceededError("slow"));
  EXPECT_TRUE(absl::IsDeadlineExceeded(client_.Get("s").status()));
  fake_->FailNext(absl::ResourceExhaustedError("full"));
  EXPECT_TRUE(absl::IsResourceExhausted(client_.Put("s", {}).status()));
  EXPECT_EQ(fake_->attempts(), 2);
}

TEST_F(ClientTest, ACallThatAServerEndedAsItWentIsRepeated) {
  fake_->FailNext(absl::CancelledError("going"), FailAt::kReply);
  const auto reply = client_.Put("s", {MakeMessage("user", "a")});
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->replayed());
}

TEST_F(ClientTest, TimeThatRunsOutLeavesTheFailureThatTookIt) {
  fake_->FailNext(absl::UnavailableError("away"));
  fake_->FailNext(absl::DeadlineExceededError("late"));
  EXPECT_EQ(client_.Get("s").status().message(), "away");
}

TEST_F(ClientTest, WhatMayHaveBeenDoneIsNeverDenied) {
  const auto status_after = [this](const absl::Status& first, const absl::Status& last) {
    fake_->FailNext(first);
    for (int i = 0; i < 1000; ++i) fake_->FailNext(last);
    const absl::Status status =
        client_.Put("s", {MakeMessage("user", "a")}, {.timeout = absl::Milliseconds(100)}).status();
    while (!client_.Get("s", {.timeout = absl::Hours(10)}).ok()) {
    }
    return status;
  };
  const absl::Status unknown = absl::UnavailableError("connection lost");
  const absl::Status away =
      WithErrorInfo(absl::UnavailableError("nothing was stored"), {.reason = "STORE_UNAVAILABLE"});
  EXPECT_EQ(status_after(unknown, away), unknown);
  EXPECT_EQ(status_after(away, away), away);
  fake_->FailNext(away);
  fake_->FailNext(absl::DeadlineExceededError("late"));
  EXPECT_EQ(client_.Put("s", {}).status().message(), "late");
  fake_->FailNext(unknown);
  fake_->FailNext(absl::InvalidArgumentError("wrong"));
  EXPECT_EQ(client_.Put("s", {}).status().message(), "wrong") << "an answer stands";
}

TEST_F(ClientTest, WithoutWaitForReadyTheFirstFailureIsFinal) {
  const Client impatient(fake_, {.wait_for_ready = false});
  fake_->FailNext(absl::UnavailableError("away"));
  EXPECT_TRUE(absl::IsUnavailable(impatient.Get("s").status()));
  EXPECT_EQ(fake_->attempts(), 1);
}

// Fails every Get and Put, and keeps how each was made.
class AwayConnection : public FakeConnection {
 public:
  absl::StatusOr<v1::PutResponse> Put(const v1::PutRequest&, const Attempt& attempt) override {
    deadline = attempt.deadline;
    return absl::InternalError("away");
  }
  absl::StatusOr<v1::GetResponse> Get(const v1::GetRequest&, const Attempt& attempt) override {
    waited_for_ready.push_back(attempt.wait_for_ready);
    return absl::UnavailableError("away");
  }

  absl::Time deadline;
  std::vector<bool> waited_for_ready;
};

TEST(ClientWaitTest, TheTimeoutBeginsBehindTheWaitOfAPut) {
  const auto connection = std::make_shared<AwayConnection>();
  const Client client(connection, {.timeout = absl::Seconds(10)});
  v1::PutRequest request;
  request.mutable_wait()->set_seconds(25);
  request.mutable_wait()->set_nanos(500'000'000);
  EXPECT_FALSE(client.Put(request).ok());
  EXPECT_EQ(connection->deadline - connection->Now(), absl::Seconds(35.5));
  EXPECT_FALSE(client.Put(request, {.timeout = absl::Seconds(30)}).ok());
  EXPECT_EQ(connection->deadline - connection->Now(), absl::Seconds(30));
}

TEST(ClientWaitTest, OnlyTheFirstAttemptFindsOutWhatIsWrong) {
  const auto connection = std::make_shared<AwayConnection>();
  EXPECT_TRUE(absl::IsUnavailable(
      Client(connection).Get("s", {.timeout = absl::Milliseconds(100)}).status()));
  ASSERT_GE(connection->waited_for_ready.size(), 2U);
  EXPECT_FALSE(connection->waited_for_ready.front());
  EXPECT_TRUE(connection->waited_for_ready.back());
}

// Counts what Client sends once only.
class JobConnection : public Connection {
 public:
  absl::StatusOr<v1::RetryJobResponse> RetryJob(const v1::RetryJobRequest&,
                                                const Attempt& attempt) override {
    ++attempts;
    waited_for_ready = attempt.wait_for_ready;
    return absl::UnavailableError("gone");
  }

  int attempts = 0;
  bool waited_for_ready = false;
};

TEST(ClientJobTest, WhatHasNoRequestIdIsSentOnce) {
  const auto connection = std::make_shared<JobConnection>();
  const Client client(connection);
  EXPECT_TRUE(absl::IsUnavailable(client.RetryJob({}).status()));
  EXPECT_EQ(connection->attempts, 1);
  EXPECT_TRUE(connection->waited_for_ready);
  EXPECT_TRUE(absl::IsUnimplemented(client.CancelJob({}).status()));
}

// A session that is put to between two attempts to watch it.
class WatchedConnection : public Connection {
 public:
  absl::Status WatchSession(const v1::WatchSessionRequest& request, const Attempt& attempt,
                            const WatchReader& read) override {
    asked.push_back(request.has_after_revision() ? request.after_revision() : -1);
    deadline = attempt.deadline;
    if (answers.empty()) return absl::UnavailableError("away");
    for (const std::int64_t revision : answers.front()) {
      v1::WatchSessionResponse news;
      news.set_revision(revision);
      if (!read(std::move(news))) return absl::CancelledError("the reader has enough");
    }
    answers.erase(answers.begin());
    return answers.empty() ? end : absl::UnavailableError("restarting");
  }
  void Wait(absl::Duration time) override { now_ += time; }
  absl::Time Now() override { return now_; }

  std::vector<std::vector<std::int64_t>> answers;
  absl::Status end;
  std::vector<std::int64_t> asked;
  absl::Time deadline;

 private:
  absl::Time now_ = absl::UnixEpoch();
};

class ClientWatchTest : public testing::Test {
 protected:
  absl::Status Watch(std::size_t enough = 1000, const CallOptions& options = {}) {
    return client_.WatchSession(
        {},
        [this, enough](const v1::WatchSessionResponse& news) {
          found_.push_back(news.revision());
          return found_.size() < enough;
        },
        options);
  }

  const std::shared_ptr<WatchedConnection> connection_ = std::make_shared<WatchedConnection>();
  const Client client_{connection_, {.timeout = absl::Seconds(3)}};
  std::vector<std::int64_t> found_;
};

TEST_F(ClientWatchTest, AWatchThatBreaksIsGoneOnWithAfterItsLastRevision) {
  connection_->answers = {{3, 4}, {}, {6}};
  EXPECT_TRUE(Watch().ok());
  EXPECT_THAT(found_, ElementsAre(3, 4, 6));
  EXPECT_THAT(connection_->asked, ElementsAre(-1, 4, 4));
  EXPECT_EQ(connection_->deadline, absl::InfiniteFuture());
}

TEST_F(ClientWatchTest, AReaderMayHaveEnough) {
  connection_->answers = {{3, 4, 5}};
  EXPECT_TRUE(Watch(2).ok());
  EXPECT_THAT(found_, ElementsAre(3, 4));
}

TEST_F(ClientWatchTest, OtherFailuresEndIt) {
  connection_->answers = {{3}};
  connection_->end = absl::NotFoundError("another's now");
  EXPECT_TRUE(absl::IsNotFound(Watch()));
}

TEST_F(ClientWatchTest, AServerThatStaysAwayIsGivenUp) {
  EXPECT_TRUE(absl::IsUnavailable(Watch()));
  EXPECT_LT(connection_->Now() - absl::UnixEpoch(), absl::Seconds(3));
  EXPECT_GT(connection_->Now() - absl::UnixEpoch(), absl::Seconds(1.5));
}

}  // namespace
}  // namespace memoryd::client
