#include "server/ops/call_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/random/random.h"
#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/base/sha256.h"
#include "core/model/trace_context.h"
#include "server/ops/log_line.h"
#include "server/wire/method.h"

namespace memoryd {
namespace {

constexpr std::size_t kMaxRequestId = 64;

bool IsHidden(const absl::StatusCode code) {
  return code == absl::StatusCode::kInternal || code == absl::StatusCode::kUnknown ||
         code == absl::StatusCode::kDataLoss;
}

bool IsServers(const absl::StatusCode code) {
  return IsHidden(code) || code == absl::StatusCode::kUnavailable ||
         code == absl::StatusCode::kResourceExhausted ||
         code == absl::StatusCode::kDeadlineExceeded;
}

spdlog::level::level_enum LevelOf(absl::StatusCode code) {
  if (IsHidden(code)) return spdlog::level::err;
  return IsServers(code) ? spdlog::level::warn : spdlog::level::info;
}

}  // namespace

bool CallLog::Wants(absl::StatusCode code) const {
  if (!log_.Wants(LevelOf(code))) return false;
  const LoggedCalls calls = calls_.load(std::memory_order_relaxed);
  return IsHidden(code) || calls == LoggedCalls::kAll ||
         (calls == LoggedCalls::kErrors && IsServers(code));
}

void CallLog::Write(const CallRecord& record) const {
  const absl::StatusCode code = record.status.code();
  LogLine line = log_.BeginLine();
  line.Message("call");
  line.Text("method", TraitsOf(record.method).name);
  line.Text("code", absl::StatusCodeToString(code));
  if (const std::string reason = ErrorReason(record.status); !reason.empty()) {
    line.Text("reason", reason);
  }
  line.Milliseconds("ms", record.took);
  line.Text("request_id", record.request_id);
  if (!record.trace_id.empty()) line.Text("trace_id", record.trace_id);
  if (record.trace != nullptr) {
    line.Text("span_id", record.trace->span_id());
    line.Text("parent_id", record.trace->parent_id);
  }
  if (!record.tenant.empty()) line.Text("tenant", ShortHash(record.tenant));
  if (!record.session_id.empty()) line.Text("session", ShortHash(record.session_id));
  if (IsHidden(code)) line.Text("error", std::string(record.status.message()));
  log_.Write(LevelOf(code), line);
}

std::string RequestId(std::string_view value) {
  const bool usable =
      !value.empty() && value.size() <= kMaxRequestId &&
      std::all_of(value.begin(), value.end(), [](char c) { return c > ' ' && c < 0x7F; });
  if (usable) return std::string(value);
  thread_local absl::BitGen generator;
  const auto high = absl::Uniform<std::uint64_t>(generator);
  return fmt::format("{:016x}{:016x}", high, absl::Uniform<std::uint64_t>(generator));
}

std::string_view TraceId(std::string_view traceparent) {
  const auto parsed = ParseTraceparent(traceparent);
  return parsed.has_value() ? parsed->trace_id : std::string_view();
}

}  // namespace memoryd
