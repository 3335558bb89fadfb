// Which embeddings a session's messages have.
#ifndef MEMORYD_CORE_BLOCKS_EMBEDDING_STATE_H_
#define MEMORYD_CORE_BLOCKS_EMBEDDING_STATE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace memoryd {

// Under this name, which no caller can give a block, stands in a session's row of a block which
// messages have embeddings. `entry_generation` is that of the embeddings: each is a VectorEntry
// with nothing but a vector, at its message's position; without numbers where the message has no
// words. `next_entry` is the position up to which messages have been given to jobs, `state` what
// EmbeddingState::ToJson() wrote.
inline constexpr std::string_view kRetrievalBlock = ".retrieval";

// What a session's embeddings have in common: no others are compared with them.
struct EmbeddingState {
  std::string model;     // As the embedder calls it; "" where it does not.
  std::size_t size = 0;  // Of a vector; 0: there is none yet.
  // How often messages were reset of which a job under way may have taken in some: it has to look
  // again.
  std::int64_t cuts = 0;

  std::string ToJson() const;
  // DATA_LOSS when `json` is not what ToJson() wrote; "" is no embeddings.
  static absl::StatusOr<EmbeddingState> FromJson(std::string_view json);

  // FAILED_PRECONDITION `EMBEDDING_SIZE` or `EMBEDDING_MODEL` for an embedding that can't be
  // compared with those there are.
  absl::Status Accepts(std::size_t vector_size, std::string_view by_model) const;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_EMBEDDING_STATE_H_
