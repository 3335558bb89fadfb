// What a block is by its kind and its options, and what becomes of its state without a model.
#ifndef MEMORYD_CORE_BLOCKS_BLOCK_TRAITS_H_
#define MEMORYD_CORE_BLOCKS_BLOCK_TRAITS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/random_source.h"
#include "core/blocks/entry_log.h"
#include "core/blocks/fact_changes.h"
#include "core/llm/model.h"
#include "core/model/job.h"
#include "core/model/session_config.h"

namespace memoryd {

class Block;
class BlockOptions;
struct BlockEnvironment;

// When messages are fed to a block.
enum class BlockFeed {
  kNever,
  kArchived,  // When they leave short-term memory.
  kPut,       // When they are put.
};

// Messages that were deleted or changed.
struct GoneMessages {
  // Positions of those that were archived; of others no entry has been made.
  std::span<const NumberRange> archived;
  // Ids of those that were deleted one by one, or whose own time is over. Retention names none.
  std::span<const std::string> ids;
  bool changed = false;  // They are still there, with other parts.
  std::int64_t now_us = 0;
  // Random numbers, for a log that is begun.
  RandomSource& random;
};

// A block's state after messages have gone.
struct StateWithout {
  std::optional<std::string> state;  // Absent: it stays as it is.
  std::int64_t retired_facts = 0;    // Facts that rested on these messages alone.
};

// A block's state at a time.
struct StateInTime {
  std::optional<std::string> state;  // Absent: nothing has expired.
  std::int64_t next_us = 0;          // When something expires next; 0: never.
};

// A block's state after a change of it was undone, and the facts in it.
struct UndoneChange {
  std::string state;
  std::vector<Fact> facts;
};

// A block's state after a caller changed a fact of it.
struct EditedFacts {
  std::string state;
  EditedFact edited;
};

// What the server knows of one block from its configuration alone. It is read once, when the
// configuration is made, and shared by all sessions that have it. It needs neither models nor a
// store, so that writes can ask it: no method waits, and none but those that take a state costs
// more than a look. Immutable; any thread may call.
class BlockTraits : public std::enable_shared_from_this<BlockTraits> {
 public:
  struct Values {
    // OK, or why no block can be made of the settings: then the rest is as far as they can be read.
    absl::Status status;
    BlockFeed feed = BlockFeed::kNever;
    // How the insertion puts what the block says, see Block::section().
    std::string section;
    // The option `ttl` in microseconds; 0: for ever. Of entries where the block has some, else of
    // the state: see OnTime().
    std::int64_t ttl_us = 0;
    // The block has rows of its own, each a VectorEntry, and a state that is an EmbeddingState with
    // a log of them: the engine hides, embeds again and deletes them.
    bool has_entries = false;
    // Models that the block asks, with the settings' worker; without a name: none.
    ModelName chat_model;
    ModelName embedder;
    // The session that the block shows or hands messages to.
    std::optional<std::string> other_session;
    // Whether the settings may have a `content`.
    bool takes_content = false;
    // Whether the settings have texts that the block says, or has models told.
    bool has_texts = false;
  };

  explicit BlockTraits(Values values) : values_(std::move(values)) {}
  virtual ~BlockTraits() = default;
  BlockTraits(const BlockTraits&) = delete;
  BlockTraits& operator=(const BlockTraits&) = delete;

  const absl::Status& status() const { return values_.status; }
  BlockFeed feed() const { return values_.feed; }
  const std::string& section() const { return values_.section; }
  std::int64_t ttl_us() const { return values_.ttl_us; }
  bool has_entries() const { return values_.has_entries; }
  const ModelName& chat_model() const { return values_.chat_model; }
  const ModelName& embedder() const { return values_.embedder; }
  const std::optional<std::string>& other_session() const { return values_.other_session; }
  bool takes_content() const { return values_.takes_content; }
  // Whether parts of the state expire.
  bool expires() const { return values_.ttl_us > 0 && !values_.has_entries; }

  // Whether a caller whom nobody need trust more than `max_trust` would bring texts with the block.
  virtual bool HasTexts(double /*max_trust*/) const { return values_.has_texts; }

  // The options with all that the block begins with trusted at most so far; absent: as they are.
  // Called when a limited caller configures a session.
  virtual std::optional<std::string> LimitedOptions(const std::string& options_json,
                                                    double max_trust) const;

  // By a write that deletes or changes messages, for each block that has a state. DATA_LOSS when
  // that can't be read. By default entries of those messages are hidden.
  virtual absl::StatusOr<StateWithout> OnMessagesGone(const BlockState& state,
                                                      const GoneMessages& gone) const;

  // By the sweeper's write, and when a job has ended, for each block that has a state. DATA_LOSS
  // when that can't be read. By default nothing expires. Not asked of blocks that have entries.
  virtual absl::StatusOr<StateInTime> OnTime(std::string_view state, std::int64_t now_us) const;

  // Undoes a change in the history of a state, "" when the block was never fed. NOT_FOUND
  // `CHANGE_NOT_FOUND`; PERMISSION_DENIED `FACT_TRUSTED`; by default FAILED_PRECONDITION
  // `BLOCK_KEEPS_NO_HISTORY`.
  virtual absl::StatusOr<UndoneChange> UndoChange(std::string_view state, std::int64_t change,
                                                  const FactJob& caller) const;

  // Changes a fact of a state. Errors as of EditFact(); by default FAILED_PRECONDITION
  // `BLOCK_KEEPS_NO_HISTORY`.
  virtual absl::StatusOr<EditedFacts> EditFact(std::string_view state, const FactEdit& edit,
                                               const FactJob& caller) const;

  // The block, for a session of these settings. Called with an OK status() alone; `field` names the
  // settings in errors. INVALID_ARGUMENT for what `environment` shows to be wrong.
  virtual absl::StatusOr<std::shared_ptr<const Block>> Make(
      const BlockSettings& settings, const std::string& field,
      const BlockEnvironment& environment) const = 0;

 private:
  const Values values_;
};

// Reads the settings of one kind; a line in the table of kind_table.cc. `field` names them in
// errors, such as "config.blocks[3]". Never null.
using ReadBlockTraits = std::shared_ptr<const BlockTraits> (*)(const BlockSettings& settings,
                                                               const std::string& field,
                                                               Profile profile);

struct BlockKind {
  std::string_view name;
  ReadBlockTraits read;
};

// The kinds of blocks that there are, in alphabetical order.
std::span<const BlockKind> BlockKindTable();

// The traits that `settings` have, else what is read of them now.
std::shared_ptr<const BlockTraits> TraitsOf(const BlockSettings& settings, Profile profile,
                                            std::string_view field = "block");

// Where the options of the block that is called `field` stand, for errors.
std::string OptionsField(std::string_view field);

// What is read alike of every kind's settings.
BlockTraits::Values ValuesOf(const BlockSettings& settings, const BlockOptions& options);
// The option `accept_short_term_memory`: `feed`, or never.
BlockFeed FeedOption(BlockOptions& options, BlockFeed feed);
// The option `ttl`, in seconds, as BlockTraits::ttl_us().
std::int64_t TtlOption(BlockOptions& options);

// Reads the traits of all, `config.blocks[i]` in errors.
void ReadTraits(std::vector<BlockSettings>& blocks, Profile profile);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_BLOCK_TRAITS_H_
