#include "server/ops/span_exporter.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>

#include "memoryd/v1/block_service.pb.h"
#include "memoryd/v1/job_service.pb.h"
#include "memoryd/v1/memory_service.pb.h"
#include "memoryd/v1/server_service.pb.h"
#include "memoryd/v1/session_service.pb.h"
#include "memoryd/v1/worker_service.pb.h"

namespace memoryd {
namespace {

TEST(SpanExporterTest, EachMethodIsOfTheServiceThatHasIt) {
  // Of each file one message, so that it is linked.
  v1::GetBlockRequest::descriptor();
  v1::GetJobRequest::descriptor();
  v1::GetRequest::descriptor();
  v1::GetServerInfoRequest::descriptor();
  v1::GetSessionRequest::descriptor();
  v1::AttachRequest::descriptor();
  const auto* const pool = google::protobuf::DescriptorPool::generated_pool();
  for (std::size_t i = 0; i < kMethods.size(); ++i) {
    const std::string name = std::string("memoryd.v1.")
                                 .append(ServiceOf(static_cast<Method>(i)))
                                 .append(".")
                                 .append(kMethods[i].name);
    EXPECT_NE(pool->FindMethodByName(name), nullptr) << name;
  }
}

TEST(SpanExporterTest, OnlySampledCallsAreWanted) {
  EXPECT_FALSE(SpanExporter::Wants(nullptr));
  const std::string ids = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-";
  for (const auto& [flags, wanted] : {std::pair("00", false), std::pair("01", true),
                                      std::pair("02", false), std::pair("ff", true)}) {
    const std::string traceparent = ids + flags;
    const auto caller = ParseTraceparent(traceparent);
    ASSERT_TRUE(caller.has_value());
    EXPECT_EQ(SpanExporter::Wants(MakeTrace(*caller, "")), wanted) << flags;
  }
}

TEST(SpanExporterTest, ABuildThatCannotExportMakesNoExporter) {
  const absl::Status status = MakeSpanExporter("http://localhost", "1").status();
  EXPECT_EQ(absl::IsUnimplemented(status), !CanExportSpans()) << status;
}

}  // namespace
}  // namespace memoryd
