// Why a store failed, for the operator's log: a status carries it past the sentence that callers
// get.
#ifndef MEMORYD_CORE_BASE_ERROR_CAUSE_H_
#define MEMORYD_CORE_BASE_ERROR_CAUSE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace memoryd {

struct ErrorCause {
  std::string code;  // An SQLSTATE, or the name of a result of SQLite, such as "SQLITE_FULL".
  std::string text;  // What the store or its client library said, in one line.
};

// `status` with its cause, in place of one that it had. `text` may name hosts, users, databases,
// tables and files, and holds nothing of a tenant's and no password; blanks and line ends in it
// become one blank each, and it is cut at 1,000 bytes. An OK status stays as it is.
absl::Status WithCause(absl::Status status, std::string_view code, std::string_view text);

// Both empty when there is none. For logs: no caller may see it.
ErrorCause CauseOf(const absl::Status& status);

// The status' message and its cause, for a line of the log.
std::string TextForLog(const absl::Status& status);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BASE_ERROR_CAUSE_H_
