// Long-term memory: what a session's blocks take in and say.
#ifndef MEMORYD_CORE_BLOCKS_BLOCK_H_
#define MEMORYD_CORE_BLOCKS_BLOCK_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/memory_budget.h"
#include "core/blocks/block_traits.h"
#include "core/llm/model.h"
#include "core/model/body_reader.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session_config.h"
#include "core/model/trace_context.h"
#include "core/model/usage_count.h"
#include "core/tokens/token_counter.h"

namespace memoryd {

struct BlockKnowledge;
struct Entity;
class KnownTokens;

// A text of a block that Query finds, in the form in which it is shown.
using BlockText = std::variant<std::string, Fact, Entity>;

using BlockDeadline = std::chrono::steady_clock::time_point;

// A message on its way into or past a block.
struct BlockMessage {
  MessagePtr row;       // Null for a Get's `input`.
  std::string id;       // As replies name it.
  StoredMessage parts;  // What the row's body holds.
};

// A part of what a block says.
struct BlockPart {
  StoredPart::Kind kind = StoredPart::Kind::kText;
  // Of kind kText; of the others the words they have, if any.
  std::string text;
  // Of the other kinds: the part as configured, a serialized memoryd.v1.Part. Empty for media made
  // anew of `url` and what follows it.
  std::string body;
  // Of media.
  std::string url;
  std::string mime_type;
  std::string format;
  std::string title;
  std::string opaque_type;  // Of kind kOpaque.
  std::optional<std::int64_t> token_count;
  // In what order a truncation leaves parts out: the lowest first, of equals the last.
  std::int64_t rank = 0;

  friend bool operator==(const BlockPart&, const BlockPart&) = default;
};

// The part whose stored form is `body`.
BlockPart ToBlockPart(StoredPart stored, const std::string& body);

// What a block says. Parts go into the insertion, messages before the session's own. No parts: the
// block says nothing; a part of empty text is something.
struct BlockContent {
  std::vector<BlockPart> parts;
  std::vector<StoredMessage> messages;
  // What it is made without: blocks of the other session, by name, for a block of kind `session`.
  std::vector<std::pair<std::string, absl::Status>> missing = {};
  bool empty() const { return parts.empty() && messages.empty(); }
};

// The session a block belongs to, as far as it matters to the block, and who asks.
struct BlockSession {
  SessionKey key;
  Profile profile = Profile::kDefault;
  // Of the call, or of the one that made the job; null for none.
  TracePtr trace = nullptr;
  // In which models are told times.
  absl::TimeZone zone = absl::UTCTimeZone();
  // Of the session's messages; no model: the session has none.
  ModelName embedder = {};
};

struct FeedRequest {
  BlockSession session;
  BlockState state;                    // Before the job.
  std::vector<BlockMessage> messages;  // Those of the job, oldest first.
  // In place of messages: rows of the block's own whose texts are to be embedded by the model that
  // makes EmbeddingState::next.
  std::vector<MessagePtr> entries = {};
  std::string job_id;
  std::uint64_t generation = 0;  // The block_generation that the job is of.
  std::int64_t attempt = 1;
  std::int64_t now_us = 0;  // Microseconds since the epoch.
  BlockDeadline deadline;
  // Counts what is asked of models; may be null.
  std::shared_ptr<UsageCount> usage = nullptr;
  // What the messages take, while they are there.
  MemoryBudget::Hold memory = {};

  // Frees all of the messages but ids, roles and trust. What was made of them takes `bytes`.
  void DropBodies(std::size_t bytes);
};

// What an entry was made of.
struct EntryMessages {
  // Positions [begin, end) of its messages.
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t ingest_us = 0;  // When it counts as stored; 0: with the commit.
  std::int64_t expire_us = 0;  // When the first of them goes by itself; 0: none does.
};

// What a job changes. The caller sets BlockState::done, name, next and update_us.
struct FeedResult {
  std::string state;                 // Replaces BlockState::state.
  std::vector<std::string> entries;  // Bodies of rows of the block's own, to be appended.
  // Where `entries` stand, ascending; empty: behind those that there are.
  std::vector<std::int64_t> entry_positions;
  // Of a block that has_entries(): what each of `entries` was made of.
  std::vector<EntryMessages> entry_messages = {};
};

struct RenderRequest {
  BlockSession session;
  std::shared_ptr<const BlockState> state;  // Null: never fed.
  std::vector<BlockMessage> messages;       // The active ones, oldest first, then the `input`.
  BlockDeadline deadline;
  // As FeedRequest::usage.
  std::shared_ptr<UsageCount> usage = nullptr;
  std::int64_t now_us = 0;  // Microseconds since the epoch.
};

// A block of a session's configuration, checked and ready. Immutable; any thread. `done` runs
// exactly once, on the calling or another thread, shortly after the deadline at the latest. Owned
// by a shared_ptr: a call under way keeps its block alive.
class Block : public std::enable_shared_from_this<Block> {
 public:
  template <typename T>
  using Done = std::function<void(absl::StatusOr<T>)>;

  // `traits` are what was read of the settings; null for a block that no configuration has.
  explicit Block(const BlockSettings& settings, std::shared_ptr<const BlockTraits> traits = nullptr)
      : name_(settings.name), priority_(settings.priority), traits_(std::move(traits)) {}
  virtual ~Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  const std::string& name() const { return name_; }
  // 0: never truncated.
  std::int32_t priority() const { return priority_; }
  // How the insertion puts the block's content, with `{name}` and `{content}`; empty: as
  // `<name>`, the content, `</name>`.
  const std::string& section() const {
    return traits_ == nullptr ? kNoSection : traits_->section();
  }

  // Whether messages are fed to it.
  virtual bool feeds() const { return traits_ != nullptr && traits_->feed() != BlockFeed::kNever; }

  // Whether what it says changes only when it is configured or fed, whatever is being talked of:
  // then Render() is done before it returns and looks at the state alone.
  virtual bool stable() const { return false; }

  // Where the token count of what it says is kept; null where it may say something else at another
  // time.
  virtual KnownTokens* known_tokens() const { return nullptr; }

  // Takes the messages of one job in. Must not change anything by itself: what it returns is stored
  // if the job still counts. A model's errors are passed on; see ChatModel.
  virtual void Feed(FeedRequest request, Done<FeedResult> done) const = 0;

  // What the block says now; empty for nothing.
  virtual void Render(RenderRequest request, Done<BlockContent> done) const = 0;

  // What the block knows in `state`, the empty one for never fed, as GetBlock shows it. Called on a
  // reader; costs what reading the state costs. DATA_LOSS when that can't be read back. By default,
  // nothing.
  virtual absl::StatusOr<BlockKnowledge> Known(const BlockState& state) const;

  // Texts that Query finds, the latest last: the last `most` where there are more. Called on a
  // searcher when the state has changed. None where the state can't be read back. By default those
  // that Known() has, facts, entities or a summary; else what a stable() block says.
  virtual std::vector<BlockText> Texts(const BlockState& state, const BlockSession& session,
                                       std::size_t most) const;

  // See BlockTraits::Values.
  bool has_entries() const { return traits_ != nullptr && traits_->has_entries(); }
  std::int64_t ttl_us() const { return traits_ == nullptr ? 0 : traits_->ttl_us(); }

  // `content` made shorter by at least `tokens`, or empty: what is left out whole. By default,
  // empty. `counter` lives until `done`.
  virtual void Truncate(const BlockSession& session, BlockContent content, std::int64_t tokens,
                        const TokenCounter& counter, BlockDeadline deadline,
                        Done<BlockContent> done) const;

 private:
  static inline const std::string kNoSection;

  const std::string name_;
  const std::int32_t priority_;
  const std::shared_ptr<const BlockTraits> traits_;
};

// The blocks of a session, in the order of its configuration.
using BlockSet = std::vector<std::shared_ptr<const Block>>;

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_BLOCK_H_
