#include "core/writes/commands/facts.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "core/blocks/block_traits.h"
#include "core/blocks/fact_changes.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session_config.h"
#include "core/sessions/session_errors.h"
#include "core/writes/draft/session_draft.h"
#include "core/writes/write.h"

namespace memoryd {
namespace {

FactJob CallerOf(const WriteRequest& request, const std::string& writer, std::int64_t now_us) {
  return {"", now_us, writer, request.limits == nullptr ? 1 : request.limits->max_trust};
}

}  // namespace

SessionDraft::Decision SessionDraft::Apply(const commands::UndoBlockChange& undo, Write& write) {
  const WriteRequest& request = write.request;
  if (!exists()) return Refused(SessionNotFound());
  if (absl::Status status = CheckRevision(request); !status.ok()) return Refused(status);
  const BlockSettings* const settings = FindBlockSettings(undo.block);
  if (settings == nullptr) return Refused(BlockNotFound());
  const BlockState* const current = blocks_.Find(undo.block);
  auto undone =
      settings->traits->UndoChange(current == nullptr ? "" : std::string_view(current->state),
                                   undo.change, CallerOf(request, undo.writer, now_us_));
  if (!undone.ok()) return Refused(undone.status());
  blocks_.Change(undo.block).state = std::move(undone->state);
  WriteResult result;
  result.facts = std::move(undone->facts);
  return Stored(request, std::move(result));
}

SessionDraft::Decision SessionDraft::Apply(const commands::EditFact& edit, Write& write) {
  const WriteRequest& request = write.request;
  if (!exists()) return Refused(SessionNotFound());
  if (absl::Status status = CheckRevision(request); !status.ok()) return Refused(status);
  const BlockSettings* const settings = FindBlockSettings(edit.block);
  if (settings == nullptr) return Refused(BlockNotFound());
  FactEdit fact = edit.fact;
  if (request.found.has_value()) {
    if (absl::Status status = CheckFound(request); !status.ok()) return Refused(status);
    fact.evidence.clear();
    for (const MessagePtr& message : request.found->messages) {
      fact.evidence.push_back(MessageId(*message, row_.generation));
    }
  }
  const BlockState* const current = blocks_.Find(edit.block);
  auto edited =
      settings->traits->EditFact(current == nullptr ? "" : std::string_view(current->state), fact,
                                 CallerOf(request, edit.writer, now_us_));
  if (!edited.ok()) return Refused(edited.status());
  blocks_.MakeGeneration();
  blocks_.Change(edit.block).state = std::move(edited->state);
  WriteResult result;
  result.edited_fact = std::move(edited->edited);
  return Stored(request, std::move(result));
}

}  // namespace memoryd
