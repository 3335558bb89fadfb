#include "core/blocks/fact_changes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/blocks/fact_state.h"
#include "core/blocks/fact_text.h"

namespace memoryd {
namespace {

constexpr double kUnnamedTrust = 0.5;  // Nobody knows who said it.

void AddEvidence(Fact& fact, const std::vector<std::string>& ids) {
  for (const std::string& id : ids) {
    if (std::find(fact.evidence.begin(), fact.evidence.end(), id) == fact.evidence.end()) {
      fact.evidence.push_back(id);
    }
  }
  if (fact.evidence.size() > kMaxEvidence) {
    fact.evidence.erase(fact.evidence.begin(),
                        fact.evidence.end() - static_cast<std::ptrdiff_t>(kMaxEvidence));
  }
}

std::vector<Fact>::iterator FindId(std::vector<Fact>& facts, std::int64_t id) {
  return std::find_if(facts.begin(), facts.end(), [id](const Fact& fact) { return fact.id == id; });
}

std::vector<Fact>::iterator FindText(std::vector<Fact>& facts, std::string_view text) {
  const std::string key = FactKey(text);
  return std::find_if(facts.begin(), facts.end(),
                      [&key](const Fact& fact) { return FactKey(fact.text) == key; });
}

// A fact that leaves by the change that is under way.
void Bury(FactState& state, Fact fact, FactEnd end, std::vector<std::int64_t> by,
          std::vector<std::int64_t> brought, const FactJob& job) {
  state.history.push_back({std::move(fact), end, state.next_change, job.now_us, job.job_id,
                           std::move(by), std::move(brought), job.writer});
  if (state.history.size() > kMaxPastFacts) state.history.erase(state.history.begin());
}

// The new fact, with its trust and its sources from the messages that the answer names.
Fact NewFact(const AnsweredFact& answered, std::span<const FactSource> sources,
             const FactJob& job) {
  Fact fact;
  fact.text = answered.text;
  fact.first_us = fact.last_us = job.now_us;
  std::vector<std::string> ids;
  bool user = false;
  bool untrusted = false;
  for (const std::int64_t number : answered.evidence) {
    if (number < 1 || number > static_cast<std::int64_t>(sources.size())) continue;
    const FactSource& source = sources[static_cast<std::size_t>(number - 1)];
    ids.push_back(source.message_id);
    user = user || source.user;
    untrusted = untrusted || source.untrusted;
  }
  fact.trust = user ? kUserTrust : kOtherTrust;
  if (ids.empty()) {
    for (const FactSource& source : sources) {
      ids.push_back(source.message_id);
      untrusted = untrusted || source.untrusted;
    }
    fact.trust = kUnnamedTrust;
  }
  if (untrusted) fact.trust = kUntrustedTrust;
  AddEvidence(fact, ids);
  return fact;
}

// A fact that an answer says twice is said once, with the numbers of both.
std::vector<AnsweredFact> EachOnce(std::span<const AnsweredFact> facts) {
  std::vector<AnsweredFact> once;
  absl::flat_hash_map<std::string, std::size_t> places;
  for (const AnsweredFact& fact : facts) {
    const auto [place, is_new] = places.emplace(FactKey(fact.text), once.size());
    if (is_new) {
      once.push_back(fact);
      continue;
    }
    AnsweredFact& first = once[place->second];
    first.evidence.insert(first.evidence.end(), fact.evidence.begin(), fact.evidence.end());
    first.replaces.insert(first.replaces.end(), fact.replaces.begin(), fact.replaces.end());
  }
  return once;
}

// OK when whoever changes the facts may take this one away or bring it back.
absl::Status CheckTrust(const Fact& fact, const FactJob& job) {
  if (fact.trust <= job.max_trust) return absl::OkStatus();
  return Error(absl::StatusCode::kPermissionDenied, "FACT_TRUSTED",
               "the credential may not change, take away or bring back a fact that is trusted more "
               "than what it writes");
}

// What `fact` takes over from one that it was made of.
void Inherit(Fact& fact, const Fact& from) {
  AddEvidence(fact, from.evidence);
  fact.first_us = std::min(fact.first_us, from.first_us);
}

// Facts that are being condensed.
struct OldFacts {
  explicit OldFacts(std::vector<Fact> old)
      : facts(std::move(old)), successors(facts.size()), kept(facts.size(), false) {}

  std::size_t IndexOf(std::vector<Fact>::iterator fact) {
    return static_cast<std::size_t>(fact - facts.begin());
  }

  std::vector<Fact> facts;
  // For each fact: those that have taken something over from it, and whether it stays itself.
  std::vector<std::vector<std::int64_t>> successors;
  std::vector<bool> kept;
};

// An old fact that stays, with what it takes over from others.
Fact Kept(std::vector<Fact>::iterator same, const std::vector<std::int64_t>& others,
          OldFacts& old) {
  old.kept[old.IndexOf(same)] = true;
  Fact fact = *same;
  for (const std::int64_t id : others) {
    const auto from = FindId(old.facts, id);
    if (from == old.facts.end() || from == same) continue;
    Inherit(fact, *from);
    old.successors[old.IndexOf(from)].push_back(fact.id);
  }
  return fact;
}

// A new fact, made of the old ones that the answer names.
Fact Condensed(const AnsweredFact& answered, std::int64_t id, std::int64_t now_us, OldFacts& old) {
  Fact fact;
  fact.id = id;
  fact.text = answered.text;
  fact.first_us = fact.last_us = now_us;
  bool inherited = false;
  for (const std::int64_t old_id : answered.from) {
    const auto from = FindId(old.facts, old_id);
    if (from == old.facts.end()) continue;
    if (!inherited) {
      fact.last_us = from->last_us;
      fact.seen = 0;
    }
    Inherit(fact, *from);
    fact.last_us = std::max(fact.last_us, from->last_us);
    fact.seen = std::max(fact.seen, from->seen);
    fact.trust = inherited && (fact.trust <= kUntrustedTrust || from->trust <= kUntrustedTrust)
                     ? kUntrustedTrust
                     : std::max(fact.trust, from->trust);
    old.successors[old.IndexOf(from)].push_back(fact.id);
    inherited = true;
  }
  // Made of who knows which: not to be trusted as much as what somebody said.
  if (!inherited) fact.trust = kOtherTrust;
  return fact;
}

}  // namespace

void TakeIn(FactState& state, std::span<const AnsweredFact> facts,
            std::span<const FactSource> sources, const FactJob& job) {
  for (const AnsweredFact& answered : EachOnce(facts)) {
    Fact fact = NewFact(answered, sources, job);
    const double trust = fact.trust;
    auto known = FindText(state.facts, fact.text);
    if (known == state.facts.end()) known = FindId(state.facts, answered.same_as);
    const bool is_new = known == state.facts.end();
    std::int64_t id = state.next_id;
    if (is_new) {
      fact.id = state.next_id++;
      state.facts.push_back(std::move(fact));
    } else {
      id = known->id;
      AddEvidence(*known, fact.evidence);
      known->last_us = std::max(known->last_us, job.now_us);
      ++known->seen;
      if (known->trust <= kUntrustedTrust) {
        known->trust = trust;
      } else if (trust > kUntrustedTrust) {
        known->trust += (1 - known->trust) / 2;
      }
    }
    bool replaced = false;
    for (const std::int64_t old_id : answered.replaces) {
      const auto old = FindId(state.facts, old_id);
      if (old == state.facts.end() || old_id == id) continue;
      if (trust <= kUntrustedTrust && old->trust > kUntrustedTrust) continue;
      Fact past = std::move(*old);
      state.facts.erase(old);
      std::vector<std::int64_t> brought(is_new ? 1 : 0, id);
      Bury(state, std::move(past), FactEnd::kReplaced, {id}, std::move(brought), job);
      replaced = true;
    }
    if (replaced) ++state.next_change;
  }
}

bool Condense(FactState& state, std::span<const AnsweredFact> facts, const FactJob& job) {
  if (facts.empty() || facts.size() * 4 < state.facts.size()) return false;
  std::vector<std::int64_t> brought;
  std::vector<Fact> rest;
  OldFacts old(std::move(state.facts));
  for (const AnsweredFact& answered : facts) {
    if (FindText(rest, answered.text) != rest.end()) continue;
    if (const auto same = FindText(old.facts, answered.text); same != old.facts.end()) {
      rest.push_back(Kept(same, answered.from, old));
      continue;
    }
    Fact fact = Condensed(answered, state.next_id++, job.now_us, old);
    brought.push_back(fact.id);
    rest.push_back(std::move(fact));
  }
  bool any = false;
  for (std::size_t i = 0; i < old.facts.size(); ++i) {
    if (old.kept[i]) continue;
    Bury(state, std::move(old.facts[i]), FactEnd::kCondensed, std::move(old.successors[i]), brought,
         job);
    any = true;
  }
  if (any) ++state.next_change;
  state.facts = std::move(rest);
  return true;
}

void Evict(FactState& state, std::size_t max_facts, const FactJob& job) {
  if (state.facts.size() <= max_facts) return;
  while (state.facts.size() > max_facts) {
    const auto least =
        std::min_element(state.facts.begin(), state.facts.end(), [](const Fact& a, const Fact& b) {
          return a.trust != b.trust ? a.trust < b.trust : a.last_us < b.last_us;
        });
    Fact past = std::move(*least);
    state.facts.erase(least);
    Bury(state, std::move(past), FactEnd::kEvicted, {}, {}, job);
  }
  ++state.next_change;
}

Retired RetireEvidence(FactState& state, std::span<const std::string> message_ids,
                       const FactJob& job) {
  Retired retired;
  std::vector<Fact> rest;
  for (Fact& fact : state.facts) {
    const Fact before = fact;
    std::erase_if(fact.evidence, [message_ids](const std::string& id) {
      return std::find(message_ids.begin(), message_ids.end(), id) != message_ids.end();
    });
    retired.changed |= fact.evidence.size() != before.evidence.size();
    // A fact that nobody said, such as a configured one, never had any.
    if (fact.evidence.empty() && !before.evidence.empty()) {
      Bury(state, before, FactEnd::kRetired, {}, {}, job);
      ++retired.facts;
    } else {
      rest.push_back(std::move(fact));
    }
  }
  state.facts = std::move(rest);
  if (retired.facts > 0) ++state.next_change;
  return retired;
}

void RetireFacts(FactState& state, std::span<const std::int64_t> ids, const FactJob& job) {
  bool any = false;
  for (const std::int64_t id : ids) {
    const auto found = FindId(state.facts, id);
    if (found == state.facts.end()) continue;
    Fact fact = std::move(*found);
    state.facts.erase(found);
    Bury(state, std::move(fact), FactEnd::kRetired, {}, {}, job);
    any = true;
  }
  if (any) ++state.next_change;
}

absl::Status TooManyFacts() {
  return Error(absl::StatusCode::kFailedPrecondition, "BLOCK_FULL",
               "block: it has no room for another fact; delete one, or raise its max_facts");
}

absl::StatusOr<EditedFact> EditFact(FactState& state, const FactEdit& edit, std::size_t max_facts,
                                    const FactJob& job) {
  const bool adds = edit.kind == FactEdit::Kind::kAdd;
  const auto fact = FindId(state.facts, edit.fact_id);
  if (!adds) {
    if (fact == state.facts.end()) {
      return Error(absl::StatusCode::kNotFound, "FACT_NOT_FOUND",
                   "fact_id: the block has no such fact");
    }
    MEMORYD_RETURN_IF_ERROR(CheckTrust(*fact, job));
  }
  if (edit.kind != FactEdit::Kind::kDelete) {
    const auto same = FindText(state.facts, edit.text);
    if (same != state.facts.end() && (adds || same != fact)) {
      return Error(absl::StatusCode::kAlreadyExists, "FACT_EXISTS",
                   "text: a fact of the block says so already",
                   {{"field", "text"}, {"fact_id", std::to_string(same->id)}});
    }
  }
  EditedFact edited{{}, state.next_change};
  switch (edit.kind) {
    case FactEdit::Kind::kAdd:
      if (state.facts.size() >= max_facts + max_facts / 2) return TooManyFacts();
      edited.fact.id = state.next_id++;
      edited.fact.text = edit.text;
      AddEvidence(edited.fact, edit.evidence);
      edited.fact.first_us = edited.fact.last_us = job.now_us;
      edited.fact.seen = 0;
      edited.fact.trust = std::min({edit.trust.value_or(kUserTrust), job.max_trust,
                                    edit.untrusted_evidence ? kUntrustedTrust : 1.0});
      edited.fact.writer = job.writer;
      edited.fact.change = edited.change;
      state.facts.push_back(edited.fact);
      break;
    case FactEdit::Kind::kCorrect:
      Bury(state, *fact, FactEnd::kCorrected, {fact->id}, {fact->id}, job);
      fact->text = edit.text;
      fact->writer = job.writer;
      edited.fact = *fact;
      break;
    case FactEdit::Kind::kDelete:
      edited.fact = std::move(*fact);
      state.facts.erase(fact);
      Bury(state, edited.fact, FactEnd::kDeleted, {}, {}, job);
      break;
  }
  ++state.next_change;
  return edited;
}

absl::Status UndoChange(FactState& state, std::int64_t change, const FactJob& job) {
  std::vector<PastFact> back;
  std::vector<PastFact> rest;
  for (const PastFact& past : state.history) {
    (past.change == change ? back : rest).push_back(past);
  }
  std::set<std::int64_t> going;
  std::vector<std::int64_t> coming;
  for (const PastFact& past : back) {
    MEMORYD_RETURN_IF_ERROR(CheckTrust(past.fact, job));
    coming.push_back(past.fact.id);
    going.insert(past.brought.begin(), past.brought.end());
    // What a correction made of it since then.
    going.insert(past.fact.id);
  }
  for (const Fact& fact : state.facts) {
    if (fact.change == change) going.insert(fact.id);
  }
  if (going.empty()) {
    return Error(absl::StatusCode::kNotFound, "CHANGE_NOT_FOUND",
                 "change: the block's history does not hold it, or no longer does");
  }
  for (const Fact& fact : state.facts) {
    if (going.count(fact.id) > 0) MEMORYD_RETURN_IF_ERROR(CheckTrust(fact, job));
  }
  state.history = std::move(rest);
  for (const std::int64_t id : going) {
    const auto found = FindId(state.facts, id);
    if (found == state.facts.end()) continue;
    Fact fact = std::move(*found);
    state.facts.erase(found);
    Bury(state, std::move(fact), FactEnd::kUndone, coming, coming, job);
  }
  for (PastFact& past : back) state.facts.push_back(std::move(past.fact));
  ++state.next_change;
  return absl::OkStatus();
}

}  // namespace memoryd
