// What a session's blocks know, as texts that Query finds beside messages.
#ifndef MEMORYD_CORE_RECALL_KNOWN_TEXTS_H_
#define MEMORYD_CORE_RECALL_KNOWN_TEXTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "core/blocks/block.h"
#include "core/blocks/entity_block.h"
#include "core/blocks/fact_state.h"
#include "core/model/job.h"
#include "core/retrieval/session_index.h"
#include "core/tokens/token_counter.h"

namespace memoryd {

struct KnownText {
  std::string block;
  // A string: a summary, or a text of a block that says always the same.
  BlockText item;
  // Of what is ranked and shown of it.
  std::int64_t token_count = 0;

  // What it is found by: of an entity its name and its line.
  std::string text() const;
};

// The blocks of a session, and what each has been fed.
struct BlockStates {
  BlockSession session;
  std::shared_ptr<const BlockSet> blocks;
  std::vector<std::shared_ptr<const BlockState>> states;  // Null: never fed.
};

// Immutable; any thread.
class KnownTexts {
 public:
  // What the blocks know: the Texts() of each, at most kMaxTexts, of each block the latest where
  // there are more. Not what workers keep, nor the entries of vector blocks, which are messages. A
  // block whose state can't be read back is left out: Get and GetBlock tell. Takes some 20 µs a
  // text.
  KnownTexts(BlockStates of, const TokenCounter& counter, IndexOptions options);

  // Whether it was made of these.
  bool IsOf(const BlockStates& blocks, const IndexOptions& options) const;

  bool empty() const { return texts_.empty(); }
  // `position` is that of a hit.
  const std::shared_ptr<const KnownText>& at(std::int64_t position) const {
    return texts_[static_cast<std::size_t>(position)];
  }
  // Each text is a content of it.
  const SessionIndex& index() const { return index_; }

  // Approximate memory in bytes.
  std::size_t ByteSize() const { return bytes_; }

  static constexpr std::size_t kMaxTexts = 5000;

 private:
  void Add(const Block& block, const BlockState* state, const TokenCounter& counter);
  void Add(KnownText text, const TokenCounter& counter);

  const BlockStates of_;
  const IndexOptions options_;
  std::vector<std::shared_ptr<const KnownText>> texts_;
  SessionIndex index_;
  std::size_t bytes_ = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_RECALL_KNOWN_TEXTS_H_
