#include "core/sessions/session.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/latest_state.h"
#include "core/blocks/usage_state.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/role.h"
#include "core/model/session.h"
#include "core/policy/policy.h"
#include "core/sessions/shared_config.h"
#include "core/storage/store.h"

namespace memoryd {

Session Session::Absent() {
  static const auto kDefaults = SharedConfig(SessionSettings().ToJson(), SessionConfig());
  Session session;
  session.config = kDefaults;
  return session;
}

absl::StatusOr<Session> Session::FromStore(LoadedSession loaded) {
  Session session = Absent();
  session.row = std::move(loaded.row);
  if (session.row.deleted) return session;
  MEMORYD_ASSIGN_OR_RETURN(const auto settings, SessionSettings::FromJson(session.row.config));
  MEMORYD_ASSIGN_OR_RETURN(SessionConfig config, SessionConfig::Resolve(settings));
  session.config = SharedConfig(session.row.config, std::move(config));
  session.whole = !loaded.too_large.has_value();
  session.active_bytes = loaded.too_large.value_or(0);
  session.pinned.reserve(session.row.pinned.size());
  for (MessagePtr& message : loaded.active) {
    // Stored under a configuration, or by a server, that did not know the role.
    message = WithRoleOfBody(std::move(message), session.config->user_roles);
    session.content_bytes += message->ByteSize();
    if (message->position == session.row.opening && message->position < session.row.watermark) {
      session.opening = std::move(message);
      continue;
    }
    session.active_bytes += ActiveSize(*message);
    // Pinned messages below the watermark; one above it may be pinned as well.
    const bool pinned = session.pinned.size() < session.row.pinned.size() &&
                        session.row.pinned[session.pinned.size()] == message->position;
    if (pinned) {
      session.pinned.push_back(std::move(message));
    } else {
      session.active.push_back(std::move(message));
    }
  }
  for (BlockState& state : loaded.blocks) {
    session.content_bytes += memoryd::ByteSize(state);
    std::string name = state.name;
    session.blocks.emplace(std::move(name), std::make_shared<const BlockState>(std::move(state)));
  }
  return session;
}

SessionCounts& SessionCounts::operator+=(const SessionCounts& other) {
  sessions += other.sessions;
  messages += other.messages;
  contents += other.contents;
  blocks += other.blocks;
  entries += other.entries;
  jobs += other.jobs;
  return *this;
}

bool HasExpired(const Session& session, std::int64_t now_us) {
  if (!session.row.has_timed_items) return false;
  const auto is_expired = [now_us](const MessagePtr& message) {
    return message->IsExpired(now_us);
  };
  return (session.opening && is_expired(session.opening)) ||
         std::any_of(session.pinned.begin(), session.pinned.end(), is_expired) ||
         std::any_of(session.active.begin(), session.active.end(), is_expired);
}

void HideExpired(Session& session, std::int64_t now_us) {
  if (!session.row.has_timed_items) return;
  SessionRow& row = session.row;
  const auto hides = [&row, now_us](const MessagePtr& message) {
    if (!message->IsExpired(now_us)) return false;
    --row.active_count;
    row.active_tokens -= message->token_count;
    std::erase(row.pinned, message->position);
    return true;
  };
  if (session.opening && session.opening->IsExpired(now_us)) session.opening = nullptr;
  std::erase_if(session.pinned, hides);
  std::erase_if(session.active, hides);
}

namespace {

void AddBlock(const BlockState& state, SessionCounts& counts) {
  if (state.name == kUsageBlock) return;
  if (!state.state.empty() || state.next_entry > 1) ++counts.blocks;
  counts.entries += CountEntries(state);
  counts.jobs += state.next - 1;
}

}  // namespace

SessionCounts CountsOf(const SessionRow& row, const std::vector<BlockState>& blocks) {
  SessionCounts counts;
  if (row.revision == 0 || row.deleted) return counts;
  counts.sessions = 1;
  counts.messages = row.active_count + row.archived_count;
  counts.contents = row.content_count;
  for (const BlockState& state : blocks) AddBlock(state, counts);
  return counts;
}

SessionCounts CountsOf(const Session& session) {
  SessionCounts counts = CountsOf(session.row, {});
  for (const auto& [name, state] : session.blocks) AddBlock(*state, counts);
  return counts;
}

std::size_t ByteSize(const BlockState& state) {
  // What a block may keep of its state is some thrice as large.
  const std::size_t read = 3 * std::min(state.state.size(), kMaxReadState);
  return sizeof(BlockState) + 2 * state.name.size() + state.state.size() + read + 64;
}

}  // namespace memoryd
