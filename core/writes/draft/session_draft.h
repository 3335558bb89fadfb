// Decides what writes change in a session, before anything is stored.
#ifndef MEMORYD_CORE_WRITES_DRAFT_SESSION_DRAFT_H_
#define MEMORYD_CORE_WRITES_DRAFT_SESSION_DRAFT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/random_source.h"
#include "core/blocks/block_traits.h"
#include "core/blocks/entry_log.h"
#include "core/policy/policy.h"
#include "core/sessions/oldest_messages.h"
#include "core/sessions/session.h"
#include "core/storage/store.h"
#include "core/writes/draft/block_ledger.h"
#include "core/writes/draft/garbage_list.h"
#include "core/writes/draft/message_ledger.h"
#include "core/writes/draft/write_decision.h"
#include "core/writes/token_rules.h"
#include "core/writes/write.h"

namespace memoryd {

// A session as the writes of one commit leave it. The base must stay unchanged until the last
// Add(); a load may replace it afterwards. Not thread-safe.
class SessionDraft {
 public:
  using Decision = WriteDecision;

  // `now_us` becomes the ingest and update time, unless the session has a later one already: by
  // their times one can tell what came before a tombstone, whatever the clocks of servers say. What
  // is put may not make more than `max_active_bytes` active, see Session::active_bytes.
  SessionDraft(const Session& base, const TokenRules& rules, std::int64_t now_us,
               RandomSource& random, std::int64_t max_active_bytes = kAllActive);

  // Adds a write. Several Puts fit into one draft; any other write needs one of its own, see
  // CanShare(). A write that is refused leaves the draft as it was. Counts the tokens of what
  // it brings unless write.counted_with is what the session asks for, and where that is cheap.
  Decision Add(Write& write);

  // The jobs that Puts and Sets of this draft make.
  const std::vector<Job>& jobs() const { return blocks_.jobs(); }
  // Leases them to this server: it will run them itself.
  void LeaseJobs(std::uint64_t lease, std::int64_t lease_us) { blocks_.LeaseJobs(lease, lease_us); }

  static bool CanShare(const Write& write) { return TraitsOf(write.request.command).shares_commit; }

  // By how much a write would have the tenant store more, at least; nothing for what adds nothing.
  TenantUsage Growth(const Write& write) const;
  // By how much the tenant stores more, or less, once this is committed.
  TenantUsage Change() const;

  // Messages that retention took out, those left aside that went with their session.
  std::int64_t retired_messages() const { return messages_.retired(); }

  // Models have taken that much for the session since its last commit. Nothing for one that is not
  // there afterwards. While the base is unchanged.
  void AddUsage(const Usage& usage);

  // Whether any write is to be stored.
  bool dirty() const { return dirty_; }

  // Whether ApplyTo() leaves out messages that the session has: it must be read from the store.
  bool must_load() const {
    return must_load_ || (!base_.whole && messages_.active_bytes() <= max_active_bytes_);
  }

  // What to commit. Once, after the last Add().
  SessionChange TakeChange(const SessionKey& key);

  // Brings `session` to the committed state. It must be the base or at least as new: then nothing
  // is done.
  void ApplyTo(Session& session);

 private:
  // What each command does, see core/writes/commands/.
  Decision Apply(const commands::Put& command, Write& write);
  Decision Apply(const commands::Set& command, Write& write);
  Decision Apply(const commands::Reset& command, Write& write);
  Decision Apply(const commands::CreateSession& command, Write& write);
  Decision Apply(const commands::UpdateSession& command, Write& write);
  Decision Apply(const commands::DeleteSession& command, Write& write);
  Decision Apply(const commands::ForgetSession& command, Write& write);
  Decision Apply(const commands::UpdateMessage& command, Write& write);
  Decision Apply(const commands::DeleteMessage& command, Write& write);
  Decision Apply(const commands::UpdateContent& command, Write& write);
  Decision Apply(const commands::DeleteContent& command, Write& write);
  Decision Apply(const commands::UndoBlockChange& command, Write& write);
  Decision Apply(const commands::EditFact& command, Write& write);
  Decision Apply(const commands::EndJob& command, Write& write);
  Decision Apply(const commands::RetryJob& command, Write& write);
  Decision Apply(const commands::StoreUsage& command, Write& write);
  Decision Apply(const commands::NoteEmbedder& command, Write& write);
  Decision Apply(const commands::BeginStaged& command, Write& write);
  Decision Apply(const commands::AddStaged& command, Write& write);
  Decision Apply(const commands::PublishStaged& command, Write& write);
  Decision Apply(const commands::DropStaged& command, Write& write);
  Decision Apply(const commands::Sweep& command, Write& write);
  Decision Apply(const commands::TakeOutEntries& command, Write& write);
  Decision Apply(const commands::ArchiveOldest& command, Write& write);

  // What a Put or Set does once nothing is against it.
  WriteResult Put(const Write& write, const SessionSettings& settings, const SessionConfig& config);
  WriteResult Set(const Write& write, const SessionSettings& settings, const SessionConfig& config);

  bool exists() const { return row_.revision > 0 && !row_.deleted; }
  // What the session stores.
  static TenantUsage UsageOf(const SessionRow& row);
  // By how much the tenant stores more by a command that may make the session and adds items.
  TenantUsage ItemGrowth(const WriteRequest& request) const;
  // By how much the session's configuration grows.
  std::int64_t ConfigGrowth(const WriteRequest& request) const;
  // OK when the items, put to what makes `bytes` active, leave no more active than may be. `draft`,
  // which makes the changes in a copy, is called only where they might.
  absl::Status CheckActiveBytes(const IncomingItems& items, std::int64_t bytes,
                                const std::function<void(SessionDraft& copy)>& draft) const;
  absl::Status CheckRevision(const WriteRequest& request) const;
  // OK when what was found for the write is what is stored.
  absl::Status CheckFound(const WriteRequest& request) const;
  absl::Status CheckFoundContent(const WriteRequest& request) const;
  // OK when the roles were looked at of all that a Set, Reset or DeleteSession takes out, and are
  // the caller's; also where nobody had to look.
  absl::Status CheckGoing(const WriteRequest& request) const;
  // OK when the tombstone is that of the session that the write is about.
  absl::Status CheckStaged(const StagedSession& staged) const;
  // None once the write is counted.
  std::optional<Decision> CountTokens(Write& write, const SessionConfig& config) const;
  // Starts a live row where there is none.
  void Create(const SessionSettings& settings, SessionConfig config);
  void SetConfig(const SessionSettings& settings, SessionConfig config);
  std::vector<MessagePtr> Append(const Write& write);
  std::vector<ContentPtr> AppendContents(const Write& write);
  // The write made the jobs from `first` on.
  void NoteJobs(Write& write, std::size_t first);
  // Moves what the policy wants out; returns how many messages.
  std::int64_t Flush();
  // The message that opens the turn in which the active ones begin becomes this one, null for none.
  void SetOpening(MessagePtr opening);
  // Takes it out; nothing where there is none.
  void DropOpening();
  // Where retention is not to spare it any more.
  bool OpeningIsDue(std::int64_t ingest_us) const;
  // The same of the oldest messages, round by round.
  std::int64_t Archive(const std::vector<std::size_t>& rounds);
  // A job for every block that takes messages, for each round of `view`'s oldest messages.
  void AddJobs(const ActiveView& view, const std::vector<std::size_t>& rounds);
  // Jobs for the blocks that are fed with what is put.
  void AddPutJobs(const std::vector<MessagePtr>& messages);
  // Null when the session has no block of this name.
  const BlockSettings* FindBlockSettings(const std::string& name) const;
  // The sweeper is to look at the session then, if not sooner; 0: it need not.
  void LookAt(std::int64_t at_us);
  // The sweeper is to look at the session when the time of this one is over, if it has one.
  void NoteTime(const Message& item);
  // Takes out by themselves messages that are in the session, ascending.
  void TakeOut(std::vector<MessagePtr> messages, WriteResult& result);
  // Takes out what has a time of its own that is over.
  void RemoveExpired(const SweepRequest& sweep, WriteResult& result);
  // Takes out those that have.
  void ExpireStates();
  // What the session's retention takes out of it, and when the sweeper looks for the next of it.
  void DropOldest();
  void DropMessages(const LeavingMessages& leaving, std::int64_t archived_bytes);
  void EraseRows(PositionRange range);
  LeavingMessages WhatLeaves(std::int64_t keep_from) const;
  // When the oldest active message is due, of a session without archived ones; 0: never.
  std::int64_t NextActiveDrop() const;
  // When the sweeper looks at the session, as a command with these traits leaves it.
  void SetDueTimes(const CommandTraits& traits);
  // Of a session that stays: what models have taken for it was taken all the same.
  void RemoveBlocksButUsage();
  // A job for messages that none has had embedded, where the session wants that and no such job is
  // open: when it ends, the next one is made. Embeddings made anew serve once they have caught up.
  void EmbedMessages();
  // What a session of this configuration, which is not its own yet, makes of its embeddings.
  void ChangeEmbedder(const SessionConfig& config);
  // Embeddings go of the messages that RemoveActiveMessages() takes.
  void EraseActiveEmbeddings();
  // The block's state after a job, with what has become of entries meanwhile and those that the job
  // stores.
  std::string StateAfter(const JobOutcome& outcome, const BlockState& state);
  // Entries of blocks must not say these messages any more, or what the message at `position` was.
  void HideEntries(const std::vector<NumberRange>& messages);
  void HideChangedEntries(std::int64_t position);
  // As EmbedMessages(), for entries of blocks: those with an EmbeddingState::next.
  void EmbedEntries();
  // As ChangeEmbedder(), for `block` as it will be configured.
  void ChangeEntryEmbedder(const BlockSettings& block);
  // When entries are to be taken out; 0: never.
  std::int64_t EntriesDueUs() const;
  // Tells all blocks that have a state; returns how many facts they retired.
  std::int64_t TellBlocks(const GoneMessages& gone);
  void RemoveActiveMessages();
  void RemoveAllMessages();
  void RemoveContents();
  // Of a tombstone: what was staged under it and never published.
  void RemoveStaged();
  // The replies that a tombstone's session has left are its subject's: they go with that.
  void ForgetReplies();
  // There is nothing to store.
  static Decision Unchanged(const WriteRequest& request);
  // Reset or DeleteSession of a session that is not there.
  Decision NothingToRemove(const WriteRequest& request);
  Decision Stored(const WriteRequest& request, WriteResult result);
  static Decision Refused(absl::Status why) { return {Decision::Kind::kRefused, std::move(why)}; }

  const Session& base_;
  // The base's when the draft began: by TakeChange() another server's commit may be loaded there.
  const std::int64_t base_revision_;
  const TenantUsage base_usage_;
  const std::int64_t base_expire_us_;
  const std::int64_t base_drop_us_;
  const bool base_has_timed_items_;
  const TokenRules& rules_;
  const std::int64_t now_us_;
  RandomSource& random_;
  const std::int64_t max_active_bytes_;

  bool dirty_ = false;
  bool staged_ = false;  // By the last write.
  bool must_load_ = false;
  SessionRow row_;
  std::shared_ptr<const SessionConfig> config_;
  bool write_config_ = false;
  bool more_entries_ = false;  // That the sweeper has to take out.
  std::vector<ContentPtr> stored_contents_;
  std::vector<EntryRange> erased_contents_;
  ContentPtr replaced_content_;  // Of one write that has the draft for itself.
  // row_'s columns of messages change in it alone, but for what a piece of a session brings.
  MessageLedger messages_;
  // row_.block_generation follows it when a write is done.
  BlockLedger blocks_;
  std::int64_t forget_requests_before_us_ = 0;
  GarbageList garbage_;  // Of contents.
  std::vector<RequestRecord> requests_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_DRAFT_SESSION_DRAFT_H_
