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

// The block that `settings` describe, by the traits that they have, or those that are read now.
// `field` names them in errors, such as "config.blocks[3]". INVALID_ARGUMENT for an unknown kind,
// and for options that are unknown, of another type or out of range. Models are looked up when they
// are needed, not here: they may come and go.
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

// Whether a caller whom nobody need trust more than `max_trust` would bring texts with the block:
// a static block's parts, prompts, templates, and facts to begin with that are trusted more. Of
// options that are not known to name something else, every string counts.
bool HasTexts(const BlockSettings& settings, Profile profile, double max_trust);

// Has the facts that the block begins with trusted at most so far, where its kind and profile know
// trust. Options that can't be read stay as they are.
void LimitFirstFacts(BlockSettings& settings, Profile profile, double max_trust);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_BLOCK_KINDS_H_
