// The changes that jobs and callers make to the state of a fact block, as pure functions.
#ifndef MEMORYD_CORE_BLOCKS_FACT_CHANGES_H_
#define MEMORYD_CORE_BLOCKS_FACT_CHANGES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/blocks/fact_state.h"
#include "core/blocks/fact_text.h"

namespace memoryd {

// A message that facts may rest on.
struct FactSource {
  std::string message_id;
  bool user = false;       // Said by the user.
  bool untrusted = false;  // Need not be believed.
};

// A job or a caller that changes facts.
struct FactJob {
  std::string job_id;  // Empty for a caller.
  std::int64_t now_us = 0;
  std::string writer = {};  // The caller's credential.
  // A fact that the job adds has at most this trust, and the job changes no fact that has more.
  double max_trust = 1;
};

// How far a fact is trusted that rests on what the user, another, or somebody who need not be
// believed has said.
inline constexpr double kUserTrust = 0.8;
inline constexpr double kOtherTrust = 0.4;
inline constexpr double kUntrustedTrust = 0.1;

inline constexpr std::size_t kMaxEvidence = 8;

// Takes the facts of an answer in. One that is known already confirms it. One that says which it
// replaces does, and the old ones go into the history. Evidence are the numbers, from 1, of
// `sources`; a fact that names none rests on all of them, and is trusted less. What rests on an
// untrusted source replaces only what does as well.
void TakeIn(FactState& state, std::span<const AnsweredFact> facts,
            std::span<const FactSource> sources, const FactJob& job);

// Puts the answer to the demand to condense in the place of all facts. A fact that says what it was
// made of inherits from it. What is not in the answer goes into the history. False, and nothing has
// changed, when it has no facts, or so few that most would be lost: fewer than a quarter of those
// there are.
bool Condense(FactState& state, std::span<const AnsweredFact> facts, const FactJob& job);

// Moves the facts of least trust, of equals the oldest, into the history until there are at most
// `max_facts`.
void Evict(FactState& state, std::size_t max_facts, const FactJob& job);

struct Retired {
  std::size_t facts = 0;  // That went into the history.
  bool changed = false;   // Any fact has lost evidence.
};

// Takes these messages out of the evidence of all facts. Facts that then have none left go into the
// history, together.
Retired RetireEvidence(FactState& state, std::span<const std::string> message_ids,
                       const FactJob& job);

// Moves the facts with these ids into the history, together, as retired.
void RetireFacts(FactState& state, std::span<const std::int64_t> ids, const FactJob& job);

// Undoes what took place together as `change`: the facts that left come back, and those that took
// their place or came with it go. NOT_FOUND `CHANGE_NOT_FOUND` when the history does not reach back
// so far; PERMISSION_DENIED `FACT_TRUSTED` when one who need not be believed would take away, or
// bring back, what is trusted more.
absl::Status UndoChange(FactState& state, std::int64_t change, const FactJob& job);

// A change that a caller makes.
struct FactEdit {
  enum class Kind { kAdd, kCorrect, kDelete };
  Kind kind = Kind::kAdd;
  std::int64_t fact_id = 0;           // kCorrect and kDelete.
  std::string text;                   // kAdd and kCorrect: a FactLine().
  std::optional<double> trust;        // kAdd: the most it may have; by default as what a user said.
  std::vector<std::string> evidence;  // kAdd: ids of messages, the oldest first.
  bool untrusted_evidence = false;    // Any of them need not be believed.
};

struct EditedFact {
  Fact fact;  // As it is now; of kDelete, as it was.
  std::int64_t change = 0;
};

// Makes the change, which UndoChange() undoes. NOT_FOUND `FACT_NOT_FOUND`; ALREADY_EXISTS
// `FACT_EXISTS` for what another fact says; FAILED_PRECONDITION `BLOCK_FULL` at half as many facts
// again as `max_facts`; PERMISSION_DENIED `FACT_TRUSTED`, see UndoChange(). An error has changed
// nothing.
absl::StatusOr<EditedFact> EditFact(FactState& state, const FactEdit& edit, std::size_t max_facts,
                                    const FactJob& job);

// FAILED_PRECONDITION `BLOCK_FULL`.
absl::Status TooManyFacts();

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_FACT_CHANGES_H_
