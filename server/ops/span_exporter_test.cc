#include "server/ops/span_exporter.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "core/model/trace_context.h"

namespace memoryd {
namespace {

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
