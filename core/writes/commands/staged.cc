#include "core/writes/commands/staged.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/model/session.h"
#include "core/sessions/session_errors.h"
#include "core/writes/draft/session_draft.h"
#include "core/writes/write.h"

namespace memoryd {

// The tombstone names what will be stored, so that whoever finds it can have that purged, and shows
// nothing of it: there is nothing between its floor and its next position, and no content.
SessionDraft::Decision SessionDraft::Apply(const commands::BeginStaged& begin, Write& write) {
  const WriteRequest& request = write.request;
  if (exists()) return Refused(SessionExists(begin.staged->id_field));
  const SessionRow& staged = begin.staged->row;
  if (row_.revision == 0) row_.create_us = now_us_;
  RemoveStaged();
  if (row_.subject != begin.staged->config->subject) ForgetReplies();
  row_.subject = begin.staged->config->subject;
  row_.deleted = true;
  row_.generation = staged.generation;
  row_.next_position = std::max(row_.next_position, staged.next_position);
  row_.floor = row_.watermark = row_.next_position;
  row_.message_bytes = std::max<std::int64_t>(1, staged.message_bytes);
  row_.content_generation = staged.content_generation;
  row_.next_content = std::max(row_.next_content, staged.next_content);
  blocks_.Announce(staged.block_generation, begin.staged->blocks);
  SetConfig(SessionSettings(), SessionConfig());
  return Stored(request, WriteResult());
}

SessionDraft::Decision SessionDraft::Apply(const commands::AddStaged& add, Write& write) {
  const WriteRequest& request = write.request;
  if (absl::Status status = CheckStaged(*add.staged); !status.ok()) return Refused(status);
  messages_.SetStored(add.rows.messages);
  stored_contents_ = add.rows.contents;
  blocks_.SetEntries(add.rows.entries);
  // How far they reach may not have been known when it was begun.
  if (!messages_.stored().empty()) {
    row_.next_position = std::max(row_.next_position, messages_.stored().back()->position + 1);
    row_.floor = row_.watermark = row_.next_position;
  }
  if (!stored_contents_.empty()) {
    row_.next_content = std::max(row_.next_content, stored_contents_.back()->position + 1);
  }
  return Stored(request, WriteResult());
}

SessionDraft::Decision SessionDraft::Apply(const commands::PublishStaged& publish, Write& write) {
  const WriteRequest& request = write.request;
  if (absl::Status status = CheckStaged(*publish.staged); !status.ok()) return Refused(status);
  const StagedSession& staged = *publish.staged;
  const std::int64_t revision = row_.revision;
  row_ = staged.row;
  row_.revision = revision;
  if (row_.create_us == 0) row_.create_us = now_us_;
  row_.deleted = false;
  SetConfig(staged.settings, *staged.config);
  blocks_.Replace(row_.block_generation, staged.blocks);
  for (const StagedSession::OpenJob& job : staged.jobs) {
    blocks_.AddJob(job.block, row_.generation, job.range);
  }
  must_load_ = true;
  WriteResult result;
  result.with_blocks = staged.with_blocks;
  return Stored(request, std::move(result));
}

SessionDraft::Decision SessionDraft::Apply(const commands::DropStaged& drop, Write& write) {
  const WriteRequest& request = write.request;
  if (absl::Status status = CheckStaged(*drop.staged); !status.ok()) return Refused(status);
  RemoveStaged();
  return Stored(request, WriteResult());
}

absl::Status SessionDraft::CheckStaged(const StagedSession& staged) const {
  const std::string_view field = staged.id_field;
  if (exists()) return SessionExists(field);
  if (row_.deleted && row_.generation == staged.row.generation) return absl::OkStatus();
  return Error(absl::StatusCode::kAborted, "SESSION_REPLACED",
               std::string(field) + ": another call makes a session of this id");
}

}  // namespace memoryd
