// What a write names, as it was found in the store.
#ifndef MEMORYD_CORE_WRITES_FOUND_MESSAGES_H_
#define MEMORYD_CORE_WRITES_FOUND_MESSAGES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "core/model/message.h"

namespace memoryd {

// The stored messages or content that a write names, as it was found before the write was decided
// on.
struct FoundMessages {
  absl::Status status;           // Why there is none to be changed.
  std::uint64_t generation = 0;  // Of what was found.
  // Of the session as they were read.
  std::int64_t revision = 0;
  std::int64_t watermark = 0;
  std::int64_t next_position = 0;
  // Those that are named; for a DeleteMessage also what goes with it. Ascending.
  std::vector<MessagePtr> messages;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_FOUND_MESSAGES_H_
