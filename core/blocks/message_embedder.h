// Has a session's messages embedded, for Query.
#ifndef MEMORYD_CORE_BLOCKS_MESSAGE_EMBEDDER_H_
#define MEMORYD_CORE_BLOCKS_MESSAGE_EMBEDDER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/blocks/block.h"
#include "core/blocks/block_kinds.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/model_calls.h"
#include "core/model/trace_context.h"
#include "core/model/usage_count.h"

namespace memoryd {

// Only the first bytes of a message's words are embedded, so many of them.
inline constexpr std::size_t kEmbeddedTextBytes = 2000;

// The text of a message that is embedded; "" for one without words.
std::string EmbeddedText(const BodyReader& bodies, const Message& row);

// The message with what is embedded of it and nothing else: a job holds many at a time, and their
// media would be too much.
BlockMessage WordsAlone(const BodyReader& bodies, const Message& row);

// The block kRetrievalBlock: jobs feed it as others, and it says nothing. It embeds those messages
// of a job, whole or as WordsAlone(), that have no embedding where embeddings are being made, so
// that a message may be in several jobs.
// When the embedder answers with another model than the one that made the embeddings so far, the
// job stores no entries. It returns a state without the embeddings that were being made. New ones
// are begun, and every message is embedded again from the first, unless the answer comes from the
// model whose embeddings serve: then these stay. See EmbeddingState::Answered().
class MessageEmbedder final : public Block {
 public:
  // Positions of the rows of a generation in [begin, end), in any order; may wait for the store.
  using FindRows = std::function<absl::StatusOr<std::vector<std::int64_t>>(
      const SessionKey& key, std::uint64_t generation, std::int64_t begin, std::int64_t end)>;

  MessageEmbedder(ModelName embedder, const BlockEnvironment& environment, FindRows find_rows);

  bool feeds() const override { return true; }
  void Feed(FeedRequest request, Done<FeedResult> done) const override;
  void Render(RenderRequest request, Done<BlockContent> done) const override;

 private:
  const ModelName embedder_;
  ModelDirectory& models_;
  const BodyReader& bodies_;
  const FindRows find_rows_;
};

struct EmbeddedQuery {
  EmbeddingSource source;
  std::vector<float> vector;
};

// Asks the embedder that ModelName names what a query means. `usage` and `trace` may
// be null.
void EmbedQuery(ModelDirectory& models, const ModelName& embedder, const SessionKey& session,
                std::string_view query, std::shared_ptr<UsageCount> usage, TracePtr trace,
                BlockDeadline deadline, std::function<void(absl::StatusOr<EmbeddedQuery>)> done);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_MESSAGE_EMBEDDER_H_
