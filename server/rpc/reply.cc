#include "server/rpc/reply.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/reads/context.h"
#include "core/reads/explain.h"
#include "core/reads/page.h"
#include "core/reads/session_reads.h"
#include "core/reads/session_state.h"
#include "core/sessions/session_info.h"
#include "core/storage/store.h"
#include "core/writes/write.h"
#include "memoryd/v1/memory_service.pb.h"
#include "memoryd/v1/session_service.pb.h"
#include "server/wire/convert.h"
#include "server/wire/convert_config.h"
#include "server/wire/memory_insertion.h"
#include "server/wire/timestamp.h"
#include "server/wire/wire_writer.h"

namespace memoryd {
namespace {

// The ids and positions of what was stored.
template <typename Reply>
void SetStored(const WriteResult& result, Reply& reply) {
  for (const MessagePtr& message : result.messages) {
    reply.add_message_ids(MessageId(*message, result.generation));
    reply.add_positions(message->position);
  }
  for (const ContentPtr& content : result.contents) {
    reply.add_content_ids(MessageId(*content, result.content_generation));
  }
}

void SetRow(const SessionRow& row, v1::Session* session) {
  session->set_generation(row.generation);
  session->set_revision(row.revision);
  session->set_active_count(row.active_count);
  session->set_active_token_count(row.active_tokens);
  session->set_archived_count(row.archived_count);
  session->set_content_count(row.content_count);
  SetTime(session->mutable_create_time(), row.create_us);
  SetTime(session->mutable_update_time(), row.update_us);
  if (row.expire_us > 0) SetTime(session->mutable_expire_time(), row.expire_us);
  session->set_stored_bytes(StoredUsage(row).bytes);
}

void SetSession(const SessionRow& row, const SessionConfig& config, v1::Session* session) {
  SetRow(row, session);
  *session->mutable_config() = ToProto(config);
  if (!config.template_name.empty()) session->set_template_(config.template_name);
}

v1::LeftOutReason ToProto(LeftOutReason reason) {
  switch (reason) {
    case LeftOutReason::kTokenLimit:
      return v1::LEFT_OUT_REASON_TOKEN_LIMIT;
    case LeftOutReason::kResultWithoutCall:
      return v1::LEFT_OUT_REASON_RESULT_WITHOUT_CALL;
    case LeftOutReason::kCallWithoutResult:
      return v1::LEFT_OUT_REASON_CALL_WITHOUT_RESULT;
    case LeftOutReason::kBeforeHuman:
      return v1::LEFT_OUT_REASON_BEFORE_HUMAN;
    case LeftOutReason::kExpired:
      return v1::LEFT_OUT_REASON_EXPIRED;
  }
  return v1::LEFT_OUT_REASON_UNSPECIFIED;
}

v1::BlockOutcome ToProto(BlockOutcome outcome) {
  switch (outcome) {
    case BlockOutcome::kShown:
      return v1::BLOCK_OUTCOME_SHOWN;
    case BlockOutcome::kCut:
      return v1::BLOCK_OUTCOME_CUT;
    case BlockOutcome::kDropped:
      return v1::BLOCK_OUTCOME_DROPPED;
    case BlockOutcome::kEmpty:
      return v1::BLOCK_OUTCOME_EMPTY;
    case BlockOutcome::kMissing:
      return v1::BLOCK_OUTCOME_MISSING;
  }
  return v1::BLOCK_OUTCOME_UNSPECIFIED;
}

v1::SessionChange ToProto(StateChange change) {
  switch (change) {
    case StateChange::kMessagesPut:
      return v1::SESSION_CHANGE_MESSAGES_PUT;
    case StateChange::kMessagesArchived:
      return v1::SESSION_CHANGE_MESSAGES_ARCHIVED;
    case StateChange::kMessagesRemoved:
      return v1::SESSION_CHANGE_MESSAGES_REMOVED;
    case StateChange::kMessagesReplaced:
      return v1::SESSION_CHANGE_MESSAGES_REPLACED;
    case StateChange::kItemsEdited:
      return v1::SESSION_CHANGE_ITEMS_EDITED;
    case StateChange::kContentsPut:
      return v1::SESSION_CHANGE_CONTENTS_PUT;
    case StateChange::kContentsReplaced:
      return v1::SESSION_CHANGE_CONTENTS_REPLACED;
    case StateChange::kBlocks:
      return v1::SESSION_CHANGE_BLOCKS;
    case StateChange::kJobs:
      return v1::SESSION_CHANGE_JOBS;
    case StateChange::kConfig:
      return v1::SESSION_CHANGE_CONFIG;
    case StateChange::kDeleted:
      return v1::SESSION_CHANGE_DELETED;
  }
  return v1::SESSION_CHANGE_UNSPECIFIED;
}

v1::ContextExplanation ToProto(const Explanation& explanation) {
  v1::ContextExplanation proto;
  proto.set_token_limit(explanation.token_limit);
  proto.set_short_term_token_limit(explanation.short_term_token_limit);
  proto.set_token_flush_size(explanation.token_flush_size);
  proto.set_watermark(explanation.watermark);
  proto.set_opening_position(explanation.opening_position);
  proto.set_archived_count(explanation.archived_count);
  proto.set_message_token_count(explanation.message_tokens);
  proto.set_pinned_token_count(explanation.pinned_tokens);
  proto.set_block_token_count(explanation.block_tokens);
  for (const ExplainedBlock& block : explanation.blocks) {
    v1::ExplainedBlock& explained = *proto.add_blocks();
    explained.set_block(block.block);
    explained.set_kind(block.kind);
    explained.set_priority(block.priority);
    explained.set_outcome(ToProto(block.outcome));
    explained.set_token_count(block.tokens);
    explained.set_uncut_token_count(block.uncut_tokens);
    explained.set_missing_reason(block.missing_reason);
  }
  for (const LeftOut& range : explanation.left_out) {
    v1::LeftOutMessages& messages = *proto.add_left_out();
    messages.set_first_position(range.first_position);
    messages.set_last_position(range.last_position);
    messages.set_message_count(range.messages);
    messages.set_token_count(range.tokens);
    messages.set_reason(ToProto(range.reason));
  }
  return proto;
}

}  // namespace

std::string PutReply(const WriteResult& result) {
  v1::PutResponse reply;
  reply.set_revision(result.revision);
  reply.set_generation(result.generation);
  SetStored(result, reply);
  reply.set_archived_count(result.archived_count);
  return reply.SerializeAsString();
}

std::string WithOpenJobs(std::string reply, const std::vector<OpenJob>& jobs, const Usage& usage) {
  v1::PutResponse open;
  for (const OpenJob& job : jobs) {
    v1::OpenJob& proto = *open.add_open_jobs();
    proto.set_job_id(JobId(job.job));
    proto.set_block(job.job.block);
    proto.set_state(std::string(JobStateName(job.state)));
    proto.set_error(job.error);
  }
  if (usage != Usage()) *open.mutable_usage() = ToProto(usage);
  // Fields of a message may stand in any order.
  open.AppendToString(&reply);
  return reply;
}

std::string SetReply(const WriteResult& result) {
  v1::SetResponse reply;
  reply.set_revision(result.revision);
  reply.set_generation(result.generation);
  SetStored(result, reply);
  reply.set_removed_count(result.removed_active + result.removed_archived);
  reply.set_removed_content_count(result.removed_contents);
  reply.set_archived_count(result.archived_count);
  return reply.SerializeAsString();
}

std::string ResetReply(const WriteResult& result) {
  v1::ResetResponse reply;
  reply.set_revision(result.revision);
  reply.set_generation(result.generation);
  reply.set_active_count(result.removed_active);
  reply.set_archived_count(result.removed_archived);
  reply.set_content_count(result.removed_contents);
  return reply.SerializeAsString();
}

std::string CreateSessionReply(const WriteResult& result) {
  v1::CreateSessionResponse reply;
  SetSession(result.row, *result.config, reply.mutable_session());
  return reply.SerializeAsString();
}

std::string UpdateSessionReply(const WriteResult& result) {
  v1::UpdateSessionResponse reply;
  SetSession(result.row, *result.config, reply.mutable_session());
  return reply.SerializeAsString();
}

std::string ForkSessionReply(const WriteResult& result) {
  v1::ForkSessionResponse reply;
  SetSession(result.row, *result.config, reply.mutable_session());
  reply.set_blocks_copied(result.with_blocks);
  return reply.SerializeAsString();
}

std::string ImportSessionReply(const WriteResult& result) {
  v1::ImportSessionResponse reply;
  SetSession(result.row, *result.config, reply.mutable_session());
  return reply.SerializeAsString();
}

std::string DeleteSessionReply(const WriteResult& result) {
  v1::DeleteSessionResponse reply;
  reply.set_message_count(result.removed_active + result.removed_archived);
  reply.set_content_count(result.removed_contents);
  return reply.SerializeAsString();
}

std::string WithSessionId(std::string reply, std::string_view session_id) {
  static_assert(static_cast<int>(v1::CreateSessionResponse::kSessionFieldNumber) ==
                static_cast<int>(v1::UpdateSessionResponse::kSessionFieldNumber));
  static_assert(static_cast<int>(v1::CreateSessionResponse::kSessionFieldNumber) ==
                static_cast<int>(v1::ForkSessionResponse::kSessionFieldNumber));
  static_assert(static_cast<int>(v1::CreateSessionResponse::kSessionFieldNumber) ==
                static_cast<int>(v1::ImportSessionResponse::kSessionFieldNumber));
  constexpr int kSession = v1::CreateSessionResponse::kSessionFieldNumber;
  std::string added;
  AppendBytes(added, v1::Session::kSessionIdFieldNumber, session_id);
  // Within the session, which is the first field. Readers of bytes would merge a second one into
  // it, but JSON would have the name twice.
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const std::uint8_t*>(reply.data()),
                                               static_cast<int>(reply.size()));
  constexpr std::uint32_t kTag = (static_cast<std::uint32_t>(kSession) << 3) | 2U;
  std::uint32_t size = 0;
  const bool is_first = input.ReadTag() == kTag && input.ReadVarint32(&size) &&
                        size <= reply.size() - static_cast<std::size_t>(input.CurrentPosition());
  if (!is_first) {
    AppendBytes(reply, kSession, added);
    return reply;
  }
  const auto begin = static_cast<std::size_t>(input.CurrentPosition());
  std::string with;
  AppendBytes(with, kSession, reply.substr(begin, size) + added);
  with.append(reply, begin + size);
  return with;
}

std::string Replayed(std::string reply, int field) {
  AppendInt(reply, field, 1);
  return reply;
}

absl::StatusOr<std::string> GetReply(const Context& context, const TakeReplyMemory& take) {
  const std::vector<std::string> of_blocks = BlockMessageBodies(context);
  MEMORYD_ASSIGN_OR_RETURN(const std::optional<MadeMessage> made, InsertMemory(context, of_blocks));
  std::size_t size = WireSize(context.messages);
  for (const std::string& body : of_blocks) size += body.size() + kAddedBytes;
  if (made.has_value()) size += made->body.size() + kAddedBytes;
  v1::GetResponse others;
  if (context.explanation != nullptr) {
    *others.mutable_explanation() = ToProto(*context.explanation);
    size += others.ByteSizeLong();
  }
  if (size > kMaxReplyBytes) {
    return ReplyTooLarge();
  }
  constexpr std::size_t kLarge = 64 << 10;
  if (size > kLarge) MEMORYD_RETURN_IF_ERROR(take(size));
  std::string reply;
  reply.reserve(size);
  MessageWriter writer(reply);
  constexpr int kMessages = v1::GetResponse::kMessagesFieldNumber;
  const std::size_t count = of_blocks.size() + context.messages.size();
  for (std::size_t i = 0; i <= count; ++i) {
    const bool here = made.has_value() && made->index == i;
    if (here && !made->replaces) AppendBytes(reply, kMessages, made->body);
    if (i == count) break;
    const bool replaced = here && made->replaces;
    if (i < of_blocks.size()) {
      AppendBytes(reply, kMessages, replaced ? made->body : of_blocks[i]);
    } else if (const Message& stored = *context.messages[i - of_blocks.size()]; replaced) {
      MessageDraft changed(stored);
      changed.body = made->body;
      writer.Append(kMessages, *MessagePtr(changed), context.generation, v1::MESSAGE_STATUS_ACTIVE);
    } else {
      writer.Append(kMessages, stored, context.generation, v1::MESSAGE_STATUS_ACTIVE);
    }
  }
  AppendInt(reply, v1::GetResponse::kTokenCountFieldNumber, context.token_count);
  AppendInt(reply, v1::GetResponse::kLimitFieldNumber, context.limit);
  AppendInt(reply, v1::GetResponse::kRevisionFieldNumber, context.revision);
  AppendInt(reply, v1::GetResponse::kOverLimitTokensFieldNumber, context.over_limit_tokens);
  for (const std::string& name : context.blocks_used) others.add_blocks_used(name);
  for (const std::string& name : context.blocks_dropped) others.add_blocks_dropped(name);
  for (const MissingBlock& missing : context.missing_blocks) {
    v1::MissingBlock& proto = *others.add_missing_blocks();
    proto.set_block(missing.block);
    proto.set_reason(missing.reason);
  }
  if (context.usage != Usage()) *others.mutable_usage() = ToProto(context.usage);
  others.AppendToString(&reply);
  return reply;
}

std::size_t GetAllReplySize(const Page& page, std::string_view next_page_token) {
  return WireSize(page.messages) + WireSize(page.contents) + next_page_token.size() + kAddedBytes;
}

std::string GetAllReply(const Page& page, std::string_view next_page_token) {
  std::string reply;
  reply.reserve(GetAllReplySize(page, next_page_token));
  MessageWriter writer(reply);
  for (const MessagePtr& message : page.messages) {
    writer.Append(v1::GetAllResponse::kMessagesFieldNumber, *message, page.row.generation,
                  IsActive(page.row, message->position) ? v1::MESSAGE_STATUS_ACTIVE
                                                        : v1::MESSAGE_STATUS_ARCHIVED);
  }
  for (const ContentPtr& content : page.contents) {
    writer.AppendContent(v1::GetAllResponse::kContentsFieldNumber, *content,
                         page.row.content_generation);
  }
  if (!next_page_token.empty()) {
    AppendBytes(reply, v1::GetAllResponse::kNextPageTokenFieldNumber, next_page_token);
  }
  if (page.total_count.has_value()) {
    v1::GetAllResponse total;
    total.set_total_count(*page.total_count);
    total.AppendToString(&reply);
  }
  return reply;
}

std::string GetContentReply(const ContentView& view) {
  std::string reply;
  MessageWriter writer(reply);
  writer.AppendContent(v1::GetContentResponse::kContentFieldNumber, *view.content,
                       view.row.content_generation);
  AppendInt(reply, v1::GetContentResponse::kRevisionFieldNumber, view.row.revision);
  return reply;
}

std::string GetSessionReply(std::string_view session_id, const SessionInfo& info) {
  v1::GetSessionResponse reply;
  SetSession(info.row, *info.config, reply.mutable_session());
  reply.mutable_session()->set_session_id(std::string(session_id));
  if (info.usage != Usage()) *reply.mutable_session()->mutable_usage() = ToProto(info.usage);
  return reply.SerializeAsString();
}

std::string ListSessionsReply(const std::vector<std::pair<std::string, SessionInfo>>& sessions,
                              std::string_view next_page_token) {
  v1::ListSessionsResponse reply;
  for (const auto& [session_id, info] : sessions) {
    v1::Session* const session = reply.add_sessions();
    SetSession(info.row, *info.config, session);
    session->set_session_id(session_id);
  }
  reply.set_next_page_token(std::string(next_page_token));
  return reply.SerializeAsString();
}

std::string WatchSessionReply(std::string_view session_id, const SessionState& state,
                              const StateChanges& news, bool reload) {
  v1::WatchSessionResponse reply;
  const SessionRow& row = state.row;
  reply.mutable_session()->set_session_id(std::string(session_id));
  if (reload) reply.add_changes(v1::SESSION_CHANGE_RELOAD);
  for (const StateChange change : news.changes) reply.add_changes(ToProto(change));
  // Of another session of that id, the caller knows nothing yet.
  if (!news.changes.empty() && news.changes.back() == StateChange::kDeleted) {
    return reply.SerializeAsString();
  }
  SetRow(row, reply.mutable_session());
  reply.mutable_session()->set_stored_bytes(state.stored_bytes);
  reply.set_revision(row.revision);
  reply.set_first_new_position(news.first_new_position);
  for (const std::string& name : news.blocks) reply.add_blocks(name);
  reply.set_next_position(row.next_position);
  reply.set_watermark(row.watermark - 1);
  return reply.SerializeAsString();
}

}  // namespace memoryd
