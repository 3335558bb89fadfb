// The versions of the schema, which are the same for every store, and who can work on them.
#ifndef MEMORYD_CORE_STORAGE_SCHEMA_STEPS_H_
#define MEMORYD_CORE_STORAGE_SCHEMA_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>

namespace memoryd {

// A step of a store's schema to its next version. `readable_from` is the version of the oldest
// binaries that can work on a store after it (docs/adr/0042-way-back.md).
struct SchemaStep {
  const char* sql;
  std::int64_t readable_from;
};

// `readable_from` of the step to version i + 1. Binaries of versions below 8 refuse whatever is
// newer. Step 9 moves large values in SQLite alone (docs/adr/0053-large-values-apart.md); of steps
// 10 and 11 those from before them need not know (docs/adr/0055-units-and-turns.md,
// docs/adr/0063-items.md), and what they know of step 12 stays where it was for them
// (docs/adr/0068-flags-and-lists.md).
inline constexpr std::int64_t kPostgresReadableFrom[] = {1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8, 8};
inline constexpr std::int64_t kSqliteReadableFrom[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9};
inline constexpr std::size_t kReleasedSteps = std::size(kPostgresReadableFrom);
static_assert(std::size(kSqliteReadableFrom) == kReleasedSteps);

// Steps behind the last released one, of the store with this scheme: none, but in the executable
// memoryd_later_schema, which stands for a newer memoryd and has a definition of its own
// (tests/torture/later_steps.cc).
std::span<const SchemaStep> LaterSteps(std::string_view scheme);

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_SCHEMA_STEPS_H_
