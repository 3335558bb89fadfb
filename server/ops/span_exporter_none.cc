// Of a build without opentelemetry-cpp.
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/ops/span_exporter.h"

namespace memoryd {

bool CanExportSpans() { return false; }

absl::StatusOr<std::unique_ptr<SpanExporter>> MakeSpanExporter(const std::string& /*endpoint*/,
                                                               std::string_view /*version*/) {
  return absl::UnimplementedError("this build has no OpenTelemetry");
}

}  // namespace memoryd
