// Spans of calls, for a collector of OpenTelemetry's.
#ifndef MEMORYD_SERVER_OPS_SPAN_EXPORTER_H_
#define MEMORYD_SERVER_OPS_SPAN_EXPORTER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/model/trace_context.h"
#include "server/wire/method.h"

namespace memoryd {

// A call that has just ended. It names no tenant, session or principal, not even as a hash: a
// collector is another party, who learns how long a call took and not whose memory it was about.
struct CallSpan {
  Method method = Method::kPut;
  // With the call's span and that of the caller, its parent. The ids are ours: models and workers
  // have been told of them.
  TracePtr trace;
  absl::StatusCode code = absl::StatusCode::kOk;
  std::chrono::steady_clock::duration took{};
};

// What became of spans. Those that wait are none of these yet.
struct SpanCounts {
  std::uint64_t exported = 0;
  std::uint64_t failed = 0;   // The collector did not take them, in time or at all.
  std::uint64_t dropped = 0;  // Too many waited.
};

class SpanExporter {
 public:
  virtual ~SpanExporter() = default;

  // Whether the caller wants the call recorded: it says so in its `traceparent`.
  static bool Wants(const TracePtr& trace) {
    return trace != nullptr && trace->traceparent.ends_with("01");
  }

  // Never waits. Any thread.
  virtual void Export(CallSpan span) = 0;
  // Once: hands over what waits, as long as the collector takes it until `deadline`, and at most a
  // second longer. Spans that end later are dropped.
  virtual void Shutdown(std::chrono::steady_clock::time_point deadline) = 0;
  virtual SpanCounts counts() const = 0;
};

// Whether this build can export; only one with opentelemetry-cpp can.
bool CanExportSpans();

// Sends to `endpoint` by OTLP over HTTP. UNIMPLEMENTED where CanExportSpans() is false. Once in a
// process.
absl::StatusOr<std::unique_ptr<SpanExporter>> MakeSpanExporter(const std::string& endpoint,
                                                               std::string_view version);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_OPS_SPAN_EXPORTER_H_
