// What callers are told of sessions, messages and the store.
#ifndef MEMORYD_CORE_SESSIONS_SESSION_ERRORS_H_
#define MEMORYD_CORE_SESSIONS_SESSION_ERRORS_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace memoryd {

absl::Status SessionNotFound();
// PERMISSION_DENIED `SUBJECT_NOT_GRANTED`: the caller's credential is of one subject, and `field`
// asks for what is of another, or of none.
absl::Status SubjectNotGranted(std::string_view field);
// ALREADY_EXISTS `SESSION_EXISTS`.
absl::Status SessionExists(std::string_view field);
// INVALID_ARGUMENT when the name of a new session, or of whom it is about, holds characters that do
// not show: two of them would look alike.
absl::Status CheckNewName(std::string_view field, std::string_view name);
// ABORTED `REVISION_MISMATCH`.
absl::Status RevisionMismatch(std::int64_t current);
absl::Status BlockNotFound();
// FAILED_PRECONDITION `ACTIVE_BYTES`: so many bytes are active, too many to be read at once.
absl::Status SessionTooLarge(std::int64_t active_bytes);
// RESOURCE_EXHAUSTED `ACTIVE_BYTES`: with what `field` has, so many would be.
absl::Status ActiveBytesExceeded(std::string_view field, std::int64_t active_bytes,
                                 std::int64_t max_active_bytes);

// ABORTED `MESSAGE_CHANGED` for a message that has changed since it was found.
absl::Status MessageChanged();
// The same of a content: `CONTENT_CHANGED`.
absl::Status ContentChanged();

// UNAVAILABLE for a write that may or may not be stored.
absl::Status OutcomeUnknown();

// NOT_FOUND `MESSAGE_NOT_FOUND`; `field` has the id.
absl::Status MessageNotFound(std::string_view field = "message_id");

// NOT_FOUND `CONTENT_NOT_FOUND`.
absl::Status ContentNotFound();

}  // namespace memoryd

#endif  // MEMORYD_CORE_SESSIONS_SESSION_ERRORS_H_
