// What a draft makes of a session's blocks: their states, jobs and entries.
#ifndef MEMORYD_CORE_WRITES_DRAFT_BLOCK_LEDGER_H_
#define MEMORYD_CORE_WRITES_DRAFT_BLOCK_LEDGER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/random_source.h"
#include "core/model/job.h"
#include "core/model/session_config.h"
#include "core/sessions/session.h"
#include "core/storage/store.h"
#include "core/writes/draft/garbage_list.h"

namespace memoryd {

// Which blocks there are and what a kind makes of its state, it does not know. `base` must stay
// unchanged until TakeChange(). Not thread-safe; a copy is independent.
class BlockLedger {
 public:
  // Jobs and states that it changes are of `now_us`.
  BlockLedger(const Session& base, std::int64_t now_us, RandomSource& random);

  // The blocks' generation; 0: no block has taken anything in.
  std::uint64_t generation() const { return generation_; }
  // Before a block changes for the first time.
  void MakeGeneration();

  // Null when the block has taken nothing in.
  const BlockState* Find(const std::string& name) const;
  // Makes the block's state where there is none. Valid until another call for this block.
  BlockState& Change(const std::string& name);
  // Forgets what a block knows. It keeps its row, empty, so that its jobs' numbers go on.
  void Remove(const std::string& name);
  // Forgets what these blocks, which are all but kRetrievalBlock, know, and their jobs.
  void RemoveAll(const std::vector<BlockSettings>& blocks);
  // These, as another session has them, are all there are.
  void Replace(std::uint64_t generation, const std::vector<BlockState>& states);
  // States with entries will follow under this generation.
  void Announce(std::uint64_t generation, const std::vector<BlockState>& states);

  // What models have taken for the session.
  Usage usage() const;
  void AddUsage(const Usage& usage);

  // The jobs that this draft makes.
  const std::vector<Job>& jobs() const { return jobs_; }
  void AddJob(const std::string& block, std::uint64_t message_generation, PositionRange range);
  void LeaseJobs(std::uint64_t lease, std::int64_t lease_us);
  void EndJob(JobEnd end) { ended_jobs_.push_back(std::move(end)); }
  // Ends every open job of these blocks and of kRetrievalBlock: what they would feed is gone.
  void CancelJobs(const std::vector<BlockSettings>& blocks);
  void CancelJobsOf(BlockState& state);
  // The first position of `message_generation` that an open job has still to feed to one of these
  // blocks; 0 when it is not known, kNothingToFeed when there is none.
  std::int64_t FirstToFeed(const std::vector<BlockSettings>& blocks,
                           std::uint64_t message_generation) const;

  // Where a block's entries stand, and may come to stand: those that serve, then those that are
  // made to take their place. Those that are being made are the last.
  static std::vector<EntryRange> EntriesOf(const BlockState& state);
  void AddEntry(BlockEntry entry) { entries_.push_back(std::move(entry)); }
  void SetEntries(std::vector<BlockEntry> entries) { entries_ = std::move(entries); }
  // With this commit.
  void EraseEntries(EntryRange range) { erased_entries_.push_back(range); }
  // Behind it, in steps.
  void AddGarbage(std::uint64_t generation, PositionRange range) {
    garbage_.Add(generation, range);
  }
  // The embeddings of the message at `position` go; false when the one that is to serve has not
  // been asked for yet.
  bool EraseEmbedding(std::int64_t position);
  // What is being made is given up: what serves goes on to.
  void DropNextEntries(BlockState& state);
  // After kRetrievalBlock's state, which was `before`, has become what an answer made of it.
  void NoteAnswer(const std::string& before, BlockState& state);

  // What to commit, once; `change` gets the session's key.
  void TakeChange(const SessionKey& key, SessionChange& change);
  // After TakeChange(): brings a session's states, and the bytes they take, to what was committed.
  void ApplyTo(Session& session);

 private:
  // A state takes the place of what is cached, if anything: the one place where bytes are counted.
  static void Store(BlockState state, Session& session, std::shared_ptr<const BlockState>& cached);

  const std::map<std::string, std::shared_ptr<const BlockState>>& base_;
  const std::int64_t now_us_;
  RandomSource& random_;

  std::uint64_t generation_;
  bool base_removed_ = false;  // Else changed_ stands before base_.
  std::map<std::string, BlockState> changed_;
  std::vector<BlockEntry> entries_;
  std::vector<EntryRange> erased_entries_;
  std::vector<Job> jobs_;
  std::vector<JobEnd> ended_jobs_;
  bool cancel_jobs_ = false;
  GarbageList garbage_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_DRAFT_BLOCK_LEDGER_H_
