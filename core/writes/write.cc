#include "core/writes/write.h"

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/sessions/session_errors.h"
#include "core/storage/store.h"

namespace memoryd {

absl::StatusOr<std::string> ReplyOf(const RequestRecord& record, std::string_view fingerprint) {
  if (record.fingerprint == fingerprint) return record.reply;
  if (record.fingerprint.empty()) {
    return Error(absl::StatusCode::kFailedPrecondition, "REQUEST_FORGOTTEN",
                 "request_id: was used before, and what it stored has been erased; nothing was "
                 "stored. Use a new one to store it again",
                 {{"field", "request_id"}});
  }
  return Error(absl::StatusCode::kAlreadyExists, "REQUEST_ID_REUSED",
               "request_id: was used with another request; use a new one for every new request",
               {{"field", "request_id"}});
}

void Write::Expire() {
  State state = state_.load();
  while (state != State::kFinished) {
    if (!state_.compare_exchange_weak(state, State::kFinished)) continue;
    done_(state == State::kCommitting ? OutcomeUnknown() : StoreUnavailable());
    return;
  }
}

}  // namespace memoryd
