#include "server/wire/convert.h"

#include <fmt/format.h>
#include <google/protobuf/repeated_field.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/error.h"
#include "core/base/field_path.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/lifecycle/session_import.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/role.h"
#include "core/writes/commands/put_set_reset.h"
#include "core/writes/incoming.h"
#include "server/wire/field_checks.h"
#include "server/wire/timestamp.h"

namespace memoryd {
namespace {

constexpr std::size_t kMaxName = 256;
// Gateways put what a model signed into the id of its call: some 5 KiB.
constexpr std::size_t kMaxCallId = std::size_t{16} << 10;
constexpr std::size_t kMaxMimeType = 128;
// Of who wrote something elsewhere.
constexpr std::size_t kMaxWriter = 1024;
constexpr std::int64_t kMaxTokens = std::numeric_limits<std::int32_t>::max();

absl::Status CheckTokenCount(const FieldPath& field, std::int64_t value) {
  if (value >= 0 && value <= kMaxTokens) return absl::OkStatus();
  return InvalidField(field, "must be between 0 and 2147483647");
}

absl::Status CheckMedia(const FieldPath& field, const v1::Media& media) {
  if (media.has_token_count()) {
    MEMORYD_RETURN_IF_ERROR(CheckTokenCount(field.Field("token_count"), media.token_count()));
  }
  return absl::OkStatus();
}

CountedPart MediaPart(CountedPart::Kind kind, const v1::Media& media) {
  CountedPart part;
  part.kind = kind;
  if (media.has_token_count()) part.token_count = media.token_count();
  return part;
}

absl::StatusOr<CountedPart> FromPart(const FieldPath& field, const v1::Part& part,
                                     MessageDraft& message) {
  using Kind = CountedPart::Kind;
  switch (part.kind_case()) {
    case v1::Part::kText:
      MEMORYD_RETURN_IF_ERROR(CheckText(field.Field("text"), part.text(), kMaxText));
      return CountedPart{Kind::kText, part.text(), {}, {}};
    case v1::Part::kImage:
      MEMORYD_RETURN_IF_ERROR(CheckMedia(field.Field("image"), part.image()));
      return MediaPart(Kind::kImage, part.image());
    case v1::Part::kAudio:
      MEMORYD_RETURN_IF_ERROR(CheckMedia(field.Field("audio"), part.audio()));
      return MediaPart(Kind::kAudio, part.audio());
    case v1::Part::kVideo:
      MEMORYD_RETURN_IF_ERROR(CheckMedia(field.Field("video"), part.video()));
      return MediaPart(Kind::kVideo, part.video());
    case v1::Part::kDocument:
      MEMORYD_RETURN_IF_ERROR(CheckMedia(field.Field("document"), part.document()));
      return MediaPart(Kind::kDocument, part.document());
    case v1::Part::kToolCall: {
      const v1::ToolCall& call = part.tool_call();
      MEMORYD_RETURN_IF_ERROR(
          CheckText(field.Field("tool_call.arguments_json"), call.arguments_json(), kMaxText));
      MEMORYD_RETURN_IF_ERROR(
          CheckText(field.Field("tool_call.call_id"), call.call_id(), kMaxCallId));
      if (!call.call_id().empty()) message.ids.value().calls.push_back(call.call_id());
      return CountedPart{Kind::kToolCall, call.name(), call.arguments_json(), {}};
    }
    case v1::Part::kToolResult: {
      const v1::ToolResult& result = part.tool_result();
      MEMORYD_RETURN_IF_ERROR(CheckText(field.Field("tool_result.text"), result.text(), kMaxText));
      MEMORYD_RETURN_IF_ERROR(
          CheckText(field.Field("tool_result.call_id"), result.call_id(), kMaxCallId));
      if (!result.call_id().empty()) message.ids.value().results.push_back(result.call_id());
      return CountedPart{Kind::kToolResult, result.name(), result.text(), {}};
    }
    case v1::Part::kThinking:
      MEMORYD_RETURN_IF_ERROR(
          CheckText(field.Field("thinking.text"), part.thinking().text(), kMaxText));
      MEMORYD_RETURN_IF_ERROR(CheckJson(field.Field("thinking.additional_json"),
                                        part.thinking().additional_json(), true));
      return CountedPart{Kind::kThinking, part.thinking().text(), {}, {}};
    case v1::Part::kCitation:
      MEMORYD_RETURN_IF_ERROR(
          CheckText(field.Field("citation.cited_text"), part.citation().cited_text(), kMaxText));
      MEMORYD_RETURN_IF_ERROR(
          CheckJson(field.Field("citation.location_json"), part.citation().location_json(), true));
      return CountedPart{Kind::kOther, part.citation().cited_text(), part.citation().source(), {}};
    case v1::Part::kJson:
      if (part.json().empty()) return InvalidField(field.Field("json"), "must not be empty");
      MEMORYD_RETURN_IF_ERROR(CheckJson(field.Field("json"), part.json(), true));
      return CountedPart{Kind::kOther, part.json(), {}, {}};
    case v1::Part::kOpaque:
      MEMORYD_RETURN_IF_ERROR(
          CheckId(field.Field("opaque.type"), part.opaque().type(), kMaxRoleBytes));
      return CountedPart{Kind::kOther, part.opaque().data(), {}, {}};
    case v1::Part::KIND_NOT_SET:
      break;
  }
  return InvalidField(field, "exactly one kind must be set");
}

// Without a walk by reflection, see docs/adr/0024, since most messages have nothing that it would
// find.
void DiscardUnknownFields(v1::Message& message) {
  const bool is_plain = message.parts_size() == 0 && !message.has_create_time() &&
                        !message.has_ingest_time() && !message.has_expire_time() &&
                        message.GetReflection()->GetUnknownFields(message).empty();
  if (!is_plain) message.DiscardUnknownFields();
}

// Takes the time that an item has of its own, if any. That it is to come the engine checks, whose
// clock counts.
template <typename T>
absl::Status TakeExpireTime(const FieldPath& field, const T& wire, MessageDraft& item) {
  if (!wire.has_expire_time()) return absl::OkStatus();
  MEMORYD_RETURN_IF_ERROR(CheckTime(field, wire.expire_time()));
  const std::int64_t expire_us = ToMicros(wire.expire_time());
  if (expire_us <= 0) return InvalidField(field, "must be later than now");
  item.ids.value().expire_us = expire_us;
  return absl::OkStatus();
}

// The stored form of a message or a content, of which what the server adds to replies is no part,
// but for `from`. `wire` stays as the caller sent it, so that what is repeated under another
// credential is the same.
template <typename T>
std::string Stored(T& wire, const Provenance& from) {
  const bool untrusted = wire.untrusted();
  wire.set_writer(from.writer.data(), from.writer.size());
  wire.set_untrusted(untrusted || from.untrusted);
  if constexpr (std::is_same_v<T, v1::Message>) {
    wire.set_source_session_id(from.source_session_id.data(), from.source_session_id.size());
    wire.set_source_message_id(from.source_message_id.data(), from.source_message_id.size());
  }
  std::string body = wire.SerializeAsString();
  wire.clear_writer();
  wire.set_untrusted(untrusted);
  if constexpr (std::is_same_v<T, v1::Message>) {
    wire.clear_source_session_id();
    wire.clear_source_message_id();
  }
  return body;
}

// At `field`, FieldPath() when its fields are the request's own.
absl::StatusOr<IncomingContent> FromContent(const FieldPath& field, v1::Content& content,
                                            const Provenance& from) {
  content.DiscardUnknownFields();
  if (!content.content_id().empty()) {
    MEMORYD_RETURN_IF_ERROR(CheckId(field.Field("content_id"), content.content_id(), kMaxIdBytes));
  }
  MEMORYD_RETURN_IF_ERROR(CheckId(field.Field("mime_type"), content.mime_type(), kMaxMimeType));
  MEMORYD_RETURN_IF_ERROR(CheckJson(field.Field("metadata_json"), content.metadata_json(), false));
  IncomingContent incoming;
  switch (content.value_case()) {
    case v1::Content::kText:
      MEMORYD_RETURN_IF_ERROR(CheckText(field.Field("text"), content.text(), kMaxText));
      incoming.value = {CountedPart::Kind::kText, content.text(), {}, {}};
      break;
    case v1::Content::kJson:
      if (content.json().empty()) return InvalidField(field.Field("json"), "must not be empty");
      MEMORYD_RETURN_IF_ERROR(CheckJson(field.Field("json"), content.json(), true));
      incoming.value = {CountedPart::Kind::kText, content.json(), {}, {}};
      break;
    case v1::Content::kImage:
      MEMORYD_RETURN_IF_ERROR(CheckMedia(field.Field("image"), content.image()));
      incoming.value.kind = CountedPart::Kind::kImage;
      break;
    case v1::Content::kBytesValue:
      break;
    case v1::Content::VALUE_NOT_SET:
      return InvalidField(field, "exactly one of text, bytes_value, json and image must be set");
  }
  // Callers of UpdateContent know it with its dot.
  const FieldPath expire_time =
      field.IsRequest() ? FieldPath(".expire_time") : field.Field("expire_time");
  MEMORYD_RETURN_IF_ERROR(TakeExpireTime(expire_time, content, incoming.content));
  content.clear_position();
  content.clear_ingest_time();
  std::string id = std::move(*content.mutable_content_id());
  content.clear_content_id();
  incoming.content.body = Stored(content, from);
  incoming.content.SetMessageId(id);
  content.set_content_id(std::move(id));
  return incoming;
}

// Brings a checked message into its stored form, in place.
void SetBody(v1::Message& message, const Provenance& from, IncomingMessage& incoming) {
  // What the server adds to replies is not stored in the body. The token count is kept in the
  // request until now only because it belongs to the fingerprint.
  message.clear_position();
  message.clear_status();
  message.clear_ingest_time();
  incoming.message.SetMessageId(message.message_id());
  const bool has_count = message.has_token_count();
  const std::int64_t count = message.token_count();
  std::string id = std::move(*message.mutable_message_id());
  message.clear_message_id();
  message.clear_token_count();
  incoming.message.body = Stored(message, from);
  message.set_message_id(std::move(id));
  if (has_count) message.set_token_count(count);
}

// What the server gives an item when it is put.
template <typename T>
absl::Status TakePlace(const FieldPath& field, const T& wire, MessageDraft& message) {
  if (wire.position() < 1) return InvalidField(field.Field("position"), "must be at least 1");
  message.position = wire.position();
  if (wire.has_ingest_time()) {
    MEMORYD_RETURN_IF_ERROR(CheckServerTime(field.Field("ingest_time"), wire.ingest_time()));
    message.ingest_us = ToMicros(wire.ingest_time());
  } else {
    message.ingest_us = absl::ToUnixMicros(absl::Now());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPart(const FieldPath& field, const v1::Part& part) {
  MessageDraft ignored;
  return FromPart(field, part, ignored).status();
}

absl::Status CheckMessage(const FieldPath& field, v1::Message& message, IncomingMessage& incoming) {
  DiscardUnknownFields(message);
  MEMORYD_RETURN_IF_ERROR(CheckId(field.Field("role"), message.role(), kMaxRoleBytes));
  MEMORYD_RETURN_IF_ERROR(CheckText(field.Field("name"), message.name(), kMaxName));
  if (!message.message_id().empty()) {
    MEMORYD_RETURN_IF_ERROR(CheckId(field.Field("message_id"), message.message_id(), kMaxIdBytes));
  }
  if (!message.thread_id().empty()) {
    MEMORYD_RETURN_IF_ERROR(CheckId(field.Field("thread_id"), message.thread_id(), kMaxIdBytes));
  }
  if (message.has_create_time()) {
    MEMORYD_RETURN_IF_ERROR(CheckTime(field.Field("create_time"), message.create_time()));
  }
  if (message.has_token_count()) {
    MEMORYD_RETURN_IF_ERROR(CheckTokenCount(field.Field("token_count"), message.token_count()));
  }
  MEMORYD_RETURN_IF_ERROR(CheckJson(field.Field("metadata_json"), message.metadata_json(), false));
  if (message.has_text() && message.parts_size() > 0) {
    return InvalidField(field.Field("text"), "give either text or parts, not both");
  }
  if (message.parts_size() > kMaxParts) {
    return InvalidField(field.Field("parts"), "at most 1,000 parts");
  }
  // One form for one text, so that equal messages are stored and fingerprinted alike.
  if (message.parts_size() == 1 && message.parts(0).has_text()) {
    std::string text = std::move(*message.mutable_parts(0)->mutable_text());
    message.clear_parts();
    message.set_text(std::move(text));
  }

  incoming.message.role = ParseRole(message.role());
  if (message.has_token_count()) incoming.token_count = message.token_count();
  if (message.has_text()) {
    MEMORYD_RETURN_IF_ERROR(CheckText(field.Field("text"), message.text(), kMaxText));
    incoming.parts.push_back({CountedPart::Kind::kText, message.text(), {}, {}});
  }
  for (int i = 0; i < message.parts_size(); ++i) {
    MEMORYD_ASSIGN_OR_RETURN(
        CountedPart part, FromPart(field.Element("parts", i), message.parts(i), incoming.message));
    incoming.parts.push_back(part);
  }
  incoming.role = message.role();
  incoming.metadata_json = message.metadata_json();
  return TakeExpireTime(field.Field("expire_time"), message, incoming.message);
}

absl::StatusOr<IncomingMessage> FromProto(v1::Message& message, const Provenance& from) {
  IncomingMessage incoming;
  MEMORYD_RETURN_IF_ERROR(CheckMessage(FieldPath(), message, incoming));
  SetBody(message, from, incoming);
  return incoming;
}

absl::StatusOr<std::vector<IncomingMessage>> FromProto(
    google::protobuf::RepeatedPtrField<v1::Message>& messages, const Provenance& from) {
  if (messages.size() > kMaxMessagesPerRequest) {
    return InvalidField(
        "messages", fmt::format("at most {} messages; split the request", kMaxMessagesPerRequest));
  }
  std::vector<IncomingMessage> result;
  result.reserve(static_cast<std::size_t>(messages.size()));
  std::set<std::string_view> ids;
  for (int i = 0; i < messages.size(); ++i) {
    const FieldPath field("messages", i);
    IncomingMessage& incoming = result.emplace_back();
    MEMORYD_RETURN_IF_ERROR(CheckMessage(field, messages[i], incoming));
    SetBody(messages[i], from, incoming);
    const std::string& id = messages[i].message_id();
    if (!id.empty() && !ids.insert(id).second) {
      return InvalidField(field.Field("message_id"), "is given twice in this request");
    }
  }
  return result;
}

absl::StatusOr<IncomingContent> FromProto(v1::Content& content, const Provenance& from) {
  return FromContent(FieldPath(), content, from);
}

absl::StatusOr<std::vector<IncomingContent>> FromProto(
    google::protobuf::RepeatedPtrField<v1::Content>& contents, const Provenance& from) {
  if (contents.size() > kMaxMessagesPerRequest) {
    return InvalidField(
        "contents", fmt::format("at most {} contents; split the request", kMaxMessagesPerRequest));
  }
  std::vector<IncomingContent> result;
  result.reserve(static_cast<std::size_t>(contents.size()));
  std::set<std::string_view> ids;
  for (int i = 0; i < contents.size(); ++i) {
    const FieldPath field("contents", i);
    MEMORYD_ASSIGN_OR_RETURN(IncomingContent content, FromContent(field, contents[i], from));
    result.push_back(std::move(content));
    const std::string& id = contents[i].content_id();
    if (!id.empty() && !ids.insert(id).second) {
      return InvalidField(field.Field("content_id"), "is given twice in this request");
    }
  }
  return result;
}

absl::StatusOr<ImportedItems> FromProto(v1::ImportItems& items) {
  ImportedItems result;
  if (items.messages_size() > kMaxMessagesPerRequest) {
    return InvalidField("messages", fmt::format("at most {}", kMaxMessagesPerRequest));
  }
  if (items.contents_size() > kMaxMessagesPerRequest) {
    return InvalidField("contents", fmt::format("at most {}", kMaxMessagesPerRequest));
  }
  for (int i = 0; i < items.messages_size(); ++i) {
    v1::Message& message = *items.mutable_messages(i);
    const FieldPath field("messages", i);
    if (message.message_id().empty()) return InvalidField(field.Field("message_id"), "is required");
    if (message.status() < v1::MESSAGE_STATUS_UNSPECIFIED ||
        message.status() > v1::MESSAGE_STATUS_ARCHIVED) {
      return InvalidField(field.Field("status"), "is not a known value");
    }
    IncomingMessage& incoming = result.messages.emplace_back();
    MEMORYD_RETURN_IF_ERROR(TakePlace(field, message, incoming.message));
    result.archived.push_back(message.status() == v1::MESSAGE_STATUS_ARCHIVED);
    const std::string writer = message.writer();
    const std::string source_session_id = message.source_session_id();
    const std::string source_message_id = message.source_message_id();
    MEMORYD_RETURN_IF_ERROR(CheckText(field.Field("writer"), writer, kMaxWriter));
    MEMORYD_RETURN_IF_ERROR(
        CheckText(field.Field("source_session_id"), source_session_id, kMaxSessionId));
    MEMORYD_RETURN_IF_ERROR(
        CheckText(field.Field("source_message_id"), source_message_id, kMaxIdBytes));
    MEMORYD_RETURN_IF_ERROR(CheckMessage(field, message, incoming));
    Provenance from;
    from.writer = writer;
    from.source_session_id = source_session_id;
    from.source_message_id = source_message_id;
    SetBody(message, from, incoming);
  }
  for (int i = 0; i < items.contents_size(); ++i) {
    v1::Content& content = *items.mutable_contents(i);
    const FieldPath field("contents", i);
    if (content.content_id().empty()) return InvalidField(field.Field("content_id"), "is required");
    MessageDraft place;
    MEMORYD_RETURN_IF_ERROR(TakePlace(field, content, place));
    const std::string writer = content.writer();
    MEMORYD_RETURN_IF_ERROR(CheckText(field.Field("writer"), writer, kMaxWriter));
    Provenance from;
    from.writer = writer;
    MEMORYD_ASSIGN_OR_RETURN(IncomingContent incoming, FromContent(field, content, from));
    incoming.content.position = place.position;
    incoming.content.ingest_us = place.ingest_us;
    result.contents.push_back(std::move(incoming));
  }
  return result;
}

v1::Usage ToProto(const Usage& usage) {
  v1::Usage proto;
  proto.set_calls(usage.calls);
  proto.set_prompt_tokens(usage.prompt_tokens);
  proto.set_completion_tokens(usage.completion_tokens);
  return proto;
}

ResetScope FromProto(v1::ResetScope scope) {
  switch (scope) {
    case v1::RESET_SCOPE_MESSAGES:
      return ResetScope::kMessages;
    case v1::RESET_SCOPE_ACTIVE:
      return ResetScope::kActive;
    case v1::RESET_SCOPE_ARCHIVED:
      return ResetScope::kArchived;
    case v1::RESET_SCOPE_EVERYTHING:
      return ResetScope::kEverything;
    default:
      return ResetScope::kProfile;
  }
}

std::string Fingerprint(std::string_view method, const google::protobuf::Message& request) {
  // No map fields, so one message has one serialization.
  std::string bytes(method);
  bytes.push_back('\0');
  request.AppendToString(&bytes);
  const Sha256Digest digest = Sha256(bytes);
  return {digest.begin(), digest.end()};
}

}  // namespace memoryd
