#include "core/lifecycle/session_fork.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/usage_state.h"
#include "core/calls/call_end.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/sessions/session_errors.h"
#include "core/sessions/session_info.h"
#include "core/storage/store.h"
#include "core/writes/commands/staged.h"
#include "core/writes/message_lookup.h"
#include "core/writes/staged_write.h"
#include "core/writes/write.h"

namespace memoryd {
namespace {

constexpr std::int64_t kJobsPerRead = 1000;
// How often a copy begins anew because the source changed under it.
constexpr int kTries = 3;
// A copy that is not done by then before the call's deadline is given up.
constexpr std::chrono::milliseconds kTimeToAnswer(200);

absl::Status TooLate() {
  return Error(absl::StatusCode::kDeadlineExceeded, "SESSION_TOO_LARGE",
               "the session could not be copied within the call's time; nothing was made");
}

// A message is known by the same id in the copy: one that was derived from its place is written
// down.
MessagePtr Copy(const Message& row, std::uint64_t generation) {
  MessageDraft copy(row);
  copy.SetMessageId(MessageId(row, generation));
  return MessagePtr(copy);
}

// How often entries of the block have been taken out.
std::int64_t RemovalsOf(const BlockState& block) {
  const auto state = EmbeddingState::FromJson(block.state);
  return state.ok() ? state->log.removals : 0;
}

}  // namespace

void SessionFork::Start() {
  AnswerRecorded([self = shared_from_this()] { self->Begin(); });
}

void SessionFork::AnswerRecorded(std::function<void()> otherwise) {
  if (request_.request_id.empty()) {
    otherwise();
    return;
  }
  options_.run([self = shared_from_this(), otherwise = std::move(otherwise)] {
    const ForkRequest& request = self->request_;
    const auto records =
        self->options_.store->FindRequests(request.target, {&request.request_id, 1});
    if (!records.ok()) {
      self->options_.done(records.status());
    } else if (!records->front().has_value()) {
      otherwise();
    } else if (auto reply = ReplyOf(*records->front(), request.fingerprint); reply.ok()) {
      self->options_.done(ForkReply{*std::move(reply), /*replayed=*/true});
    } else {
      self->options_.done(reply.status());
    }
  });
}

void SessionFork::Begin() {
  ++tries_;
  options_.loader->WithCurrent(source_, [self = shared_from_this()](absl::Status current) {
    self->options_.run([self, current = std::move(current)] {
      const auto before = self->staged_;
      if (absl::Status status = current.ok() ? self->Plan() : current; !status.ok()) {
        self->staged_ = before;
        self->Fail(std::move(status));
        return;
      }
      self->Submit(commands::BeginStaged{self->staged_}, [self](absl::Status status) {
        if (status.ok()) {
          self->CopyNext();
        } else if (absl::IsAlreadyExists(status)) {
          // By this very request, perhaps.
          self->AnswerRecorded([self, status] { self->options_.done(status); });
        } else {
          self->Fail(std::move(status));
        }
      });
    });
  });
}

absl::Status SessionFork::Plan() {
  {
    MutexLock lock(source_->mutex);
    base_ = source_->session;
    base_.recent_requests.Clear();
  }
  MEMORYD_RETURN_IF_ERROR(CheckSource());
  MEMORYD_ASSIGN_OR_RETURN(const std::int64_t end, EndOfCopy());
  staged_ = std::make_shared<StagedSession>();
  MEMORYD_ASSIGN_OR_RETURN(staged_->settings, SessionSettings::FromJson(base_.row.config));
  staged_->config = base_.config;
  MEMORYD_RETURN_IF_ERROR(CheckBlocks());
  parts_.clear();
  next_part_ = next_in_memory_ = 0;
  PlanMessages(end);
  PlanContents();
  const bool whole = end == base_.row.next_position;
  PlanUsage(whole);
  if (!whole || base_.row.block_generation == 0) return absl::OkStatus();
  return PlanBlocks();
}

absl::Status SessionFork::CheckSource() const {
  const SessionRow& row = base_.row;
  if (!base_.exists()) return SessionNotFound();
  if (!request_.subject.empty() && base_.config->subject != request_.subject) {
    return SessionNotFound();
  }
  if (!base_.whole) return SessionTooLarge(base_.active_bytes);
  if (request_.expected_revision.value_or(row.revision) != row.revision) {
    return RevisionMismatch(row.revision);
  }
  return absl::OkStatus();
}

absl::Status SessionFork::CheckBlocks() const {
  for (const BlockSettings& block : base_.config->blocks) {
    if (block.traits->other_session() != request_.target.session) continue;
    return InvalidField("new_session_id",
                        fmt::format("the copy would show itself: block `{}` shows the session of "
                                    "this id; choose another",
                                    block.name));
  }
  return absl::OkStatus();
}

void SessionFork::PlanMessages(std::int64_t end) {
  const SessionRow& row = base_.row;
  SessionRow& copy = staged_->row;
  copy.generation = options_.random->Next();
  copy.next_position = end;
  copy.floor = std::min(row.floor, end);
  copy.watermark = std::min(row.watermark, end);
  if (row.opening < end) copy.opening = row.opening;
  copy.has_timed_items = row.has_timed_items;
  in_memory_ = base_.pinned;
  in_memory_.insert(in_memory_.end(), base_.active.begin(), base_.active.end());
  std::erase_if(in_memory_, [end](const MessagePtr& message) { return message->position >= end; });
  for (const std::int64_t position : row.pinned) {
    if (position < end) copy.pinned.push_back(position);
  }
  for (const MessagePtr& message : in_memory_) {
    ++copy.active_count;
    copy.active_tokens += message->token_count;
    copy.message_bytes += static_cast<std::int64_t>(message->body.size());
  }
  for (PositionRange range : StoredRanges(row, StatusFilter::kArchived)) {
    range.end = std::min(range.end, end);
    parts_.push_back({Part::Kind::kMessages, row.generation, copy.generation, range});
  }
}

void SessionFork::PlanContents() {
  const SessionRow& row = base_.row;
  if (row.content_count == 0) return;
  SessionRow& copy = staged_->row;
  while (copy.content_generation == 0) copy.content_generation = options_.random->Next();
  copy.next_content = row.next_content;
  copy.content_count = row.content_count;
  parts_.push_back({Part::Kind::kContents, row.content_generation, copy.content_generation,
                    StoredContents(row)});
}

void SessionFork::PlanUsage(bool whole) {
  const SessionRow& row = base_.row;
  SessionRow& copy = staged_->row;
  copy.config = row.config;
  const auto config_bytes = static_cast<std::int64_t>(row.config.size());
  TenantUsage& usage = staged_->usage;
  usage = {1, copy.active_count + copy.content_count,
           copy.message_bytes + row.content_bytes + config_bytes};
  if (!whole) return;
  usage.messages += row.archived_count;
  usage.bytes = std::max(usage.bytes, row.message_bytes + row.content_bytes + config_bytes);
}

absl::Status SessionFork::PlanBlocks() {
  SessionRow& copy = staged_->row;
  while (copy.block_generation == 0) copy.block_generation = options_.random->Next();
  staged_->with_blocks = true;
  for (const auto& [name, state] : base_.blocks) {
    // A copy has cost nothing yet.
    if (name == kUsageBlock) continue;
    BlockState& block = staged_->blocks.emplace_back(*state);
    block.done = 0;
    block.next = 1;
    if (state->entry_generation != 0) {
      block.entry_generation = options_.random->Next();
      parts_.push_back({Part::Kind::kEntries,
                        state->entry_generation,
                        block.entry_generation,
                        {0, state->next_entry}});
    }
    if (auto known = StateWithNext(block.state); known.has_value()) {
      block.state = EmbeddingsOfCopy(*std::move(known));
    }
    MEMORYD_RETURN_IF_ERROR(PlanJobs(*state));
  }
  return absl::OkStatus();
}

// The copy has those that serve. Others that are being made it makes by itself.
std::string SessionFork::EmbeddingsOfCopy(EmbeddingState embeddings) const {
  NextEmbeddings anew;
  while (anew.generation == 0) anew.generation = options_.random->Next();
  anew.source = embeddings.next->source;
  embeddings.next = std::move(anew);
  return embeddings.ToJson();
}

absl::StatusOr<std::int64_t> SessionFork::EndOfCopy() const {
  const SessionRow& row = base_.row;
  std::int64_t last = row.next_position - 1;
  if (request_.up_to_position.has_value()) {
    last = *request_.up_to_position;
    if (last >= row.next_position) {
      return Error(
          absl::StatusCode::kOutOfRange, "POSITION_OUT_OF_RANGE",
          "up_to_position: the session has no message there yet",
          {{"field", "up_to_position"}, {"last_position", std::to_string(row.next_position - 1)}});
    }
  } else if (!request_.up_to_message_id.empty()) {
    MEMORYD_ASSIGN_OR_RETURN(const MessagePtr named,
                             FindMessage(*options_.store, request_.source, {row, base_.config},
                                         request_.up_to_message_id));
    if (named == nullptr) {
      return Error(absl::StatusCode::kNotFound, "MESSAGE_NOT_FOUND",
                   "up_to_message_id: the session has no such message",
                   {{"field", "up_to_message_id"}});
    }
    last = named->position;
  }
  return last + 1;
}

absl::Status SessionFork::PlanJobs(const BlockState& state) {
  JobFilter filter;
  filter.generation = base_.row.block_generation;
  filter.after_block = state.name;
  filter.after_number = state.done;
  // By number: some may have ended since.
  while (filter.after_number + 1 < state.next) {
    filter.max_jobs = std::min(kJobsPerRead, state.next - 1 - filter.after_number);
    MEMORYD_ASSIGN_OR_RETURN(const std::vector<Job> jobs,
                             options_.store->ListJobs(request_.source, filter));
    for (const Job& job : jobs) {
      if (job.key.block != state.name) return absl::OkStatus();
      filter.after_number = job.key.number;
      // Those of entries it makes by itself.
      if (job.message_generation != base_.row.generation) continue;
      staged_->jobs.push_back({state.name, {job.begin, job.end}});
    }
    if (jobs.empty()) break;
  }
  return absl::OkStatus();
}

absl::StatusOr<StagedRows> SessionFork::NextRows() {
  StagedRows rows;
  for (; next_part_ < parts_.size(); ++next_part_) {
    Part& part = parts_[next_part_];
    if (part.range.begin >= part.range.end) continue;
    MEMORYD_ASSIGN_OR_RETURN(
        const std::vector<MessagePtr> read,
        options_.store->ReadRange(request_.source, part.from, part.range, kPieceRows, kPieceBytes));
    if (read.empty()) continue;
    part.range.begin = read.back()->position + 1;
    SessionRow& copy = staged_->row;
    for (const MessagePtr& row : read) {
      const auto bytes = static_cast<std::int64_t>(row->body.size());
      rows.bytes += row->body.size();
      switch (part.kind) {
        case Part::Kind::kMessages:
          rows.messages.push_back(Copy(*row, part.from));
          ++copy.archived_count;
          copy.message_bytes += bytes;
          break;
        case Part::Kind::kContents:
          rows.contents.push_back(Copy(*row, part.from));
          copy.content_bytes += bytes;
          break;
        case Part::Kind::kEntries:
          rows.entries.push_back({part.to, row});
          break;
      }
    }
    return rows;
  }
  for (; next_in_memory_ < in_memory_.size(); ++next_in_memory_) {
    const Message& row = *in_memory_[next_in_memory_];
    const bool full = std::ssize(rows.messages) >= kPieceRows ||
                      static_cast<std::int64_t>(rows.bytes + row.body.size()) > kPieceBytes;
    if (full && !rows.messages.empty()) break;
    rows.messages.push_back(Copy(row, base_.row.generation));
    rows.bytes += row.body.size();
  }
  return rows;
}

void SessionFork::CopyNext() {
  options_.run([self = shared_from_this()] {
    if (self->options_.answered() ||
        self->request_.deadline - kTimeToAnswer <= std::chrono::steady_clock::now()) {
      self->Fail(TooLate());
      return;
    }
    auto rows = self->NextRows();
    if (!rows.ok()) {
      self->Fail(rows.status());
    } else if (rows->empty()) {
      self->Publish();
    } else {
      self->Submit(commands::AddStaged{self->staged_, *std::move(rows)},
                   [self](absl::Status status) {
                     if (status.ok()) {
                       self->CopyNext();
                     } else {
                       self->Fail(std::move(status));
                     }
                   });
    }
  });
}

bool SessionFork::SourceStands() const {
  MutexLock lock(source_->mutex);
  return HasWhatIsCopied(source_->session);
}

bool SessionFork::HasWhatIsCopied(const Session& now) const {
  const SessionRow& row = base_.row;
  // What was active came from memory. What was archived goes only by what changes one of these.
  if (!now.exists() || now.row.generation != row.generation || now.row.floor != row.floor ||
      (row.opening < row.floor && now.row.opening != row.opening) ||
      now.row.edit_revision != row.edit_revision ||
      (row.content_count > 0 && now.row.content_generation != row.content_generation)) {
    return false;
  }
  const auto entries_of = [](const Session& session, std::uint64_t generation) {
    const auto block = std::find_if(
        session.blocks.begin(), session.blocks.end(),
        [generation](const auto& known) { return known.second->entry_generation == generation; });
    return block == session.blocks.end() ? nullptr : block->second;
  };
  return std::all_of(parts_.begin(), parts_.end(), [&](const Part& part) {
    if (part.kind != Part::Kind::kEntries) return true;
    const auto stored = entries_of(now, part.from);
    // What is taken out is made anew by jobs that the copy has not got.
    return stored != nullptr && RemovalsOf(*stored) == RemovalsOf(*entries_of(base_, part.from));
  });
}

void SessionFork::Publish() {
  options_.loader->WithCurrent(source_, [self = shared_from_this()](absl::Status status) {
    if (!status.ok()) {
      self->Fail(std::move(status));
    } else if (self->SourceStands()) {
      if (!self->options_.begin_write()) {
        self->Fail(NobodyWaits());
        return;
      }
      const SessionRow& copy = self->staged_->row;
      self->staged_->usage = StoredUsage(copy);
      WriteRequest publish;
      publish.command = commands::PublishStaged{self->staged_};
      publish.key = self->request_.target;
      publish.subject = self->request_.subject;
      publish.deadline = self->request_.deadline;
      publish.request_id = self->request_.request_id;
      publish.fingerprint = self->request_.fingerprint;
      publish.encode_reply = self->request_.encode_reply;
      self->options_.writes->Submit(
          std::move(publish), [self](absl::StatusOr<WriteReply> published) {
            if (!published.ok()) {
              self->Fail(published.status());
              return;
            }
            const bool replayed = published->replayed;
            self->options_.done(ForkReply{std::move(published->encoded), replayed});
            if (replayed) self->Drop(nullptr);
          });
    } else if (self->tries_ < kTries) {
      // What is staged goes when the next try begins.
      self->Begin();
    } else {
      self->Fail(Error(absl::StatusCode::kAborted, "SESSION_REPLACED",
                       "messages of the session were changed or removed while it was copied; try "
                       "again"));
    }
  });
}

void SessionFork::Submit(WriteCommand step, std::function<void(absl::Status)> then) {
  SubmitStaged(*options_.writes, request_.target, std::move(step), request_.deadline,
               std::move(then), request_.subject);
}

void SessionFork::Fail(absl::Status status) {
  if (staged_ == nullptr) {
    options_.done(std::move(status));
    return;
  }
  Drop([self = shared_from_this(), status = std::move(status)] { self->options_.done(status); });
}

// What could not be dropped goes when a session of this id is made, or with its tombstone.
void SessionFork::Drop(std::function<void()> then) {
  Submit(commands::DropStaged{staged_}, [then = std::move(then)](const absl::Status& /*status*/) {
    if (then) then();
  });
}

}  // namespace memoryd
