#include "core/writes/commands/contents.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "core/model/message.h"
#include "core/sessions/session_errors.h"
#include "core/writes/draft/session_draft.h"
#include "core/writes/draft/sizes.h"
#include "core/writes/write.h"

namespace memoryd {

SessionDraft::Decision SessionDraft::Apply(const commands::UpdateContent& update, Write& write) {
  const WriteRequest& request = write.request;
  if (!exists()) return Refused(SessionNotFound());
  if (absl::Status status = CheckRevision(request); !status.ok()) return Refused(status);
  if (absl::Status status = CheckFoundContent(request); !status.ok()) return Refused(status);
  const Content& stored = *request.found->messages.front();
  if (stored.IsExpired(now_us_)) return Refused(ContentNotFound());
  if (auto decision = CountTokens(write, *config_); decision.has_value())
    return *std::move(decision);
  ContentDraft changed(stored);
  changed.body = update.items.contents.front().content.body;
  changed.token_count = write.token_counts.contents.front();
  ContentPtr content(changed);
  row_.content_bytes =
      std::max<std::int64_t>(0, row_.content_bytes + BodyBytes(*content) - BodyBytes(stored));
  row_.edit_revision = row_.revision + 1;
  replaced_content_ = content;
  WriteResult result;
  result.contents = {std::move(content)};
  return Stored(request, std::move(result));
}

SessionDraft::Decision SessionDraft::Apply(const commands::DeleteContent& /*command*/,
                                           Write& write) {
  const WriteRequest& request = write.request;
  if (!exists()) return Refused(SessionNotFound());
  if (absl::Status status = CheckRevision(request); !status.ok()) return Refused(status);
  if (absl::Status status = CheckFoundContent(request); !status.ok()) return Refused(status);
  const ContentPtr& content = request.found->messages.front();
  erased_contents_.push_back({row_.content_generation, {content->position, content->position + 1}});
  --row_.content_count;
  row_.content_bytes = std::max<std::int64_t>(0, row_.content_bytes - BodyBytes(*content));
  row_.edit_revision = row_.revision + 1;
  WriteResult result;
  result.contents = {content};
  return Stored(request, std::move(result));
}

}  // namespace memoryd
