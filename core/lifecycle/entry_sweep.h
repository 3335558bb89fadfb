// Finds the entries of a block that hold what is not to be said any more.
#ifndef MEMORYD_CORE_LIFECYCLE_ENTRY_SWEEP_H_
#define MEMORYD_CORE_LIFECYCLE_ENTRY_SWEEP_H_

#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "core/model/job.h"
#include "core/model/session.h"
#include "core/storage/store.h"
#include "core/writes/write.h"

namespace memoryd {

// About so many entries go with one write.
inline constexpr std::int64_t kEntriesAtOnce = 250;

// What is to become at `now_us` of entries of `block`, a `vector` block of the session whose row is
// `row`, with a `ttl` unless `ttl_us` is 0; nullopt when its state says that there is nothing to be
// done. Blocks. Reads few rows for each
// message that is gone or was changed, as entries stand in the order of messages, and all of those
// that don't.
//
// An entry that holds such a message goes, and what it said of others is fed once more. So go those
// that hold a piece of one of these others, since they would be told twice. What holds a message
// that retention has taken is not made anew: an entry goes with its first message. So it is with
// what is too old.
absl::StatusOr<std::optional<EntryRemoval>> FindHiddenEntries(
    Store& store, const SessionKey& key, const SessionRow& row, const BlockState& block,
    std::int64_t ttl_us, std::int64_t now_us, const std::function<bool()>& stopping);

}  // namespace memoryd

#endif  // MEMORYD_CORE_LIFECYCLE_ENTRY_SWEEP_H_
