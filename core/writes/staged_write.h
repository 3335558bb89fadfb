// The steps in which a session is written in pieces (docs/adr/0027).
#ifndef MEMORYD_CORE_WRITES_STAGED_WRITE_H_
#define MEMORYD_CORE_WRITES_STAGED_WRITE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "core/model/session.h"
#include "core/writes/write.h"
#include "core/writes/write_queue.h"

namespace memoryd {

// Of one commit: small, so that a session in pieces never holds up the commits of others for long.
inline constexpr std::int64_t kPieceRows = 250;
inline constexpr std::int64_t kPieceBytes = std::int64_t{512} << 10;

// Submits a BeginStaged, AddStaged or DropStaged; giving up has time of its own. Nobody sees what
// becomes of it, so an unknown outcome is UNAVAILABLE.
void SubmitStaged(WriteQueue& writes, const SessionKey& key, WriteCommand step,
                  std::chrono::steady_clock::time_point deadline,
                  std::function<void(absl::Status)> then, std::string subject = {});

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_STAGED_WRITE_H_
