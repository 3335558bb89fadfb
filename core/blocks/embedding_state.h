// What made the vectors of a block, and what makes them anew.
#ifndef MEMORYD_CORE_BLOCKS_EMBEDDING_STATE_H_
#define MEMORYD_CORE_BLOCKS_EMBEDDING_STATE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/blocks/entry_log.h"
#include "core/model/job.h"

namespace memoryd {

// Under this name, which no caller can give a block, stands in a session's row of a block which
// messages have embeddings. `entry_generation` is that of the embeddings: each is a VectorEntry
// with nothing but a vector, at its message's position; without numbers where the message has no
// words. `next_entry` is the position up to which messages have been given to jobs, `state` what
// EmbeddingState::ToJson() wrote.
inline constexpr std::string_view kRetrievalBlock = ".retrieval";

// What made vectors: those of another are not compared with them.
struct EmbeddingSource {
  // As the session's configuration names it; "" in states written before this was kept.
  std::string embedder;
  std::string worker;
  std::string model;     // As the embedder calls it; "" where it does not.
  std::size_t size = 0;  // Of a vector; 0: there is none yet.

  bool IsNamed(std::string_view by_worker, std::string_view by_embedder) const {
    return worker == by_worker && embedder == by_embedder;
  }

  // OK when vectors of `other` can be compared with those of this, which has some: one size, and
  // one model as far as both say theirs, else one embedder as far as both are known.
  // FAILED_PRECONDITION `EMBEDDING_SIZE` or `EMBEDDING_MODEL`.
  absl::Status Accepts(const EmbeddingSource& other) const;

  friend bool operator==(const EmbeddingSource&, const EmbeddingSource&) = default;
};

// OK for a size that vectors may have; else FAILED_PRECONDITION `EMBEDDING_SIZE`.
absl::Status CheckEmbeddingSize(std::size_t size);

// Embeddings that are made while others serve.
struct NextEmbeddings {
  std::uint64_t generation = 0;  // Of the entries; 0: none has been chosen.
  EmbeddingSource source;
  // As BlockState::next_entry.
  std::int64_t next_entry = 1;
  // Messages at positions before it have theirs, but for jobs that were given up.
  std::int64_t done = 1;
  // The latest job took in all messages that there were: when it has ended these serve, whatever
  // has come since.
  bool caught_up = false;
  // Of a `vector` block: its latest job that embeds entries; 0: there was none.
  std::int64_t job = 0;

  friend bool operator==(const NextEmbeddings&, const NextEmbeddings&) = default;
};

// The state of kRetrievalBlock and, with a log, of a `vector` block. There entries take the place
// of messages: jobs of its own give those of `next` the numbers and texts of those that serve. What
// is fed meanwhile is stored beside these without a vector, which is found once `next` serves.
struct EmbeddingState {
  EmbeddingSource source;  // Of the entries that serve.
  // How often messages were reset of which a job under way may have taken in some: it has to look
  // again.
  std::int64_t cuts = 0;
  // Messages from this position to `next_entry` are given to jobs once more, for those that have no
  // embedding; of a `vector` block the first entry that has none. 0: all have one.
  std::int64_t look_again = 0;
  // All that jobs embed goes there while it is set, until it takes the place of what serves.
  std::optional<NextEmbeddings> next;
  EntryLog log;

  friend bool operator==(const EmbeddingState&, const EmbeddingState&) = default;

  std::string ToJson() const;
  // DATA_LOSS when `json` is not what ToJson() wrote; "" is no embeddings.
  static absl::StatusOr<EmbeddingState> FromJson(std::string_view json);
  // The same, and no embeddings where it can't be read: a job tells of that.
  static EmbeddingState FromJsonOrNone(std::string_view json);

  // Takes note of what has answered a job. True when the answer belongs to the vectors that are
  // being made. Else false: those are others from now on, a new `next`, or none where the answer
  // comes from what made those that serve. CheckEmbeddingSize() is the error.
  absl::StatusOr<bool> Answered(const EmbeddingSource& by);
  // The same of a `vector` block, where what is to serve is always made anew from the first entry,
  // and is when one that serves has no vector.
  absl::StatusOr<bool> AnsweredEntries(const EmbeddingSource& by);
};

// Reads the state of a block that is being re-embedded. It returns nullopt for any other state,
// whose text it searches and does not parse, and for a state that can't be read.
std::optional<EmbeddingState> StateWithNext(std::string_view state);

// When entries of a block are to be deleted that hides some, or keeps them for `ttl_us`, 0 for
// ever, in microseconds since the epoch; 0: never. DATA_LOSS for a state that can't be read. That
// of a block that hides none and keeps all is searched and not read.
absl::StatusOr<std::int64_t> EntriesDueUs(const BlockState& block, std::int64_t ttl_us,
                                          std::int64_t now_us);

// How many entries of a block are stored; of kRetrievalBlock, how many messages have been given to
// jobs.
std::int64_t CountEntries(const BlockState& block);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_EMBEDDING_STATE_H_
