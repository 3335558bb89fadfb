#include "tests/benchmark/load_client.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "memoryd/v1/memory_service.grpc.pb.h"
#include "tests/benchmark/workload.h"

namespace memoryd::benchmark {
namespace {

// Counts Puts, and refuses those of the session `load-1`.
class CountingService final : public v1::MemoryService::CallbackService {
 public:
  grpc::ServerUnaryReactor* Put(grpc::CallbackServerContext* context, const v1::PutRequest* request,
                                v1::PutResponse*) override {
    ++puts;
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(request->session_id() == "load-1"
                        ? grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "refused")
                        : grpc::Status::OK);
    return reactor;
  }

  std::atomic<std::uint64_t> puts = 0;
};

class LoadClientTest : public testing::Test {
 protected:
  LoadClientTest() {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    target_ = "127.0.0.1:" + std::to_string(port);
  }

  CountingService service_;
  std::unique_ptr<grpc::Server> server_;
  std::string target_;
};

TEST_F(LoadClientTest, MakesExactlyTheCallsAskedForAndCountsEveryAnswer) {
  auto client = LoadClient::Connect(target_, 2);
  ASSERT_TRUE(client.ok());
  const LoadResult result =
      client->Run(Workload({.sessions = 4}), {.outstanding = 7, .threads = 3, .count = 200});
  EXPECT_EQ(service_.puts, 200U);
  EXPECT_EQ(result.by_code[grpc::StatusCode::OK], 150U);
  EXPECT_EQ(result.by_code[grpc::StatusCode::RESOURCE_EXHAUSTED], 50U);
  EXPECT_EQ(result.latencies_ns.size(), 150U);
  EXPECT_EQ(result.refused_ns.size(), 50U);
  EXPECT_EQ(result.first_error, "refused");
  EXPECT_GT(result.seconds, 0);
}

TEST_F(LoadClientTest, FewerCallsThanSlotsEnd) {
  auto client = LoadClient::Connect(target_, 1);
  ASSERT_TRUE(client.ok());
  const LoadResult result =
      client->Run(Workload({.sessions = 1}), {.outstanding = 8, .threads = 8, .count = 3});
  EXPECT_EQ(result.by_code[grpc::StatusCode::OK], 3U);
}

TEST_F(LoadClientTest, AnOpenLoopAnswersEveryArrivalThoughThereAreFewSlots) {
  auto client = LoadClient::Connect(target_, 1);
  ASSERT_TRUE(client.ok());
  const LoadResult result =
      client->Run(Workload({.session_prefix = "open", .sessions = 4}),
                  {.outstanding = 2, .duration = std::chrono::milliseconds(50), .rate = 4000});
  // 200 arrivals are expected; the seed is fixed and so is their number.
  EXPECT_GT(result.by_code[grpc::StatusCode::OK], 150U);
  EXPECT_LT(result.by_code[grpc::StatusCode::OK], 250U);
  EXPECT_EQ(result.by_code[grpc::StatusCode::OK], service_.puts);
}

TEST(LoadClientConnectTest, SaysThatNobodyListens) {
  EXPECT_EQ(LoadClient::Connect("unix:/nonexistent/socket", 1, std::chrono::milliseconds(50))
                .status()
                .code(),
            absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace memoryd::benchmark
