// Over a socket: what a call brings along, and what becomes of an answer.
#include "memoryd/connection.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "google/rpc/error_details.pb.h"
#include "memoryd/client.h"
#include "memoryd/error_info.h"
#include "memoryd/options.h"
#include "memoryd/v1/block_service.grpc.pb.h"
#include "memoryd/v1/item_service.grpc.pb.h"
#include "memoryd/v1/memory_service.grpc.pb.h"
#include "memoryd/v1/session_service.grpc.pb.h"
#include "tests/support/fake_certificate.h"

namespace memoryd::client {
namespace {

// Answers Puts as told, in order, then OK.
class ScriptedService final : public v1::MemoryService::Service {
 public:
  grpc::Status Put(grpc::ServerContext* context, const v1::PutRequest* request,
                   v1::PutResponse* response) override {
    const std::lock_guard lock(mutex_);
    requests.push_back(*request);
    const auto& metadata = context->client_metadata();
    const auto token = metadata.find("authorization");
    tokens.emplace_back(
        token == metadata.end() ? "" : std::string(token->second.data(), token->second.size()));
    std::string& trace = traces.emplace_back();
    for (const char* const name : {"traceparent", "tracestate"}) {
      const auto found = metadata.find(name);
      if (found == metadata.end()) continue;
      absl::StrAppend(&trace, name, "=", std::string(found->second.data(), found->second.size()),
                      ";");
    }
    if (answers.empty()) {
      response->set_revision(7);
      return grpc::Status::OK;
    }
    grpc::Status answer = answers.front();
    answers.pop_front();
    return answer;
  }

  // Pages without end, until the caller has enough.
  grpc::Status StreamAll(grpc::ServerContext* context, const v1::StreamAllRequest* request,
                         grpc::ServerWriter<v1::StreamAllResponse>* writer) override {
    v1::StreamAllResponse page;
    page.add_messages()->set_text(request->page_token());
    page.set_next_page_token("more");
    while (!context->IsCancelled() && writer->Write(page)) {
    }
    return grpc::Status::OK;
  }

  std::deque<grpc::Status> answers;
  std::vector<v1::PutRequest> requests;
  std::vector<std::string> tokens;
  std::vector<std::string> traces;

 private:
  std::mutex mutex_;
};

// Takes imports of up to `most` requests, and says how many came.
class ImportService final : public v1::SessionService::Service {
 public:
  grpc::Status ImportSession(grpc::ServerContext* /*context*/,
                             grpc::ServerReader<v1::ImportSessionRequest>* reader,
                             v1::ImportSessionResponse* response) override {
    v1::ImportSessionRequest request;
    std::int64_t count = 0;
    while (count < most && reader->Read(&request)) ++count;
    if (count == most) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "restarting");
    response->mutable_session()->set_archived_count(count);
    response->mutable_session()->set_active_count(request.end().message_count());
    return grpc::Status::OK;
  }

  std::int64_t most = 100;
};

// Takes imports of namespaces, and says how many items came.
class NamespaceImportService final : public v1::ItemService::Service {
 public:
  grpc::Status ImportNamespace(grpc::ServerContext* /*context*/,
                               grpc::ServerReader<v1::ImportNamespaceRequest>* reader,
                               v1::ImportNamespaceResponse* response) override {
    ++calls;
    v1::ImportNamespaceRequest request;
    v1::Namespace& made = *response->mutable_namespace_();
    std::int64_t count = 0;
    while (reader->Read(&request)) {
      if (request.has_begin()) *made.mutable_namespace_() = request.begin().namespace_();
      count += request.items().items_size();
      if (count > most) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "restarting");
    }
    made.set_item_count(count);
    made.set_version(request.end().item_count());
    return grpc::Status::OK;
  }

  std::atomic<int> calls = 0;
  std::int64_t most = 100;
};

// Knows one fact.
class FactService final : public v1::BlockService::Service {
 public:
  grpc::Status AddFact(grpc::ServerContext* /*context*/, const v1::AddFactRequest* request,
                       v1::AddFactResponse* response) override {
    response->mutable_fact()->set_text(request->text() + " " + request->request_id());
    return grpc::Status::OK;
  }
};

std::shared_ptr<grpc::ChannelCredentials> Believing(const FakeCertificate& authority) {
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = authority.pem();
  return grpc::SslCredentials(tls);
}

class ConnectionTest : public testing::Test {
 protected:
  ConnectionTest() {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    grpc::SslServerCredentialsOptions tls;
    tls.pem_key_cert_pairs.push_back({certificate_.key_pem(), certificate_.pem()});
    builder.AddListeningPort("localhost:0", grpc::SslServerCredentials(tls), &tls_port_);
    builder.RegisterService(&service_);
    builder.RegisterService(&imports_);
    builder.RegisterService(&namespaces_);
    builder.RegisterService(&facts_);
    server_ = builder.BuildAndStart();
    options_.target = absl::StrCat("127.0.0.1:", port);
    options_.timeout = absl::Seconds(60);
  }

  const FakeCertificate certificate_;
  int tls_port_ = 0;
  ScriptedService service_;
  ImportService imports_;
  NamespaceImportService namespaces_;
  FactService facts_;
  std::unique_ptr<grpc::Server> server_;
  Options options_;
};

TEST_F(ConnectionTest, RepeatsUnderOneRequestIdWithTheTokenOfTheMoment) {
  service_.answers = {grpc::Status(grpc::StatusCode::UNAVAILABLE, "restarting"),
                      grpc::Status(grpc::StatusCode::UNAVAILABLE, "restarting")};
  int asked = 0;
  options_.token = [&asked] { return absl::StrCat("t", ++asked); };
  const auto reply = Client(options_).Put("s", {MakeMessage("user", "a")});
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->revision(), 7);
  ASSERT_EQ(service_.requests.size(), 3U);
  EXPECT_EQ(service_.requests[0].request_id().size(), 32U);
  EXPECT_EQ(service_.requests[0].request_id(), service_.requests[2].request_id());
  EXPECT_EQ(service_.tokens, (std::vector<std::string>{"Bearer t1", "Bearer t2", "Bearer t3"}));
}

TEST_F(ConnectionTest, EveryAttemptIsInTheTraceOfTheMoment) {
  service_.answers = {grpc::Status(grpc::StatusCode::UNAVAILABLE, "restarting")};
  int asked = 0;
  options_.trace = [&asked] { return Trace{absl::StrCat("t", ++asked), asked == 1 ? "a=1" : ""}; };
  ASSERT_TRUE(Client(options_).Put("s", {}).ok());
  options_.trace = [] { return Trace(); };
  ASSERT_TRUE(Client(options_).Put("s", {}).ok());
  EXPECT_EQ(service_.traces,
            (std::vector<std::string>{"traceparent=t1;tracestate=a=1;", "traceparent=t2;", ""}));
}

TEST_F(ConnectionTest, AFailureKeepsCodeTextAndReason) {
  google::rpc::ErrorInfo info;
  info.set_reason("REVISION_MISMATCH");
  google::rpc::Status details;
  details.add_details()->PackFrom(info);
  service_.answers = {
      grpc::Status(grpc::StatusCode::ABORTED, "read again", details.SerializeAsString())};
  const auto reply = Client(options_).Put("s", {});
  EXPECT_TRUE(absl::IsAborted(reply.status()));
  EXPECT_EQ(reply.status().message(), "read again");
  EXPECT_EQ(GetErrorInfo(reply.status()).reason, "REVISION_MISMATCH");
  EXPECT_EQ(service_.tokens, std::vector<std::string>{""});
}

TEST_F(ConnectionTest, AStreamEndsWhenItsReaderHasEnough) {
  v1::StreamAllRequest request;
  request.set_session_id("s");
  request.set_page_token("begin");
  std::vector<std::string> found;
  const absl::Status status =
      Client(options_).StreamAll(request, [&](const v1::StreamAllResponse& page) {
        found.push_back(page.messages(0).text());
        return found.size() < 3;
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(found, (std::vector<std::string>{"begin", "begin", "begin"}));
}

TEST_F(ConnectionTest, AnImportIsSentToItsEndOrUntilTheServerHasEnough) {
  const Client client(options_);
  int made = 0;
  const auto next = [&made](v1::ImportSessionRequest& request) {
    if (made == 50) return false;
    if (made == 0) request.mutable_begin()->set_session_id("s");
    if (made == 49) request.mutable_end()->set_message_count(48);
    EXPECT_EQ(request.has_items(), false) << "the connection passed an old request";
    if (made > 0 && made < 49) request.mutable_items()->add_messages()->set_text("a");
    ++made;
    return true;
  };
  const auto session = client.ImportSession(next);
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(session->archived_count(), 50);
  EXPECT_EQ(session->active_count(), 48);

  // It may have been done: it is not sent again.
  imports_.most = 1;
  std::int64_t begun = 0;
  const auto endless = [&begun](v1::ImportSessionRequest& request) {
    request.mutable_items()->add_messages()->set_text("a");
    ++begun;
    return true;
  };
  EXPECT_TRUE(absl::IsUnavailable(client.ImportSession(endless).status()));
  EXPECT_GT(begun, 0);
}

TEST_F(ConnectionTest, ANamespaceIsImportedInOneCallThatIsNotRepeated) {
  const Client client(options_);
  int made = 0;
  const auto next = [&made](v1::ImportNamespaceRequest& request) {
    EXPECT_EQ(request.step_case(), v1::ImportNamespaceRequest::STEP_NOT_SET)
        << "the connection passed an old request";
    if (made == 50) return false;
    if (made == 0) request.mutable_begin()->add_namespace_("users");
    if (made == 49) request.mutable_end()->set_item_count(48);
    if (made > 0 && made < 49) request.mutable_items()->add_items()->set_key("k");
    ++made;
    return true;
  };
  const auto imported = client.ImportNamespace(next);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->namespace_(0), "users");
  EXPECT_EQ(imported->item_count(), 48);
  EXPECT_EQ(imported->version(), 48);
  EXPECT_EQ(namespaces_.calls, 1);

  // It may have been done: it is not sent again.
  namespaces_.most = 1;
  const auto endless = [](v1::ImportNamespaceRequest& request) {
    request.mutable_items()->add_items()->set_key("k");
    return true;
  };
  EXPECT_TRUE(absl::IsUnavailable(client.ImportNamespace(endless).status()));
  EXPECT_EQ(namespaces_.calls, 2);
}

TEST_F(ConnectionTest, AFactIsAddedUnderARequestId) {
  v1::AddFactRequest request;
  request.set_text("a fact");
  EXPECT_EQ(Client(options_).AddFact(request)->fact().text().size(), 7U + 32U);
}

TEST_F(ConnectionTest, OverTlsOnlyAServerThatIsBelievedGetsTheToken) {
  options_.target = absl::StrCat("localhost:", tls_port_);
  options_.token = [] { return "t"; };
  options_.credentials = Believing(certificate_);
  EXPECT_TRUE(Client(options_).Put("s", {}).ok());
  options_.wait_for_ready = false;
  const FakeCertificate stranger;
  options_.credentials = Believing(stranger);
  EXPECT_TRUE(absl::IsUnavailable(Client(options_).Put("s", {}).status()));
  EXPECT_EQ(service_.tokens, std::vector<std::string>{"Bearer t"});
}

TEST_F(ConnectionTest, NobodyThereIsUnavailable) {
  server_->Shutdown();
  options_.wait_for_ready = false;
  EXPECT_TRUE(absl::IsUnavailable(Client(options_).Get("s").status()));
}

TEST_F(ConnectionTest, ADeadlineThatHasPassedIsSaid) {
  const auto reply = Client(options_).Get("s", {.timeout = -absl::Seconds(1)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(reply.status())) << reply.status();
}

}  // namespace
}  // namespace memoryd::client
