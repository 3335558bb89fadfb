// The one file that knows opentelemetry-cpp.
#include <fmt/format.h>
#include <opentelemetry/exporters/otlp/otlp_http_exporter_factory.h>
#include <opentelemetry/exporters/otlp/otlp_http_exporter_options.h>
#include <opentelemetry/sdk/common/global_log_handler.h>
#include <opentelemetry/sdk/instrumentationscope/instrumentation_scope.h>
#include <opentelemetry/sdk/resource/resource.h>
#include <opentelemetry/sdk/trace/batch_span_processor.h>
#include <opentelemetry/sdk/trace/batch_span_processor_options.h>
#include <opentelemetry/sdk/trace/exporter.h>
#include <opentelemetry/sdk/trace/recordable.h>
#include <opentelemetry/trace/span_context.h>
#include <opentelemetry/trace/trace_state.h>
#include <spdlog/spdlog.h>

#include <array>
#include <atomic>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <utility>
#include <vector>

#include "server/ops/span_exporter.h"

namespace memoryd {
namespace {

namespace api = opentelemetry::trace;
namespace internal_log = opentelemetry::sdk::common::internal_log;
namespace nostd = opentelemetry::nostd;
namespace otlp = opentelemetry::exporter::otlp;
namespace sdk = opentelemetry::sdk;

using opentelemetry::common::AttributeValue;
using opentelemetry::common::KeyValueIterable;
using opentelemetry::common::SystemTimestamp;
using Clock = std::chrono::steady_clock;
using Scope = sdk::instrumentationscope::InstrumentationScope;

constexpr std::size_t kMaxWaiting = 2048;
constexpr std::chrono::milliseconds kBatchTime(500);
// What an exit waits for a collector that hangs.
constexpr std::chrono::seconds kExportTime(1);

nostd::string_view Of(std::string_view text) { return {text.data(), text.size()}; }

template <typename Id>
Id FromHex(std::string_view digits) {
  std::array<std::uint8_t, Id::kSize> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char* const begin = digits.data() + 2 * i;
    std::from_chars(begin, begin + 2, bytes[i], 16);
  }
  return Id(nostd::span<const std::uint8_t, Id::kSize>(bytes.data(), bytes.size()));
}

// What the semantic conventions call an error of a server.
bool IsError(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
      return true;
    default:
      return false;
  }
}

// Whether the library has said on this thread that something failed: what its exporter returns is
// success, whatever became of the request.
thread_local bool said_failure = false;

// The library's own goes to standard output, where a server prints its addresses.
class LibraryLog final : public internal_log::LogHandler {
 public:
  void Handle(internal_log::LogLevel level, const char* /*file*/, int /*line*/, const char* message,
              const sdk::common::AttributeMap& /*attributes*/) noexcept override {
    if (level == internal_log::LogLevel::Error) said_failure = true;
    spdlog::debug("OpenTelemetry: {}", message);
  }
};

// A call as it waits, since what the library makes of it (an encoding, a trace's state that is
// looked at by regular expressions) is not for the threads that serve.
class WaitingSpan final : public sdk::trace::Recordable {
 public:
  explicit WaitingSpan(CallSpan call) : call_(std::move(call)) {}

  const CallSpan& call() const { return call_; }
  std::chrono::system_clock::time_point end() const { return end_; }

  void SetIdentity(const api::SpanContext&, api::SpanId) noexcept override {}
  void SetAttribute(nostd::string_view, const AttributeValue&) noexcept override {}
  void AddEvent(nostd::string_view, SystemTimestamp, const KeyValueIterable&) noexcept override {}
  void AddLink(const api::SpanContext&, const KeyValueIterable&) noexcept override {}
  void SetStatus(api::StatusCode, nostd::string_view) noexcept override {}
  void SetName(nostd::string_view) noexcept override {}
  void SetSpanKind(api::SpanKind) noexcept override {}
  void SetResource(const sdk::resource::Resource&) noexcept override {}
  void SetStartTime(SystemTimestamp) noexcept override {}
  void SetDuration(std::chrono::nanoseconds) noexcept override {}
  void SetInstrumentationScope(const Scope&) noexcept override {}

 private:
  const CallSpan call_;
  const std::chrono::system_clock::time_point end_ = std::chrono::system_clock::now();
};

struct State {
  std::atomic<std::size_t> waiting{0};
  std::atomic<std::uint64_t> exported{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<std::uint64_t> dropped{0};
  std::atomic<bool> closed{false};
  std::atomic<Clock::time_point> deadline{Clock::time_point::max()};
};

sdk::resource::Resource ResourceOf(std::string_view version) {
  const char* const name = std::getenv("OTEL_SERVICE_NAME");
  sdk::resource::ResourceAttributes attributes;
  attributes.SetAttribute("service.name", Of(name == nullptr || *name == '\0' ? "memoryd" : name));
  attributes.SetAttribute("service.version", Of(version));
  return sdk::resource::Resource::Create(attributes);
}

// On the processor's thread.
class CountedExporter final : public sdk::trace::SpanExporter {
 public:
  CountedExporter(std::unique_ptr<sdk::trace::SpanExporter> exporter, std::string_view version,
                  State* state)
      : exporter_(std::move(exporter)),
        state_(*state),
        resource_(ResourceOf(version)),
        scope_(Scope::Create("memoryd", Of(version))) {}

  std::unique_ptr<sdk::trace::Recordable> MakeRecordable() noexcept override {
    return exporter_->MakeRecordable();
  }
  sdk::common::ExportResult Export(
      const nostd::span<std::unique_ptr<sdk::trace::Recordable>>& spans) noexcept override {
    bool taken = false;
    if (Clock::now() < state_.deadline.load()) {
      std::vector<std::unique_ptr<sdk::trace::Recordable>> encoded;
      encoded.reserve(spans.size());
      for (const auto& span : spans) {
        encoded.push_back(Encode(static_cast<const WaitingSpan&>(*span)));
      }
      said_failure = false;
      const auto result = exporter_->Export({encoded.data(), encoded.size()});
      taken = result == sdk::common::ExportResult::kSuccess && !said_failure;
    }
    (taken ? state_.exported : state_.failed) += spans.size();
    state_.waiting -= spans.size();
    if (taken != taken_) {
      taken_ = taken;
      if (taken) {
        spdlog::info("the collector of otlp_endpoint takes spans again");
      } else {
        spdlog::warn("the collector of otlp_endpoint takes no spans; log_level: debug says why");
      }
    }
    return taken ? sdk::common::ExportResult::kSuccess : sdk::common::ExportResult::kFailure;
  }
  bool ForceFlush(std::chrono::microseconds timeout) noexcept override {
    return exporter_->ForceFlush(timeout);
  }
  bool Shutdown(std::chrono::microseconds timeout) noexcept override {
    return exporter_->Shutdown(timeout);
  }

 private:
  std::unique_ptr<sdk::trace::Recordable> Encode(const WaitingSpan& waiting) const {
    const CallSpan& call = waiting.call();
    const TraceContext& trace = *call.trace;
    const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(call.took);
    const std::string service = ServiceOf(TraitsOf(call.method));
    const std::string_view method = TraitsOf(call.method).name;
    std::unique_ptr<sdk::trace::Recordable> span = exporter_->MakeRecordable();
    const api::TraceFlags flags(api::TraceFlags::kIsSampled);
    span->SetIdentity(
        api::SpanContext(FromHex<api::TraceId>(trace.trace_id()),
                         FromHex<api::SpanId>(trace.span_id()), flags, /*is_remote=*/false,
                         api::TraceState::FromHeader(Of(trace.tracestate))),
        FromHex<api::SpanId>(trace.parent_id));
    span->SetTraceFlags(flags);
    span->SetName(fmt::format("{}/{}", service, method));
    span->SetSpanKind(api::SpanKind::kServer);
    span->SetResource(resource_);
    span->SetInstrumentationScope(*scope_);
    span->SetStartTime(SystemTimestamp(
        waiting.end() - std::chrono::duration_cast<std::chrono::system_clock::duration>(took)));
    span->SetDuration(took);
    if (IsError(call.code)) span->SetStatus(api::StatusCode::kError, "");
    span->SetAttribute("rpc.system", "grpc");
    span->SetAttribute("rpc.service", Of(service));
    span->SetAttribute("rpc.method", Of(method));
    span->SetAttribute("rpc.grpc.status_code", static_cast<std::int32_t>(call.code));
    return span;
  }

  const std::unique_ptr<sdk::trace::SpanExporter> exporter_;
  State& state_;
  const sdk::resource::Resource resource_;
  const nostd::unique_ptr<Scope> scope_;
  bool taken_ = true;
};

std::unique_ptr<sdk::trace::SpanExporter> HttpExporter(const std::string& endpoint) {
  // Reads the variables OTEL_EXPORTER_OTLP_*: headers, certificates, compression.
  otlp::OtlpHttpExporterOptions options;
  options.url = endpoint;
  options.content_type = otlp::HttpRequestContentType::kBinary;
  options.timeout = kExportTime;
  options.console_debug = false;
  return otlp::OtlpHttpExporterFactory::Create(options);
}

sdk::trace::BatchSpanProcessorOptions BatchOptions() {
  sdk::trace::BatchSpanProcessorOptions options;
  // Drops without a word what is more: so that is counted before.
  options.max_queue_size = 2 * kMaxWaiting;
  options.schedule_delay_millis = kBatchTime;
  return options;
}

class OtlpSpanExporter final : public SpanExporter {
 public:
  OtlpSpanExporter(const std::string& endpoint, std::string_view version)
      : processor_(std::make_unique<CountedExporter>(HttpExporter(endpoint), version, &state_),
                   BatchOptions()) {}

  void Export(CallSpan call) override {
    const bool too_many = state_.waiting.fetch_add(1) >= kMaxWaiting;
    if (too_many || state_.closed) {
      --state_.waiting;
      ++state_.dropped;
      return;
    }
    processor_.OnEnd(std::make_unique<WaitingSpan>(std::move(call)));
  }

  void Shutdown(Clock::time_point deadline) override {
    state_.deadline = deadline;
    state_.closed = true;
    processor_.Shutdown(kExportTime);
  }

  SpanCounts counts() const override { return {state_.exported, state_.failed, state_.dropped}; }

 private:
  State state_;
  sdk::trace::BatchSpanProcessor processor_;
};

}  // namespace

bool CanExportSpans() { return true; }

absl::StatusOr<std::unique_ptr<SpanExporter>> MakeSpanExporter(const std::string& endpoint,
                                                               std::string_view version) {
  internal_log::GlobalLogHandler::SetLogHandler(
      nostd::shared_ptr<internal_log::LogHandler>(new LibraryLog));
  return std::make_unique<OtlpSpanExporter>(endpoint, version);
}

}  // namespace memoryd
