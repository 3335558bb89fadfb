#include "core/engine/write.h"

#include "core/base/error.h"

namespace memoryd {

absl::Status RequestIdReused() {
  return Error(absl::StatusCode::kAlreadyExists, "REQUEST_ID_REUSED",
               "request_id: was used with another request; use a new one for every new request",
               {{"field", "request_id"}});
}

absl::Status SessionNotFound() {
  return Error(absl::StatusCode::kNotFound, "SESSION_NOT_FOUND", "there is no such session");
}

absl::Status BlockNotFound() {
  return Error(absl::StatusCode::kNotFound, "BLOCK_NOT_FOUND",
               "block: the session has no block of this name");
}

absl::Status MessageChanged() {
  return Error(absl::StatusCode::kAborted, "MESSAGE_CHANGED",
               "message_id: the message has changed meanwhile, again and again; try again");
}

absl::Status Reported(const absl::Status& status) {
  if (absl::IsUnavailable(status) && ErrorReason(status).empty()) return StoreUnavailable();
  return status;
}

absl::Status OutcomeUnknown() {
  return Error(absl::StatusCode::kUnavailable, "OUTCOME_UNKNOWN",
               "the store did not confirm the write in time: it may be stored; retry it with the "
               "same request_id");
}

void Write::Expire() {
  State state = state_.load();
  while (state != State::kFinished) {
    if (!state_.compare_exchange_weak(state, State::kFinished)) continue;
    done_(state == State::kCommitting ? OutcomeUnknown() : StoreUnavailable(), {}, false);
    return;
  }
}

}  // namespace memoryd
