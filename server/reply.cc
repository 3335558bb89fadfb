#include "server/reply.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>

#include "core/base/error.h"
#include "memoryd/v1/memory_service.pb.h"
#include "memoryd/v1/session_service.pb.h"
#include "server/convert.h"

namespace memoryd {
namespace {

using google::protobuf::io::CodedOutputStream;

constexpr std::size_t kMaxGetBytes = std::size_t{64} << 20;
constexpr std::int64_t kMicrosPerSecond = 1'000'000;

// Wire types of protobuf's encoding.
constexpr std::uint32_t kVarint = 0;
constexpr std::uint32_t kLengthDelimited = 2;

constexpr std::uint32_t Tag(int field, std::uint32_t wire_type) {
  return (static_cast<std::uint32_t>(field) << 3) | wire_type;
}

void AppendVarint(std::string& out, std::uint64_t value) {
  std::uint8_t buffer[10];
  const std::uint8_t* const end = CodedOutputStream::WriteVarint64ToArray(value, buffer);
  out.append(reinterpret_cast<const char*>(buffer), static_cast<std::size_t>(end - buffer));
}

void AppendInt(std::string& out, int field, std::int64_t value) {
  AppendVarint(out, Tag(field, kVarint));
  AppendVarint(out, static_cast<std::uint64_t>(value));
}

void AppendBytes(std::string& out, int field, std::string_view value) {
  AppendVarint(out, Tag(field, kLengthDelimited));
  AppendVarint(out, value.size());
  out.append(value);
}

void SetTime(google::protobuf::Timestamp* time, std::int64_t micros) {
  time->set_seconds(micros / kMicrosPerSecond);
  time->set_nanos(static_cast<int>(micros % kMicrosPerSecond) * 1000);
}

// A stored body is a v1.Message without what the server adds, so a reply's message is the body
// followed by those fields: nothing is parsed.
class MessageWriter {
 public:
  MessageWriter(std::string& out, int field, std::uint64_t generation)
      : out_(out), field_(field), generation_(generation) {}

  void Append(const Message& message, v1::MessageStatus status) {
    added_.clear();
    AppendBytes(added_, v1::Message::kMessageIdFieldNumber, MessageId(message, generation_));
    AppendInt(added_, v1::Message::kTokenCountFieldNumber, message.token_count);
    AppendInt(added_, v1::Message::kPositionFieldNumber, message.position);
    AppendInt(added_, v1::Message::kStatusFieldNumber, status);
    time_.clear();
    AppendInt(time_, google::protobuf::Timestamp::kSecondsFieldNumber,
              message.ingest_us / kMicrosPerSecond);
    AppendInt(time_, google::protobuf::Timestamp::kNanosFieldNumber,
              message.ingest_us % kMicrosPerSecond * 1000);
    AppendBytes(added_, v1::Message::kIngestTimeFieldNumber, time_);
    AppendVarint(out_, Tag(field_, kLengthDelimited));
    AppendVarint(out_, message.body.size() + added_.size());
    out_.append(message.body).append(added_);
  }

 private:
  std::string& out_;
  const int field_;
  const std::uint64_t generation_;
  std::string added_;
  std::string time_;
};

// What a reply adds to a message's body, at the most often.
constexpr std::size_t kAddedBytes = 72;

std::size_t SizeOf(const std::vector<MessagePtr>& messages) {
  std::size_t bytes = 64;
  for (const MessagePtr& message : messages) {
    bytes += message->body.size() + message->message_id.size() + kAddedBytes;
  }
  return bytes;
}

template <typename Reply>
void SetMessages(const WriteResult& result, Reply& reply) {
  for (const MessagePtr& message : result.messages) {
    reply.add_message_ids(MessageId(*message, result.generation));
    reply.add_positions(message->position);
  }
}

void SetSession(const SessionRow& row, const SessionConfig& config, v1::Session* session) {
  session->set_generation(row.generation);
  session->set_revision(row.revision);
  *session->mutable_config() = ToProto(config);
  session->set_active_count(row.active_count);
  session->set_active_token_count(row.active_tokens);
  session->set_archived_count(row.archived_count);
  SetTime(session->mutable_create_time(), row.create_us);
  SetTime(session->mutable_update_time(), row.update_us);
}

}  // namespace

std::string MessageId(const Message& message, std::uint64_t generation) {
  if (!message.message_id.empty()) return message.message_id;
  return fmt::format("{:016x}-{}", generation, message.position);
}

std::string PutReply(const WriteResult& result) {
  v1::PutResponse reply;
  reply.set_revision(result.revision);
  reply.set_generation(result.generation);
  SetMessages(result, reply);
  reply.set_archived_count(result.archived_count);
  return reply.SerializeAsString();
}

std::string SetReply(const WriteResult& result) {
  v1::SetResponse reply;
  reply.set_revision(result.revision);
  reply.set_generation(result.generation);
  SetMessages(result, reply);
  reply.set_removed_count(result.removed_active + result.removed_archived);
  reply.set_archived_count(result.archived_count);
  return reply.SerializeAsString();
}

std::string ResetReply(const WriteResult& result) {
  v1::ResetResponse reply;
  reply.set_revision(result.revision);
  reply.set_generation(result.generation);
  reply.set_active_count(result.removed_active);
  reply.set_archived_count(result.removed_archived);
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

std::string DeleteSessionReply(const WriteResult& result) {
  v1::DeleteSessionResponse reply;
  reply.set_message_count(result.removed_active + result.removed_archived);
  return reply.SerializeAsString();
}

std::string WithSessionId(std::string reply, std::string_view session_id) {
  static_assert(static_cast<int>(v1::CreateSessionResponse::kSessionFieldNumber) ==
                static_cast<int>(v1::UpdateSessionResponse::kSessionFieldNumber));
  // A second occurrence of a message field is merged into the first.
  std::string session;
  AppendBytes(session, v1::Session::kSessionIdFieldNumber, session_id);
  AppendBytes(reply, v1::CreateSessionResponse::kSessionFieldNumber, session);
  return reply;
}

std::string Replayed(std::string reply, int field) {
  AppendInt(reply, field, 1);
  return reply;
}

absl::StatusOr<std::string> GetReply(const Context& context) {
  const std::size_t size = SizeOf(context.messages);
  if (size > kMaxGetBytes) {
    return Error(absl::StatusCode::kFailedPrecondition, "REPLY_TOO_LARGE",
                 "the session's active messages exceed 64 MiB: read them in pages with GetAll, or "
                 "lower the session's token_limit");
  }
  std::string reply;
  reply.reserve(size);
  MessageWriter writer(reply, v1::GetResponse::kMessagesFieldNumber, context.generation);
  for (const MessagePtr& message : context.messages) {
    writer.Append(*message, v1::MESSAGE_STATUS_ACTIVE);
  }
  AppendInt(reply, v1::GetResponse::kTokenCountFieldNumber, context.token_count);
  AppendInt(reply, v1::GetResponse::kLimitFieldNumber, context.limit);
  AppendInt(reply, v1::GetResponse::kRevisionFieldNumber, context.revision);
  AppendInt(reply, v1::GetResponse::kOverLimitTokensFieldNumber, context.over_limit_tokens);
  return reply;
}

std::string GetAllReply(const Page& page, std::string_view next_page_token) {
  std::string reply;
  reply.reserve(SizeOf(page.messages) + next_page_token.size());
  MessageWriter writer(reply, v1::GetAllResponse::kMessagesFieldNumber, page.generation);
  for (const MessagePtr& message : page.messages) {
    writer.Append(*message, page.IsActive(*message) ? v1::MESSAGE_STATUS_ACTIVE
                                                    : v1::MESSAGE_STATUS_ARCHIVED);
  }
  if (!next_page_token.empty()) {
    AppendBytes(reply, v1::GetAllResponse::kNextPageTokenFieldNumber, next_page_token);
  }
  return reply;
}

std::string GetSessionReply(std::string_view session_id, const SessionInfo& info) {
  v1::GetSessionResponse reply;
  SetSession(info.row, *info.config, reply.mutable_session());
  reply.mutable_session()->set_session_id(std::string(session_id));
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

}  // namespace memoryd
