#include "tests/benchmark/workload.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "memoryd/v1/memory_service.pb.h"

namespace memoryd::benchmark {
namespace {

using Kind = WorkloadOptions::Kind;

template <typename Request>
Request Parse(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(bytes.Dump(&slices).ok());
  std::string joined;
  for (const grpc::Slice& slice : slices) {
    joined.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  Request request;
  EXPECT_TRUE(request.ParseFromString(joined));
  return request;
}

TEST(WorkloadTest, ABatchHasPutsOfTheSessionsInTurn) {
  const Workload workload({.kind = Kind::kPutBatch,
                           .session_prefix = "s",
                           .sessions = 3,
                           .message_bytes = 200,
                           .puts_per_call = 2,
                           .with_request_id = true});
  std::set<std::string> ids;
  for (std::uint64_t number = 0; number < 3; ++number) {
    const Workload::Call call = workload.Make(number);
    EXPECT_EQ(*call.method, "/memoryd.v1.MemoryService/PutBatch");
    const auto request = Parse<v1::PutBatchRequest>(call.request);
    ASSERT_EQ(request.puts_size(), 2);
    std::uint64_t written = number * 2;
    for (const v1::PutRequest& put : request.puts()) {
      EXPECT_EQ(put.session_id(), "s-" + std::to_string(written++ % 3));
      EXPECT_EQ(put.messages(0).text().size(), 200U);
      ids.insert(put.request_id());
    }
  }
  EXPECT_EQ(ids.size(), 6U);
}

TEST(WorkloadTest, PutsGoOverTheSessionsInTurn) {
  const Workload workload(
      {.session_prefix = "s", .sessions = 2, .message_bytes = 10, .messages_per_put = 3});
  for (std::uint64_t number = 0; number < 5; ++number) {
    const Workload::Call call = workload.Make(number);
    EXPECT_EQ(*call.method, "/memoryd.v1.MemoryService/Put");
    const auto request = Parse<v1::PutRequest>(call.request);
    EXPECT_EQ(request.session_id(), number % 2 == 0 ? "s-0" : "s-1");
    ASSERT_EQ(request.messages_size(), 3);
    EXPECT_EQ(request.messages(2).text().size(), 10U);
    EXPECT_FALSE(request.has_request_id());
    EXPECT_FALSE(request.has_config());
  }
}

TEST(WorkloadTest, SessionsBeginWhereTheyAreToldTo) {
  const Workload workload({.session_prefix = "s", .sessions = 2, .first_session = 7});
  EXPECT_EQ(Parse<v1::PutRequest>(workload.Make(0).request).session_id(), "s-7");
  EXPECT_EQ(Parse<v1::PutRequest>(workload.Make(3).request).session_id(), "s-8");
}

TEST(WorkloadTest, PutsSayHowTheirSessionsRemember) {
  const Workload workload(
      {.sessions = 1, .profile = "llama-index", .token_limit = 2000, .token_flush_size = 200});
  const auto request = Parse<v1::PutRequest>(workload.Make(0).request);
  EXPECT_EQ(request.config().profile(), "llama-index");
  EXPECT_EQ(request.config().token_limit(), 2000);
  EXPECT_EQ(request.config().token_flush_size(), 200);
}

TEST(WorkloadTest, RequestIdsAreNeverUsedTwice) {
  const Workload workload({.sessions = 4, .with_request_id = true});
  std::set<std::string> ids;
  for (std::uint64_t number = 0; number < 100; ++number) {
    const auto request = Parse<v1::PutRequest>(workload.Make(number).request);
    EXPECT_EQ(request.messages_size(), 1);
    ids.insert(request.request_id());
  }
  EXPECT_EQ(ids.size(), 100U);
}

TEST(WorkloadTest, AMixHasItsShareOfPuts) {
  const Workload workload({.kind = Kind::kMix, .sessions = 7, .put_share = 0.25});
  int puts = 0;
  for (std::uint64_t number = 0; number < 10000; ++number) {
    const Workload::Call call = workload.Make(number);
    if (call.method->ends_with("/Put")) {
      ++puts;
    } else {
      EXPECT_FALSE(Parse<v1::GetRequest>(call.request).session_id().empty());
    }
  }
  EXPECT_NEAR(puts, 2500, 50);
}

}  // namespace
}  // namespace memoryd::benchmark
