#include "server/http2/http2_server.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/mutex.h"
#include "memoryd/v1/memory_service.grpc.pb.h"
#include "server/unary_call.h"

namespace memoryd {
namespace {

using Clock = std::chrono::steady_clock;

// Answers a Get with as many bytes as its `input` says, and keeps those of the session "held".
class Answering final : public RpcHandler, public std::enable_shared_from_this<Answering> {
 public:
  Answering(RpcCallPtr rpc, std::atomic<int>* cancelled)
      : rpc_(std::move(rpc)), cancelled_(*cancelled) {}

  void OnMessage(std::string_view bytes) override {
    v1::GetRequest request;
    ASSERT_TRUE(UnaryCall::Parse(bytes, request).ok());
    if (request.session_id() == "held") return;
    v1::GetResponse response;
    response.set_limit(static_cast<std::int64_t>(request.session_id().size()));
    if (request.has_input()) {
      response.add_messages()->set_text(
          std::string(static_cast<std::size_t>(std::atoi(request.input().c_str())), 'x'));
    }
    auto hold = rpc_->TakeReply(static_cast<std::int64_t>(response.ByteSizeLong()));
    if (hold.ok()) {
      rpc_->SendLast(response.SerializeAsString(), *std::move(hold));
    } else {
      rpc_->Finish(hold.status(), "id");
    }
  }
  void OnReadEnd(const absl::Status& status) override {
    rpc_->Finish(status.ok() ? absl::InvalidArgumentError("no request") : status, {});
  }
  void OnCancel() override { ++cancelled_; }

 private:
  const RpcCallPtr rpc_;
  std::atomic<int>& cancelled_;
};

class Http2ServerTest : public ::testing::Test {
 protected:
  void Serve(Http2ServerOptions options = {}) {
    methods_.Add("/memoryd.v1.MemoryService/Get", [this](RpcCallPtr rpc) {
      if (const absl::Status status = rpc->ChargeTo("tenant"); !status.ok()) {
        rpc->Finish(status, {});
        return;
      }
      rpc->SetHandler(std::make_shared<Answering>(rpc, &cancelled_));
      rpc->Read();
    });
    if (options.addresses.empty()) options.addresses = {"127.0.0.1:0"};
    auto started = Http2Server::Start(std::move(options), &methods_, &budget_);
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
  }

  // Connections of their own.
  std::unique_ptr<v1::MemoryService::Stub> Connect() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    return v1::MemoryService::NewStub(grpc::CreateCustomChannel(
        server_->addresses()[0], grpc::InsecureChannelCredentials(), arguments));
  }

  static grpc::Status Get(v1::MemoryService::Stub& stub, const std::string& session_id,
                          const std::string& input, v1::GetResponse& response,
                          std::chrono::milliseconds timeout = std::chrono::minutes(1)) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + timeout);
    v1::GetRequest request;
    request.set_session_id(session_id);
    if (!input.empty()) request.set_input(input);
    return stub.Get(&context, request, &response);
  }

  // Waits until nobody holds anything.
  void ExpectAllGivenBack() {
    while (server_->stats().open() > 0 || budget_.held() > 0) std::this_thread::yield();
    EXPECT_EQ(budget_.held(), 0);
    EXPECT_EQ(budget_.holders(), 0);
    EXPECT_EQ(server_->unauthenticated_held(), 0);
  }

  RpcMethods methods_;
  MemoryBudget budget_{64 << 20};
  std::atomic<int> cancelled_{0};
  std::unique_ptr<Http2Server> server_;
};

TEST_F(Http2ServerTest, MessagesOfEverySizeGoThereAndBack) {
  Serve();
  {
    const auto stub = Connect();
    for (const std::size_t size : {0U, 1U, 1000U, 16379U, 16384U, 65531U, 70000U, 3000000U}) {
      v1::GetResponse response;
      const grpc::Status status =
          Get(*stub, std::string(size, 's'), std::to_string(size), response);
      ASSERT_TRUE(status.ok()) << size << ": " << status.error_message();
      EXPECT_EQ(response.limit(), static_cast<std::int64_t>(size));
      EXPECT_EQ(response.messages(0).text().size(), size);
    }
  }
  ExpectAllGivenBack();
}

TEST_F(Http2ServerTest, ARequestAboveTheLimitIsRefusedAndNamesIt) {
  Http2ServerOptions options;
  options.max_message_bytes = 1000;
  Serve(options);
  const auto stub = Connect();
  v1::GetResponse response;
  const grpc::Status status = Get(*stub, std::string(100'000, 's'), "", response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(status.error_message().find("1000"), std::string::npos) << status.error_message();
  EXPECT_TRUE(Get(*stub, "s", "", response).ok()) << "the connection goes on";
}

TEST_F(Http2ServerTest, AnUnknownMethodIsUnimplemented) {
  Serve();
  const auto stub = Connect();
  grpc::ClientContext context;
  v1::PutResponse response;
  EXPECT_EQ(stub->Put(&context, {}, &response).error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(Http2ServerTest, AReplyThatTheBudgetHasNoRoomForIsRefused) {
  Serve();
  const auto stub = Connect();
  v1::GetResponse response;
  const grpc::Status status = Get(*stub, "s", std::to_string(40 << 20), response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Get(*stub, "s", std::to_string(20 << 20), response).ok());
}

TEST_F(Http2ServerTest, AHandlerHearsThatItsCallerIsGone) {
  Serve();
  v1::GetResponse response;
  EXPECT_EQ(Get(*Connect(), "held", "", response, std::chrono::milliseconds(50)).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  ExpectAllGivenBack();
  EXPECT_EQ(cancelled_.load(), 1);
}

TEST_F(Http2ServerTest, AllIsGivenBackAfterAnyMixOfCalls) {
  Http2ServerOptions options;
  options.threads = 2;
  Serve(options);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([this, caller] {
      const auto stub = Connect();
      for (int i = 0; i < 60; ++i) {
        grpc::ClientContext context;
        v1::GetRequest request;
        v1::GetResponse response;
        const int kind = (i + caller) % 6;
        request.set_session_id(kind == 0 ? "held" : std::string(kind == 1 ? 200'000 : 10, 's'));
        if (kind == 2) request.set_input(std::to_string(1 << 20));
        if (kind == 3) request.set_input(std::to_string(100 << 20));  // Refused.
        if (kind == 0) {
          context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(5));
        }
        std::thread canceller;
        if (kind == 4 || kind == 2) canceller = std::thread([&context] { context.TryCancel(); });
        stub->Get(&context, request, &response);
        if (canceller.joinable()) canceller.join();
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  ExpectAllGivenBack();
}

TEST_F(Http2ServerTest, ConnectionsOfOneAddressAreBounded) {
  Http2ServerOptions options;
  options.max_connections_per_address = 2;
  Serve(options);
  v1::GetResponse response;
  const auto one = Connect();
  const auto two = Connect();
  EXPECT_TRUE(Get(*one, "s", "", response).ok());
  EXPECT_TRUE(Get(*two, "s", "", response).ok());
  EXPECT_EQ(Get(*Connect(), "s", "", response).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_GE(server_->stats().ended(ConnectionEnd::kTooManyOfOne), 1u);
  EXPECT_TRUE(Get(*one, "s", "", response).ok()) << "others are unhurt";
}

TEST_F(Http2ServerTest, AnAddressInUseIsNamed) {
  Serve();
  Http2ServerOptions options;
  options.addresses = {server_->addresses()[0]};
  const auto second = Http2Server::Start(std::move(options), &methods_, &budget_);
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  EXPECT_NE(second.status().message().find(server_->addresses()[0]), absl::string_view::npos);
  EXPECT_NE(second.status().message().find("in use"), absl::string_view::npos);
}

TEST_F(Http2ServerTest, AUnixSocketIsForItsOwnerAndReplacesADeadOne) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("http2_server_test-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const std::string path = folder / "s";
  Http2ServerOptions options;
  options.addresses = {"unix:" + path};
  // One that nobody listens on.
  const int dead = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  std::strncpy(name.sun_path, path.c_str(), sizeof(name.sun_path) - 1);
  ASSERT_EQ(::bind(dead, reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
  ::close(dead);
  Serve(options);
  struct stat status = {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  v1::GetResponse response;
  EXPECT_TRUE(Get(*Connect(), "s", "", response).ok());
  EXPECT_TRUE(absl::IsUnavailable(Http2Server::Start(options, &methods_, &budget_).status()))
      << "somebody listens there";
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
  std::ofstream(path) << "a file of somebody";
  EXPECT_TRUE(absl::IsUnavailable(Http2Server::Start(options, &methods_, &budget_).status()));
  EXPECT_TRUE(std::filesystem::exists(path));
  std::filesystem::remove_all(folder);
}

TEST_F(Http2ServerTest, AShutdownEndsWhatDoesNotEndByItself) {
  Serve();
  const auto stub = Connect();
  grpc::Status status;
  std::thread caller([&] {
    v1::GetResponse response;
    status = Get(*stub, "held", "", response);
  });
  while (budget_.held() == 0) std::this_thread::yield();
  server_->Shutdown(Clock::now());
  caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
  EXPECT_EQ(cancelled_.load(), 1);
  EXPECT_EQ(budget_.held(), 0);
}

}  // namespace
}  // namespace memoryd
