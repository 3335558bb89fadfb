// Who has changed what: a record of the calls that may change memory.
#ifndef MEMORYD_SERVER_OPS_AUDIT_LOG_H_
#define MEMORYD_SERVER_OPS_AUDIT_LOG_H_

#include <spdlog/spdlog.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/wire/method.h"

namespace memoryd {

// A call that has ended. The views are read during AuditLog::Write().
struct AuditRecord {
  Method method = Method::kPut;
  const absl::Status& status;
  std::string_view request_id;
  std::string_view trace_id;    // Empty for none.
  std::string_view tenant;      // Empty where the caller is not known,
  std::string_view principal;   // and this too without authentication.
  std::string_view session_id;  // Empty where the request was not read.
  std::string_view name_space;  // As UnaryCall has it.
  std::string_view subject;     // Of an EraseSubject.
  std::string_view reply;       // The serialized response; empty for an error.
};

// Lines of JSON in a file, or on standard error; docs/MONITORING.md has the fields. Never a body, a
// credential or a message; tenant and session as in the call log.
//
// Nobody who writes ever waits: a line is put into a bounded queue, where the oldest makes room for
// it, and a thread of the log's own writes. What is lost so, or since the disk is full, is counted,
// logged, and leaves a line `"lost": N` in the record itself. A file that was renamed or removed is
// opened anew within a second of the next line, so that it can be rotated. Nothing is synced.
class AuditLog {
 public:
  // `target` is a path or `stderr`. INVALID_ARGUMENT with one line that names the setting when the
  // file can't be opened.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& target);
  // What is queued gets half a second to leave.
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  // Whether calls of this method belong into the record, whatever is in them.
  static bool Wants(Method method) {
    return TraitsOf(method).right == Right::kWrite || method == Method::kImportSession ||
           method == Method::kImportNamespace;
  }

  // Any thread.
  void Write(const AuditRecord& record);

  // Lines that were lost. Any thread.
  std::uint64_t lost() const;

 private:
  class Sink;

  explicit AuditLog(std::shared_ptr<Sink> sink);

  std::shared_ptr<spdlog::details::thread_pool> pool_;
  std::shared_ptr<Sink> sink_;
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_OPS_AUDIT_LOG_H_
