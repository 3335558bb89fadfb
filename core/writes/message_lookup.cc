#include "core/writes/message_lookup.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "core/base/status_macros.h"
#include "core/model/body_reader.h"
#include "core/model/message.h"
#include "core/model/role.h"
#include "core/model/session.h"
#include "core/sessions/session_errors.h"
#include "core/sessions/session_info.h"
#include "core/storage/store.h"
#include "core/writes/command.h"
#include "core/writes/commands/contents.h"
#include "core/writes/commands/facts.h"
#include "core/writes/commands/messages.h"
#include "core/writes/commands/put_set_reset.h"
#include "core/writes/commands/sweep.h"
#include "core/writes/write.h"

namespace memoryd {
namespace {

constexpr std::int64_t kReadBytes = std::int64_t{4} << 20;

// The row of this id among those at positions that are `stored`; null when there is none. One that
// was given the id comes before one that it may be derived from.
template <typename Stored>
absl::StatusOr<MessagePtr> FindRow(Store& store, const SessionKey& key, std::uint64_t generation,
                                   const std::string& id, const Stored& stored) {
  MEMORYD_ASSIGN_OR_RETURN(std::vector<std::int64_t> positions,
                           store.FindPositions(key, generation, {&id, 1}));
  if (const auto derived = PositionInId(id, generation); derived.has_value()) {
    positions.push_back(*derived);
  }
  for (const std::int64_t position : positions) {
    if (!stored(position)) continue;
    MEMORYD_ASSIGN_OR_RETURN(
        const std::vector<MessagePtr> found,
        store.ReadRange(key, generation, {position, position + 1}, 1, kReadBytes));
    if (!found.empty() && MessageId(*found.front(), generation) == id) return found.front();
  }
  return nullptr;
}

// The stored messages around `position`, ascending.
absl::StatusOr<std::vector<MessagePtr>> ReadAround(Store& store, const SessionKey& key,
                                                   const SessionRow& row, std::int64_t position) {
  std::vector<MessagePtr> around;
  for (PositionRange range : StoredRanges(row, StatusFilter::kAll)) {
    range.begin = std::max(range.begin, position - kToolPairReach);
    range.end = std::min(range.end, position + kToolPairReach + 1);
    while (range.begin < range.end) {
      MEMORYD_ASSIGN_OR_RETURN(
          const std::vector<MessagePtr> rows,
          store.ReadRange(key, row.generation, range, kToolPairReach, kReadBytes));
      if (rows.empty()) break;
      range.begin = rows.back()->position + 1;
      for (const MessagePtr& message : rows) {
        // What has no part in a pair is not kept while the rest is read.
        if (!message->ids->calls.empty() || !message->ids->results.empty())
          around.push_back(message);
      }
    }
  }
  return around;
}

// The message at `position` and those that calls and results tie to it. An answer belongs to the
// latest call of its id before it.
std::vector<MessagePtr> TiedTo(std::int64_t position, const std::vector<MessagePtr>& around) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  std::map<std::string_view, std::size_t> latest_call;
  for (std::size_t i = 0; i < around.size(); ++i) {
    for (const std::string& id : around[i]->ids->calls) latest_call[id] = i;
    for (const std::string& id : around[i]->ids->results) {
      const auto call = latest_call.find(id);
      if (call != latest_call.end() && call->second != i) pairs.emplace_back(call->second, i);
    }
  }
  std::set<std::size_t> tied;
  for (std::size_t i = 0; i < around.size(); ++i) {
    if (around[i]->position == position) tied.insert(i);
  }
  for (bool grown = true; grown;) {
    grown = false;
    for (const auto& [call, result] : pairs) {
      if (tied.count(call) == tied.count(result)) continue;
      tied.insert(call);
      tied.insert(result);
      grown = true;
    }
  }
  std::vector<MessagePtr> messages;
  messages.reserve(tied.size());
  for (const std::size_t i : tied) messages.push_back(around[i]);
  return messages;
}

absl::Status ToolPair(const std::vector<MessagePtr>& tied, std::uint64_t generation,
                      const MessagePtr& named) {
  constexpr std::size_t kMostNamed = 20;
  std::string others;
  std::size_t count = 0;
  for (const MessagePtr& message : tied) {
    if (message->position == named->position || ++count > kMostNamed) continue;
    others += (others.empty() ? "" : ", ") + MessageId(*message, generation);
  }
  return Error(absl::StatusCode::kFailedPrecondition, "TOOL_PAIR",
               fmt::format("message_id: a tool's call and its results go together; set "
                           "with_tool_messages to delete {} too",
                           others),
               {{"message_ids", others}});
}

absl::StatusOr<std::string> RoleOf(const BodyReader& bodies, const Message& message) {
  switch (message.role) {
    case Role::kAssistant:
      return "assistant";
    case Role::kSystem:
      return "system";
    case Role::kDeveloper:
      return "developer";
    case Role::kTool:
      return "tool";
    case Role::kUser:  // By whatever name, see ParseRole().
    case Role::kOther:
      break;
  }
  MEMORYD_ASSIGN_OR_RETURN(MessageHead head, bodies.ReadHead(message.body));
  return std::move(head.role);
}

absl::Status RoleNotGranted(const std::string& field) {
  return Error(absl::StatusCode::kPermissionDenied, "ROLE_NOT_GRANTED",
               field +
                   ": a message has a role that the credential may not write, so it may "
                   "neither change it nor take it out",
               {{"field", field}});
}

StatusFilter GoingWith(const WriteCommand& command) {
  const auto* const reset = std::get_if<commands::Reset>(&command);
  if (reset == nullptr) return StatusFilter::kAll;
  switch (reset->scope) {
    case ResetScope::kActive:
      return StatusFilter::kActive;
    case ResetScope::kArchived:
      return StatusFilter::kArchived;
    case ResetScope::kProfile:
    case ResetScope::kMessages:
    case ResetScope::kEverything:
      break;
  }
  return StatusFilter::kAll;
}

// Whether the caller may take out every message that a Set, Reset or DeleteSession would.
absl::Status CheckRolesOfAll(Store& store, const BodyReader& bodies, const SessionRow& row,
                             const WriteRequest& request) {
  const StatusFilter status = GoingWith(request.command);
  // An earlier look of this call. A message of one status may have got another since.
  const bool looked = request.found.has_value() && request.found->status.ok() &&
                      request.found->generation == row.generation && status == StatusFilter::kAll;
  for (PositionRange range : StoredRanges(row, status)) {
    if (looked) range.begin = std::max(range.begin, request.found->next_position);
    while (range.begin < range.end) {
      if (request.deadline <= std::chrono::steady_clock::now()) {
        return absl::UnavailableError("the session's messages could not be read in time");
      }
      MEMORYD_ASSIGN_OR_RETURN(
          const std::vector<MessagePtr> rows,
          store.ReadRange(request.key, row.generation, range, kToolPairReach, kReadBytes));
      if (rows.empty()) break;
      range.begin = rows.back()->position + 1;
      for (const MessagePtr& message : rows) {
        MEMORYD_ASSIGN_OR_RETURN(const std::string role, RoleOf(bodies, *message));
        if (!request.limits->may_write(role)) return RoleNotGranted("session_id");
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool MustCheckRoles(const WriteRequest& request) {
  return TraitsOf(request.command).finds == CommandTraits::Finds::kRoles &&
         request.limits != nullptr && request.limits->may_write != nullptr;
}

absl::StatusOr<OldestActive> ReadOldest(Store& store, const SessionKey& key, const SessionRow& row,
                                        std::span<const std::string> user_roles) {
  OldestActive oldest{row.generation, row.revision, {}};
  MEMORYD_ASSIGN_OR_RETURN(oldest.messages,
                           store.ReadRange(key, row.generation, {row.watermark, row.next_position},
                                           kOldestRows, kOldestBytes));
  for (MessagePtr& message : oldest.messages) {
    message = WithRoleOfBody(std::move(message), user_roles);
  }
  return oldest;
}

absl::StatusOr<MemoryBudget::Hold> TakeForOldest(MemoryBudget& budget, std::string_view tenant) {
  // While they are read, the store's client library holds them as well.
  std::int64_t bytes = 2 * kOldestBytes;
  if (budget.limit() > 0) bytes = std::min(bytes, budget.MostOfTenant(MemoryUse::kRequests) / 2);
  return budget.Take(tenant, MemoryUse::kRequests, bytes);
}

absl::StatusOr<MessagePtr> FindMessage(Store& store, const SessionKey& key, const SessionInfo& info,
                                       const std::string& id) {
  if (!info.exists()) return nullptr;
  const SessionRow& row = info.row;
  return FindRow(store, key, row.generation, id,
                 [&row](std::int64_t position) { return IsStored(row, position); });
}

absl::StatusOr<ContentPtr> FindContent(Store& store, const SessionKey& key, const SessionInfo& info,
                                       const std::string& id) {
  if (!info.exists()) return SessionNotFound();
  const SessionRow& row = info.row;
  ContentPtr found;
  if (row.content_count > 0) {
    MEMORYD_ASSIGN_OR_RETURN(
        found, FindRow(store, key, row.content_generation, id,
                       [&row](std::int64_t position) { return position < row.next_content; }));
  }
  if (found == nullptr) return ContentNotFound();
  return found;
}

namespace {

// What `found`, of a session that is there, has to have beside the session's numbers for a command.
// Only an error of the store is returned; why there is nothing is told in `found`.
class Finder {
 public:
  Finder(Store& store, const BodyReader& bodies, const SessionInfo& info,
         const WriteRequest& request, FoundMessages& found)
      : store_(store), bodies_(bodies), info_(info), request_(request), found_(found) {}

  absl::Status operator()(const commands::UpdateMessage& update) {
    MEMORYD_RETURN_IF_ERROR(FindNamed(update.message_id));
    return CheckRolesOfFound();
  }

  absl::Status operator()(const commands::DeleteMessage& deletion) {
    MEMORYD_RETURN_IF_ERROR(FindNamed(deletion.message_id));
    if (!found_.status.ok()) return absl::OkStatus();
    const MessagePtr named = found_.messages.front();
    if (!named->ids->calls.empty() || !named->ids->results.empty()) {
      MEMORYD_ASSIGN_OR_RETURN(const std::vector<MessagePtr> around,
                               ReadAround(store_, request_.key, info_.row, named->position));
      std::vector<MessagePtr> tied = TiedTo(named->position, around);
      if (tied.size() > 1 && !deletion.with_tool_messages) {
        found_.status = ToolPair(tied, info_.row.generation, named);
        return absl::OkStatus();
      }
      if (!tied.empty()) found_.messages = std::move(tied);
    }
    return CheckRolesOfFound();
  }

  absl::Status operator()(const commands::UpdateContent& update) {
    return FindNamedContent(update.content_id);
  }
  absl::Status operator()(const commands::DeleteContent& deletion) {
    return FindNamedContent(deletion.content_id);
  }

  absl::Status operator()(const commands::EditFact& edit) {
    for (const std::string& id : edit.fact.evidence) {
      MEMORYD_ASSIGN_OR_RETURN(MessagePtr evidence, FindMessage(store_, request_.key, info_, id));
      if (evidence == nullptr) {
        found_.status = MessageNotFound("message_ids");
        return absl::OkStatus();
      }
      found_.messages.push_back(std::move(evidence));
    }
    std::sort(found_.messages.begin(), found_.messages.end(),
              [](const MessagePtr& a, const MessagePtr& b) { return a->position < b->position; });
    return absl::OkStatus();
  }

  // The others name nothing.
  template <typename Other>
  absl::Status operator()(const Other& /*command*/) {
    static_assert(Other::kTraits.finds == CommandTraits::Finds::kNothing ||
                  Other::kTraits.finds == CommandTraits::Finds::kRoles);
    return absl::OkStatus();
  }

 private:
  absl::Status FindNamed(const std::string& id) {
    MEMORYD_ASSIGN_OR_RETURN(MessagePtr named, FindMessage(store_, request_.key, info_, id));
    if (named == nullptr) {
      found_.status = MessageNotFound("message_id");
    } else {
      found_.messages = {std::move(named)};
    }
    return absl::OkStatus();
  }

  absl::Status FindNamedContent(const std::string& id) {
    found_.generation = info_.row.content_generation;
    const auto content = FindContent(store_, request_.key, info_, id);
    if (content.ok()) {
      found_.messages = {*content};
    } else if (absl::IsNotFound(content.status())) {
      found_.status = content.status();
    } else {
      return content.status();
    }
    return absl::OkStatus();
  }

  absl::Status CheckRolesOfFound() {
    if (request_.limits == nullptr || !request_.limits->may_write) return absl::OkStatus();
    for (const MessagePtr& message : found_.messages) {
      MEMORYD_ASSIGN_OR_RETURN(const std::string role, RoleOf(bodies_, *message));
      if (!request_.limits->may_write(role)) found_.status = RoleNotGranted("message_id");
    }
    return absl::OkStatus();
  }

  Store& store_;
  const BodyReader& bodies_;
  const SessionInfo& info_;
  const WriteRequest& request_;
  FoundMessages& found_;
};

}  // namespace

absl::StatusOr<FoundMessages> FindMessages(Store& store, const BodyReader& bodies,
                                           const SessionInfo& info, const WriteRequest& request) {
  FoundMessages found;
  found.generation = info.row.generation;
  found.revision = info.row.revision;
  found.watermark = info.row.watermark;
  found.next_position = info.row.next_position;
  if (MustCheckRoles(request)) {
    if (!info.exists()) {
      found.generation = 0;
      return found;
    }
    absl::Status status = CheckRolesOfAll(store, bodies, info.row, request);
    if (!status.ok() && !absl::IsPermissionDenied(status)) return status;
    found.status = std::move(status);
    return found;
  }
  if (!info.exists()) {
    found.status = SessionNotFound();
    return found;
  }
  MEMORYD_RETURN_IF_ERROR(std::visit(Finder(store, bodies, info, request, found), request.command));
  return found;
}

}  // namespace memoryd
