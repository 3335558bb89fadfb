// The kinds of blocks that there are.
#ifndef MEMORYD_CORE_BLOCKS_BLOCK_KINDS_H_
#define MEMORYD_CORE_BLOCKS_BLOCK_KINDS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/histogram.h"
#include "core/blocks/block.h"
#include "core/blocks/entry_search.h"
#include "core/blocks/fact_state.h"
#include "core/llm/model.h"
#include "core/model/body_reader.h"
#include "core/model/session_config.h"

namespace memoryd {

class OtherSessions;
class WorkerBlocks;

// What models answered to blocks of profile `default`; read by whoever exports it.
struct BlockStats {
  Counter answers;              // Of chat models, to blocks.
  Counter unreadable_answers;   // Nonsense: nothing was taken from it.
  Counter refused_condensings;  // An answer that would have lost too many facts.
};

// What blocks work with. All of it outlives the blocks and their calls.
struct BlockEnvironment {
  ModelDirectory* models = nullptr;
  WorkerBlocks* workers = nullptr;
  const BodyReader* bodies = nullptr;
  EntrySearch* entries = nullptr;
  BlockStats* stats = nullptr;  // May be null.
  // Runs what takes long or waits for the store, for a tenant and away from the threads of models;
  // where it is empty, such work is done on the thread that has come to it.
  std::function<void(std::string_view tenant, std::function<void()> task)> run;
  OtherSessions* sessions = nullptr;
};

inline constexpr std::size_t kMaxBlocks = 32;
// Of kind `session`: each is another session to be read.
inline constexpr std::size_t kMaxOtherSessions = 8;

// In alphabetical order.
std::vector<std::string_view> BlockKinds();

// The block that `settings` describe. `field` names them in errors, such as "config.blocks[3]".
// INVALID_ARGUMENT for an unknown kind, and for options that are unknown, of another type or out of
// range. Models are looked up when they are needed, not here: they may come and go.
absl::StatusOr<std::shared_ptr<const Block>> MakeBlock(const BlockSettings& settings,
                                                       std::string_view field, Profile profile,
                                                       const BlockEnvironment& environment);

// The blocks of a session, in order. INVALID_ARGUMENT also for names that are not 1 to 64 of
// [A-Za-z0-9_-] or not unique, for more than kMaxBlocks, and for more than kMaxOtherSessions.
absl::StatusOr<std::vector<std::shared_ptr<const Block>>> MakeBlocks(
    std::span<const BlockSettings> settings, Profile profile, const BlockEnvironment& environment);

// OK when MakeBlocks() makes them, for whoever has nothing for them to work with.
absl::Status CheckBlocks(std::span<const BlockSettings> settings, Profile profile,
                         const BodyReader& bodies);

// A block's state after a change of it was undone, and the facts in it.
struct UndoneChange {
  std::string state;
  std::vector<Fact> facts;
};

// Undoes a change in the history of the block that `settings` describe, whose state is `state`.
// NOT_FOUND `CHANGE_NOT_FOUND`; FAILED_PRECONDITION `BLOCK_KEEPS_NO_HISTORY`; PERMISSION_DENIED
// `FACT_TRUSTED`.
absl::StatusOr<UndoneChange> UndoBlockChange(const BlockSettings& settings, Profile profile,
                                             std::string_view state, std::int64_t change,
                                             const FactJob& caller);

// A block's state after a caller changed a fact of it.
struct EditedFacts {
  std::string state;
  EditedFact edited;
};

// Changes a fact of the block that `settings` describe, whose state is `state`, "" when it was
// never fed. Errors as of EditFact(); FAILED_PRECONDITION `BLOCK_KEEPS_NO_HISTORY`.
absl::StatusOr<EditedFacts> EditBlockFact(const BlockSettings& settings, Profile profile,
                                          std::string_view state, const FactEdit& edit,
                                          const FactJob& caller);

// Whether the block that `settings` describe has entries that say what messages say, and a state
// that is an EmbeddingState with a log of them.
inline bool HasEntries(const BlockSettings& settings) { return settings.kind == "vector"; }

// Whether the block that `settings` describe says, or has models told, something that stands in the
// settings themselves: a static block's parts, prompts, templates, and facts to begin with that are
// trusted more than `max_trust`. Of options that are not known to name something else, every string
// counts.
bool HasTexts(const BlockSettings& settings, Profile profile, double max_trust);

// Models that a block asks; empty: none, or a worker's.
struct ModelNames {
  std::string model;  // For chat.
  std::string embedder;
};

// Those of the block that `settings` describe.
ModelNames ModelsOf(const BlockSettings& settings);

// Has the facts that the block begins with trusted at most so far, by its option `facts_trust`. Not
// in `llama-index`, whose facts have no trust, nor in options that can't be read.
void LimitFirstFacts(BlockSettings& settings, Profile profile, double max_trust);

// A block's state without the evidence that was deleted.
struct RetiredFacts {
  std::string state;
  std::size_t facts = 0;  // That rested on nothing else, and went into the history.
};

// Takes deleted messages out of the evidence in the state of the block that `settings` describe;
// nullopt when that says nothing of them.
absl::StatusOr<std::optional<RetiredFacts>> RetireFacts(const BlockSettings& settings,
                                                        Profile profile, std::string_view state,
                                                        std::span<const std::string> message_ids,
                                                        std::int64_t now_us);

// Makes a block of one kind; a line in the table of block_kinds.cc.
using BlockFactory = absl::StatusOr<std::shared_ptr<const Block>> (*)(
    const BlockSettings& settings, const std::string& field, Profile profile,
    const BlockEnvironment& environment);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_BLOCK_KINDS_H_
