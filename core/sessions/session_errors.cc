#include "core/sessions/session_errors.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/base/visible_text.h"

namespace memoryd {

absl::Status SessionNotFound() {
  return Error(absl::StatusCode::kNotFound, "SESSION_NOT_FOUND", "there is no such session");
}

absl::Status SubjectNotGranted(std::string_view field) {
  return Error(absl::StatusCode::kPermissionDenied, "SUBJECT_NOT_GRANTED",
               std::string(field) +
                   ": the credential is of one subject, and this is not of that; ask for what is "
                   "of the credential's own subject",
               {{"field", std::string(field)}});
}

absl::Status SessionExists(std::string_view field) {
  return Error(absl::StatusCode::kAlreadyExists, "SESSION_EXISTS",
               std::string(field) + ": there is such a session already",
               {{"field", std::string(field)}});
}

absl::Status CheckNewName(std::string_view field, std::string_view name) {
  if (ShowsAllCharacters(name)) return absl::OkStatus();
  return InvalidField(field,
                      "must not hold characters that do not show (Unicode: default-ignorable) but "
                      "for joiners that change letters, and emoji");
}

absl::Status RevisionMismatch(std::int64_t current) {
  return Error(absl::StatusCode::kAborted, "REVISION_MISMATCH",
               "expected_revision is not the session's revision: read it again and decide anew",
               {{"current_revision", std::to_string(current)}});
}

absl::Status SessionTooLarge(std::int64_t active_bytes) {
  return Error(
      absl::StatusCode::kFailedPrecondition, "ACTIVE_BYTES",
      fmt::format(
          "session_id: its active messages have {} bytes, more than the setting active_mib "
          "allows to read at once; read them with GetAll or StreamAll, make them fewer with "
          "DeleteMessage, Reset or Set, or raise active_mib",
          active_bytes),
      {{"field", "session_id"},
       {"setting", "active_mib"},
       {"active_bytes", std::to_string(active_bytes)}});
}

absl::Status ActiveBytesExceeded(std::string_view field, std::int64_t active_bytes,
                                 std::int64_t max_active_bytes) {
  return Error(
      absl::StatusCode::kResourceExhausted, "ACTIVE_BYTES",
      fmt::format(
          "{}: with them the session's active messages would have {} bytes, more than the {} "
          "that the setting active_mib allows; make room with DeleteMessage, Reset or Set",
          field, active_bytes, max_active_bytes),
      {{"field", std::string(field)},
       {"setting", "active_mib"},
       {"active_bytes", std::to_string(active_bytes)},
       {"max_active_bytes", std::to_string(max_active_bytes)}});
}

absl::Status BlockNotFound() {
  return Error(absl::StatusCode::kNotFound, "BLOCK_NOT_FOUND",
               "block: the session has no block of this name");
}

absl::Status MessageChanged() {
  return Error(absl::StatusCode::kAborted, "MESSAGE_CHANGED",
               "message_id: the message has changed meanwhile, again and again; try again");
}

absl::Status ContentChanged() {
  return Error(absl::StatusCode::kAborted, "CONTENT_CHANGED",
               "content_id: the session's contents have changed meanwhile, again and again; try "
               "again");
}

absl::Status OutcomeUnknown() {
  return Error(absl::StatusCode::kUnavailable, "OUTCOME_UNKNOWN",
               "the store did not confirm the write in time: it may be stored; retry it with the "
               "same request_id");
}

absl::Status MessageNotFound(std::string_view field) {
  return Error(absl::StatusCode::kNotFound, "MESSAGE_NOT_FOUND",
               fmt::format("{}: the session has no such message", field));
}

absl::Status ContentNotFound() {
  return Error(absl::StatusCode::kNotFound, "CONTENT_NOT_FOUND",
               "content_id: the session has no such content");
}

}  // namespace memoryd
