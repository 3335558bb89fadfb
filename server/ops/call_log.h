// One line of the log for a call.
#ifndef MEMORYD_SERVER_OPS_CALL_LOG_H_
#define MEMORYD_SERVER_OPS_CALL_LOG_H_

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "core/model/trace_context.h"
#include "server/ops/log.h"
#include "server/wire/method.h"

namespace memoryd {

// Which calls get a line. kErrors: those that ended for a reason that is the server's.
enum class LoggedCalls { kErrors, kAll, kNone };

struct CallRecord {
  Method method = Method::kPut;
  const absl::Status& status;
  std::chrono::steady_clock::duration took{};
  std::string_view request_id;
  std::string_view trace_id;  // Empty for none.
  std::string_view tenant;
  std::string_view session_id;  // Empty for none.
  // With its span, as models and workers are told of it, and that of the caller; null for none.
  const TraceContext* trace = nullptr;
};

// Writes what tells one call from another and how it ended: never a body, a credential or a
// message. Tenant and session appear as the first 16 digits of their SHA-256. Any thread.
class CallLog {
 public:
  CallLog(Log* log, LoggedCalls calls) : log_(*log), calls_(calls) {}

  // Whether a call that ended so gets a line. INTERNAL, UNKNOWN and DATA_LOSS do always, since the
  // caller is not told what happened.
  bool Wants(absl::StatusCode code) const;
  void Write(const CallRecord& record) const;
  void SetCalls(LoggedCalls calls) { calls_.store(calls, std::memory_order_relaxed); }

 private:
  Log& log_;
  std::atomic<LoggedCalls> calls_;
};

// `value` as sent in x-request-id if it may serve as an id, which 1 to 64 visible ASCII characters
// may; else a new random one.
std::string RequestId(std::string_view value);

// The trace-id in a W3C `traceparent`, 32 hexadecimal digits; empty when there is none to be found.
std::string_view TraceId(std::string_view traceparent);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_OPS_CALL_LOG_H_
