#include "server/wire/convert.h"

#include <fmt/format.h>
#include <openssl/sha.h>

#include <array>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <type_traits>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/error.h"
#include "core/base/field_path.h"
#include "core/base/json_check.h"
#include "core/base/status_macros.h"
#include "core/base/visible_text.h"
#include "core/blocks/block_kinds.h"
#include "core/model/role.h"
#include "server/wire/timestamp.h"

namespace memoryd {
namespace {

constexpr std::size_t kMaxName = 256;
// Gateways put what a model signed into the id of its call: some 5 KiB.
constexpr std::size_t kMaxCallId = std::size_t{16} << 10;
constexpr std::size_t kMaxMimeType = 128;
// Of who wrote something elsewhere.
constexpr std::size_t kMaxWriter = 1024;
constexpr std::size_t kMaxText = std::size_t{1} << 20;
constexpr std::size_t kMaxJson = std::size_t{256} << 10;
constexpr int kMaxParts = 1000;
constexpr std::int64_t kMaxTokens = std::numeric_limits<std::int32_t>::max();

// Decodes the code point at `i` of valid UTF-8 and moves `i` behind it.
char32_t NextCodePoint(std::string_view text, std::size_t& i) {
  const auto lead = static_cast<unsigned char>(text[i++]);
  if (lead < 0x80) return lead;
  const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
  char32_t code = lead & (0x3Fu >> more);
  for (int k = 0; k < more && i < text.size(); ++k) {
    code = (code << 6) | (static_cast<unsigned char>(text[i++]) & 0x3Fu);
  }
  return code;
}

// Characters that make two different ids look alike, or an id break a log line. An id that makes a
// session has none that Unicode calls default-ignorable either, see SessionDraft.
bool IsForbiddenInId(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x00AD || c == 0x061C || c == 0x180E ||
         c == 0x200B || c == 0x200E || c == 0x200F || (c >= 0x2028 && c <= 0x202E) ||
         (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF;
}

absl::Status CheckNoControl(const FieldPath& field, std::string_view value) {
  for (std::size_t i = 0; i < value.size();) {
    if (IsForbiddenInId(NextCodePoint(value, i))) {
      return InvalidField(field, "must not hold control, zero-width or bidirectional characters");
    }
  }
  if (!ShowsJoiners(value)) {
    return InvalidField(field,
                        "must have U+200C and U+200D only where they change letters, and in emoji");
  }
  return absl::OkStatus();
}

absl::Status CheckJson(const FieldPath& field, std::string_view value, bool any_value) {
  if (value.empty()) return absl::OkStatus();
  MEMORYD_RETURN_IF_ERROR(CheckText(field, value, any_value ? kMaxText : kMaxJson));
  JsonLimits limits;
  limits.any_value = any_value;
  if (absl::Status status = CheckJsonObject(value, limits); !status.ok()) {
    return InvalidField(field, std::string(status.message()));
  }
  return absl::OkStatus();
}

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

absl::StatusOr<BlockSettings> FromBlock(const FieldPath& field, const v1::Block& block) {
  BlockSettings settings;
  // Names are looked at with the rest of the configuration; here only what the wire alone knows.
  settings.name = block.name();
  settings.kind = block.kind();
  settings.priority = block.priority();
  if (!block.worker().empty()) {
    MEMORYD_RETURN_IF_ERROR(CheckId(field.Field("worker"), block.worker(), kMaxIdBytes));
    settings.worker = block.worker();
  }
  MEMORYD_RETURN_IF_ERROR(CheckJson(field.Field("options_json"), block.options_json(), false));
  settings.options_json = block.options_json();
  if (block.content_size() > kMaxParts) {
    return InvalidField(field.Field("content"), "at most 1,000 parts");
  }
  for (int i = 0; i < block.content_size(); ++i) {
    MessageDraft ignored;
    v1::Part part = block.content(i);
    part.DiscardUnknownFields();
    MEMORYD_RETURN_IF_ERROR(FromPart(field.Element("content", i), part, ignored).status());
    settings.content.push_back(part.SerializeAsString());
  }
  return settings;
}

}  // namespace

absl::Status CheckId(const FieldPath& field, std::string_view value, std::size_t max_bytes) {
  if (value.empty()) return InvalidField(field, "is required");
  if (value.size() > max_bytes) {
    return InvalidField(field, fmt::format("must be at most {} bytes", max_bytes));
  }
  return CheckNoControl(field, value);
}

absl::Status CheckSessionId(std::string_view value) {
  return CheckId("session_id", value, kMaxSessionId);
}

absl::Status CheckText(const FieldPath& field, std::string_view value, std::size_t max_bytes) {
  if (value.size() <= max_bytes) return absl::OkStatus();
  return InvalidField(field, fmt::format("must be at most {} bytes", max_bytes));
}

absl::Status CheckTime(const FieldPath& field, const google::protobuf::Timestamp& time) {
  // The range of google.protobuf.Timestamp: years 1 to 9999.
  if (time.seconds() < -62135596800 || time.seconds() > 253402300799 || time.nanos() < 0 ||
      time.nanos() > 999999999) {
    return InvalidField(field, "must be within the years 1 to 9999, with nanos 0 to 999999999");
  }
  return absl::OkStatus();
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

absl::Status CheckServerTime(const FieldPath& field, const google::protobuf::Timestamp& time) {
  MEMORYD_RETURN_IF_ERROR(CheckTime(field, time));
  if (time.seconds() < 0) return InvalidField(field, "must not be before 1970");
  return absl::OkStatus();
}

namespace {

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

namespace {

// A number of v1::Retrieval, and what it is called in the core.
struct Weight {
  std::optional<double> RankingSettings::*setting;
  double RankingOptions::*option;
  bool (v1::Retrieval::*is_set)() const;
  double (v1::Retrieval::*get)() const;
  void (v1::Retrieval::*set)(double);
};

constexpr auto kWeights = std::to_array<Weight>({
    {&RankingSettings::bm25_k1, &RankingOptions::bm25_k1, &v1::Retrieval::has_bm25_k1,
     &v1::Retrieval::bm25_k1, &v1::Retrieval::set_bm25_k1},
    {&RankingSettings::bm25_b, &RankingOptions::bm25_b, &v1::Retrieval::has_bm25_b,
     &v1::Retrieval::bm25_b, &v1::Retrieval::set_bm25_b},
    {&RankingSettings::vector_weight, &RankingOptions::vector_weight,
     &v1::Retrieval::has_vector_weight, &v1::Retrieval::vector_weight,
     &v1::Retrieval::set_vector_weight},
    {&RankingSettings::vector_threshold, &RankingOptions::vector_threshold,
     &v1::Retrieval::has_vector_threshold, &v1::Retrieval::vector_threshold,
     &v1::Retrieval::set_vector_threshold},
    {&RankingSettings::author_weight, &RankingOptions::author_weight,
     &v1::Retrieval::has_author_weight, &v1::Retrieval::author_weight,
     &v1::Retrieval::set_author_weight},
    {&RankingSettings::neighbour_weight, &RankingOptions::neighbour_weight,
     &v1::Retrieval::has_neighbour_weight, &v1::Retrieval::neighbour_weight,
     &v1::Retrieval::set_neighbour_weight},
    {&RankingSettings::neighbour_tokens, &RankingOptions::neighbour_tokens,
     &v1::Retrieval::has_neighbour_tokens, &v1::Retrieval::neighbour_tokens,
     &v1::Retrieval::set_neighbour_tokens},
    {&RankingSettings::answer_factor, &RankingOptions::answer_factor,
     &v1::Retrieval::has_answer_factor, &v1::Retrieval::answer_factor,
     &v1::Retrieval::set_answer_factor},
    {&RankingSettings::thread_weight, &RankingOptions::thread_weight,
     &v1::Retrieval::has_thread_weight, &v1::Retrieval::thread_weight,
     &v1::Retrieval::set_thread_weight},
    {&RankingSettings::length_weight, &RankingOptions::length_weight,
     &v1::Retrieval::has_length_weight, &v1::Retrieval::length_weight,
     &v1::Retrieval::set_length_weight},
    {&RankingSettings::length_tokens, &RankingOptions::length_tokens,
     &v1::Retrieval::has_length_tokens, &v1::Retrieval::length_tokens,
     &v1::Retrieval::set_length_tokens},
    {&RankingSettings::user_weight, &RankingOptions::user_weight, &v1::Retrieval::has_user_weight,
     &v1::Retrieval::user_weight, &v1::Retrieval::set_user_weight},
    {&RankingSettings::recency_weight, &RankingOptions::recency_weight,
     &v1::Retrieval::has_recency_weight, &v1::Retrieval::recency_weight,
     &v1::Retrieval::set_recency_weight},
    {&RankingSettings::embedder_weight, &RankingOptions::embedder_weight,
     &v1::Retrieval::has_embedder_weight, &v1::Retrieval::embedder_weight,
     &v1::Retrieval::set_embedder_weight},
});

absl::StatusOr<RankingSettings> FromRetrieval(const v1::Retrieval& retrieval) {
  RankingSettings settings;
  for (const Weight& weight : kWeights) {
    if ((retrieval.*weight.is_set)()) settings.*weight.setting = (retrieval.*weight.get)();
  }
  if (retrieval.has_expansion()) settings.expansion = retrieval.expansion();
  if (retrieval.has_dates()) settings.dates = retrieval.dates();
  const FieldPath path("config.retrieval");
  // "" is a value of both: none.
  for (const auto& [field, is_set, name, setting] :
       {std::tuple("embedder", retrieval.has_embedder(), &retrieval.embedder(), &settings.embedder),
        std::tuple("embedder_worker", retrieval.has_embedder_worker(), &retrieval.embedder_worker(),
                   &settings.embedder_worker)}) {
    if (!is_set) continue;
    if (!name->empty()) {
      MEMORYD_RETURN_IF_ERROR(CheckId(path.Field(field), *name, kMaxIdBytes));
    }
    *setting = *name;
  }
  return settings;
}

v1::Retrieval ToProto(const RankingOptions& ranking) {
  v1::Retrieval retrieval;
  for (const Weight& weight : kWeights) (retrieval.*weight.set)(ranking.*weight.option);
  if (ranking.expansion.has_value()) retrieval.set_expansion(*ranking.expansion);
  retrieval.set_dates(ranking.dates);
  retrieval.set_embedder(ranking.embedder);
  retrieval.set_embedder_worker(ranking.embedder_worker);
  return retrieval;
}

constexpr std::int64_t kMicrosPerSecond = 1'000'000;

// Whatever is beyond all ranges stays beyond them, and what is no duration is.
std::int64_t ToMicros(const google::protobuf::Duration& duration) {
  constexpr std::int32_t kMostNanos = 999'999'999;
  const bool agree = duration.nanos() == 0 || duration.seconds() == 0 ||
                     (duration.nanos() > 0) == (duration.seconds() > 0);
  if (!agree || duration.nanos() < -kMostNanos || duration.nanos() > kMostNanos) return -1;
  constexpr std::int64_t kMostSeconds = std::int64_t{1} << 40;
  const std::int64_t seconds = std::clamp(duration.seconds(), -kMostSeconds, kMostSeconds);
  const std::int64_t micros = seconds * kMicrosPerSecond + duration.nanos() / 1000;
  // What is shorter than a microsecond is not 0, which would be never.
  return micros == 0 && duration.nanos() != 0 ? 1 : micros;
}

void SetDuration(google::protobuf::Duration& duration, std::int64_t micros) {
  duration.set_seconds(micros / kMicrosPerSecond);
  duration.set_nanos(static_cast<std::int32_t>(micros % kMicrosPerSecond * 1000));
}

RetentionSettings FromRetention(const v1::Retention& retention) {
  RetentionSettings settings;
  if (retention.has_session_ttl()) settings.session_ttl_us = ToMicros(retention.session_ttl());
  if (retention.has_refresh_on_read()) settings.refresh_on_read = retention.refresh_on_read();
  if (retention.has_keep_messages()) settings.keep_messages = retention.keep_messages();
  if (retention.has_message_ttl()) settings.message_ttl_us = ToMicros(retention.message_ttl());
  if (retention.has_keep_bytes()) settings.keep_bytes = retention.keep_bytes();
  return settings;
}

v1::Retention ToProto(const Retention& retention) {
  v1::Retention proto;
  if (retention.session_ttl_us > 0) {
    SetDuration(*proto.mutable_session_ttl(), retention.session_ttl_us);
  }
  if (retention.refresh_on_read) proto.set_refresh_on_read(true);
  if (retention.keep_messages > 0) proto.set_keep_messages(retention.keep_messages);
  if (retention.message_ttl_us > 0) {
    SetDuration(*proto.mutable_message_ttl(), retention.message_ttl_us);
  }
  if (retention.keep_bytes > 0) proto.set_keep_bytes(retention.keep_bytes);
  return proto;
}

}  // namespace

absl::StatusOr<SessionSettings> FromProto(const v1::SessionConfig& config) {
  SessionSettings settings;
  if (!config.profile().empty()) {
    settings.profile = ParseProfile(config.profile());
    if (!settings.profile.has_value()) {
      return InvalidField("config.profile", "must be default, llama-index or autogen-list");
    }
  }
  if (!config.policy().empty()) {
    settings.policy = ParsePolicy(config.policy());
    if (!settings.policy.has_value()) {
      return InvalidField("config.policy", "must be fifo or buffer");
    }
  }
  if (!config.tokenizer().empty()) settings.tokenizer = config.tokenizer();
  if (config.has_token_limit()) settings.token_limit = config.token_limit();
  if (config.has_token_flush_size()) settings.token_flush_size = config.token_flush_size();
  if (config.has_chat_history_token_ratio()) {
    settings.chat_history_token_ratio = config.chat_history_token_ratio();
  }
  if (config.has_image_token_count()) settings.image_token_count = config.image_token_count();
  if (config.has_audio_token_count()) settings.audio_token_count = config.audio_token_count();
  if (config.has_video_token_count()) settings.video_token_count = config.video_token_count();
  if (config.has_document_token_count()) {
    settings.document_token_count = config.document_token_count();
  }
  switch (config.insert_method()) {
    case v1::INSERT_METHOD_UNSPECIFIED:
      break;
    case v1::INSERT_METHOD_SYSTEM:
      settings.insert_method = InsertMethod::kSystem;
      break;
    case v1::INSERT_METHOD_USER:
      settings.insert_method = InsertMethod::kUser;
      break;
    default:
      return InvalidField("config.insert_method", "is not a known value");
  }
  switch (config.feed()) {
    case v1::FEED_UNSPECIFIED:
      break;
    case v1::FEED_AFTER_COMMIT:
      settings.feed = FeedTime::kAfterCommit;
      break;
    case v1::FEED_BEFORE_REPLY:
      settings.feed = FeedTime::kBeforeReply;
      break;
    default:
      return InvalidField("config.feed", "is not a known value");
  }
  if (static_cast<std::size_t>(config.blocks_size()) > kMaxBlocks) {
    return InvalidField("config.blocks", "at most 32 blocks");
  }
  if (config.blocks_size() > 0) settings.blocks.emplace();
  for (int i = 0; i < config.blocks_size(); ++i) {
    MEMORYD_ASSIGN_OR_RETURN(BlockSettings block,
                             FromBlock(FieldPath("config.blocks", i), config.blocks(i)));
    settings.blocks->push_back(std::move(block));
  }
  MEMORYD_ASSIGN_OR_RETURN(settings.ranking, FromRetrieval(config.retrieval()));
  settings.retention = FromRetention(config.retention());
  if (config.has_subject()) {
    settings.subject = config.subject();
    if (!config.subject().empty()) {
      MEMORYD_RETURN_IF_ERROR(CheckId("config.subject", config.subject(), kMaxSubjectBytes));
    }
  }
  if (config.has_time_zone()) {
    settings.time_zone =
        config.time_zone().empty() ? std::string(kDefaultTimeZone) : config.time_zone();
    MEMORYD_RETURN_IF_ERROR(CheckTimeZone(settings));
  }
  if (config.has_cut_highest_first()) settings.cut_highest_first = config.cut_highest_first();
  if (config.user_roles_size() > kMaxUserRoles) {
    return InvalidField("config.user_roles", fmt::format("at most {} roles", kMaxUserRoles));
  }
  if (config.user_roles_size() > 0) settings.user_roles.emplace();
  for (int i = 0; i < config.user_roles_size(); ++i) {
    MEMORYD_RETURN_IF_ERROR(
        CheckId(FieldPath("config.user_roles", i), config.user_roles(i), kMaxRoleBytes));
    settings.user_roles->push_back(config.user_roles(i));
  }
  return settings;
}

absl::StatusOr<SessionSettings> FromConfigBesideTemplate(const v1::SessionConfig& config) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  config.GetReflection()->ListFields(config, &fields);
  for (const google::protobuf::FieldDescriptor* field : fields) {
    if (field->number() == v1::SessionConfig::kSubjectFieldNumber ||
        field->number() == v1::SessionConfig::kTimeZoneFieldNumber) {
      continue;
    }
    return InvalidField("template",
                        fmt::format("says how the session remembers, and so does config.{}; give "
                                    "one of them: beside a template config may have subject and "
                                    "time_zone alone",
                                    std::string(field->name())));
  }
  return FromProto(config);
}

v1::Block ToProto(const BlockSettings& settings) {
  v1::Block block;
  block.set_name(settings.name);
  block.set_kind(settings.kind);
  block.set_priority(settings.priority);
  block.set_worker(settings.worker);
  block.set_options_json(settings.options_json);
  for (const std::string& part : settings.content) block.add_content()->ParseFromString(part);
  return block;
}

v1::Usage ToProto(const Usage& usage) {
  v1::Usage proto;
  proto.set_calls(usage.calls);
  proto.set_prompt_tokens(usage.prompt_tokens);
  proto.set_completion_tokens(usage.completion_tokens);
  return proto;
}

v1::SessionConfig ToProto(const SessionConfig& config) {
  v1::SessionConfig proto;
  proto.set_profile(std::string(ProfileName(config.counting.profile)));
  proto.set_token_limit(config.token_limit);
  proto.set_token_flush_size(config.token_flush_size);
  proto.set_chat_history_token_ratio(config.chat_history_token_ratio);
  proto.set_insert_method(config.insert_method == InsertMethod::kUser ? v1::INSERT_METHOD_USER
                                                                      : v1::INSERT_METHOD_SYSTEM);
  proto.set_tokenizer(config.counting.tokenizer);
  proto.set_policy(std::string(PolicyName(config.policy)));
  proto.set_feed(config.feed == FeedTime::kBeforeReply ? v1::FEED_BEFORE_REPLY
                                                       : v1::FEED_AFTER_COMMIT);
  proto.set_image_token_count(config.counting.image_token_count);
  proto.set_audio_token_count(config.counting.audio_token_count);
  proto.set_video_token_count(config.counting.video_token_count);
  proto.set_document_token_count(config.counting.document_token_count);
  for (const BlockSettings& settings : config.blocks) *proto.add_blocks() = ToProto(settings);
  *proto.mutable_retrieval() = ToProto(config.ranking);
  if (!config.subject.empty()) proto.set_subject(config.subject);
  proto.set_time_zone(config.time_zone);
  for (const std::string& role : config.user_roles) proto.add_user_roles(role);
  proto.set_cut_highest_first(config.cut_highest_first);
  if (config.retention != Retention()) *proto.mutable_retention() = ToProto(config.retention);
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
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

}  // namespace memoryd
