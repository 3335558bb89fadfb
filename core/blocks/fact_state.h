// What a fact block of profile `default` knows, and its stored form.
#ifndef MEMORYD_CORE_BLOCKS_FACT_STATE_H_
#define MEMORYD_CORE_BLOCKS_FACT_STATE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace memoryd {

struct Fact {
  std::int64_t id = 0;  // From 1, never used again.
  std::string text;
  std::vector<std::string> evidence;  // Ids of messages, the oldest first; the latest few.
  std::int64_t first_us = 0;          // When it was first and last said, by the server's clock.
  std::int64_t last_us = 0;
  std::int64_t seen = 1;  // How many answers said it.
  // 0 to 1. What a user said is trusted more than what only tools or models did, and what rests on
  // anybody untrusted least; each time it is said again by others halves what is missing to 1.
  double trust = 0;
  std::string writer;       // Whose credential wrote it; empty: a model did.
  std::int64_t change = 0;  // By which a caller added it; 0: none did.

  friend bool operator==(const Fact&, const Fact&) = default;
};

// Why a fact is in the history.
enum class FactEnd { kReplaced, kCondensed, kEvicted, kUndone, kRetired, kCorrected, kDeleted };

// A fact that no longer holds, and what took its place.
struct PastFact {
  Fact fact;
  FactEnd end = FactEnd::kReplaced;
  std::int64_t change = 0;  // Facts that left together have the same.
  std::int64_t time_us = 0;
  std::string job_id;
  std::vector<std::int64_t> by;       // Ids of the facts that took its place.
  std::vector<std::int64_t> brought;  // Those of them that came with the change.
  std::string writer;                 // Whose credential took it out; empty for a job.

  friend bool operator==(const PastFact&, const PastFact&) = default;
};

struct FactState {
  std::int64_t next_id = 1;
  std::int64_t next_change = 1;
  std::vector<Fact> facts;        // The oldest first.
  std::vector<PastFact> history;  // The latest last; at most kMaxPastFacts.

  friend bool operator==(const FactState&, const FactState&) = default;

  // At most kMaxBlockState bytes: the oldest history is left out, then, in the returned text only,
  // the facts of least trust.
  std::string ToJson() const;
  // DATA_LOSS for what ToJson() did not write. "" is the empty state.
  static absl::StatusOr<FactState> FromJson(std::string_view json);
};

inline constexpr std::size_t kMaxPastFacts = 200;

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_FACT_STATE_H_
