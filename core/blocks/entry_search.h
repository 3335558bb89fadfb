// Finds entries of a block by what they mean.
#ifndef MEMORYD_CORE_BLOCKS_ENTRY_SEARCH_H_
#define MEMORYD_CORE_BLOCKS_ENTRY_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "core/blocks/entry_log.h"
#include "core/blocks/vector_entry.h"
#include "core/model/session.h"

namespace memoryd {

struct EntryQuery {
  // The entries: see BlockState.
  SessionKey key;
  std::uint64_t generation = 0;
  std::int64_t next_entry = 1;
  std::span<const float> vector;
  std::size_t top_k = 0;
  // Values that an entry's metadata must have; an entry that lacks one, or has null for it, is not
  // found.
  nlohmann::json filter = nlohmann::json::object();
  // What must not be found, and what is not stored any more.
  EntryLog log = {};
  // Entries whose own time is over by then are not found.
  std::int64_t now_us = 0;
  // Those too whose messages are older than this; 0: none.
  std::int64_t ttl_us = 0;
};

struct EntryHit {
  double similarity = 0;  // Cosine, -1 to 1.
  std::int64_t position = 0;
  std::shared_ptr<const VectorEntry> entry;  // Its vector is left out.
};

// Any thread; calls may wait for the store.
class EntrySearch {
 public:
  virtual ~EntrySearch() = default;

  // The most similar entries, the best first. Of equally similar ones the oldest are left out first
  // and the others are in the order that LlamaIndex' SimpleVectorStore gives; up to two of them:
  // the oldest first. Entries and queries of zeros are like nothing. FAILED_PRECONDITION
  // `EMBEDDING_SIZE` when there are entries but none with as many numbers as the query: another
  // model made them.
  virtual absl::StatusOr<std::vector<EntryHit>> Nearest(const EntryQuery& query) = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_ENTRY_SEARCH_H_
