// What a failed attempt of a call says of the call, for Client.
#ifndef MEMORYD_ATTEMPTS_H_
#define MEMORYD_ATTEMPTS_H_

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <optional>

namespace memoryd::client {

// Whether the attempt may have been done or not. CANCELLED is how gRPC ends calls that meet a
// server as it goes.
bool EndsWithoutAnswer(const absl::Status& status);

// Whether the attempt was refused before anybody looked whether an earlier one was done, or came
// too late for that.
bool SaysNothingOfEarlierAttempts(const absl::Status& status);

// In how long the call may come again that the server has refused, with nothing started. None: the
// server has said nothing of that.
std::optional<absl::Duration> ToldToWait(const absl::Status& status);

}  // namespace memoryd::client

#endif  // MEMORYD_ATTEMPTS_H_
