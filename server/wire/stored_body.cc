#include "server/wire/stored_body.h"

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/blocks/block.h"
#include "core/model/body_reader.h"
#include "server/wire/timestamp.h"

namespace memoryd {
namespace {

template <typename T>
absl::StatusOr<T> Parse(std::string_view body) {
  T parsed;
  if (!ParseBody(body, parsed)) {
    return absl::DataLossError("a stored body can't be read back");
  }
  return parsed;
}

void AppendLine(std::string& words, std::initializer_list<std::string_view> texts) {
  for (const std::string_view text : texts) {
    if (text.empty()) continue;
    if (!words.empty()) words += '\n';
    words += text;
  }
}

void AppendPart(std::string& words, const v1::Part& part) {
  switch (part.kind_case()) {
    case v1::Part::kText:
      AppendLine(words, {part.text()});
      break;
    case v1::Part::kDocument:
      AppendLine(words, {part.document().title()});
      break;
    case v1::Part::kToolCall:
      AppendLine(words, {part.tool_call().name(), part.tool_call().arguments_json()});
      break;
    case v1::Part::kToolResult:
      AppendLine(words, {part.tool_result().name(), part.tool_result().text()});
      break;
    case v1::Part::kCitation:
      AppendLine(words, {part.citation().title(), part.citation().cited_text()});
      break;
    case v1::Part::kJson:
      AppendLine(words, {part.json()});
      break;
    case v1::Part::kImage:
    case v1::Part::kAudio:
    case v1::Part::kVideo:
    case v1::Part::kThinking:
    case v1::Part::kOpaque:
    case v1::Part::KIND_NOT_SET:
      break;
  }
}

void FillMedia(StoredPart::Kind kind, const v1::Media& media, StoredPart& part) {
  part.kind = kind;
  part.data = media.data();
  part.url = media.url();
  part.mime_type = media.mime_type();
  if (media.has_token_count()) part.token_count = media.token_count();
}

void WriteMedia(const StoredPart& part, v1::Media& media) {
  if (!part.data.empty()) media.set_data(part.data);
  if (!part.url.empty()) media.set_url(part.url);
  if (!part.mime_type.empty()) media.set_mime_type(part.mime_type);
  if (part.token_count.has_value()) media.set_token_count(*part.token_count);
}

void WritePart(const StoredPart& part, v1::Part& wire) {
  using Kind = StoredPart::Kind;
  if (!part.body.empty() && wire.ParseFromString(part.body)) return;
  switch (part.kind) {
    case Kind::kText:
      wire.set_text(part.text);
      break;
    case Kind::kImage:
      WriteMedia(part, *wire.mutable_image());
      break;
    case Kind::kAudio:
      WriteMedia(part, *wire.mutable_audio());
      break;
    case Kind::kVideo:
      WriteMedia(part, *wire.mutable_video());
      break;
    case Kind::kDocument:
      WriteMedia(part, *wire.mutable_document());
      break;
    case Kind::kToolCall:
      wire.mutable_tool_call()->set_name(part.tool_name);
      if (!part.call_id.empty()) wire.mutable_tool_call()->set_call_id(part.call_id);
      wire.mutable_tool_call()->set_arguments_json(part.arguments_json);
      break;
    case Kind::kToolResult:
      wire.mutable_tool_result()->set_name(part.tool_name);
      if (!part.call_id.empty()) wire.mutable_tool_result()->set_call_id(part.call_id);
      wire.mutable_tool_result()->set_text(part.text);
      break;
    case Kind::kThinking:
      wire.mutable_thinking()->set_text(part.text);
      break;
    case Kind::kCitation:
      wire.mutable_citation()->set_cited_text(part.text);
      break;
    case Kind::kJson:
      wire.set_json(part.text);
      break;
    case Kind::kOpaque:
      wire.mutable_opaque()->set_type(part.opaque_type);
      break;
  }
}

}  // namespace

bool ParseBody(std::string_view body, google::protobuf::MessageLite& wire) {
  return wire.ParseFromArray(body.data(), static_cast<int>(body.size()));
}

StoredPart ToStoredPart(const v1::Part& wire) {
  using Kind = StoredPart::Kind;
  StoredPart part;
  if (!wire.has_text()) part.body = wire.SerializeAsString();
  switch (wire.kind_case()) {
    case v1::Part::kText:
      part.text = wire.text();
      break;
    case v1::Part::kImage:
      FillMedia(Kind::kImage, wire.image(), part);
      break;
    case v1::Part::kAudio:
      FillMedia(Kind::kAudio, wire.audio(), part);
      break;
    case v1::Part::kVideo:
      FillMedia(Kind::kVideo, wire.video(), part);
      break;
    case v1::Part::kDocument:
      FillMedia(Kind::kDocument, wire.document(), part);
      break;
    case v1::Part::kToolCall:
      part.kind = Kind::kToolCall;
      part.tool_name = wire.tool_call().name();
      part.call_id = wire.tool_call().call_id();
      part.arguments_json = wire.tool_call().arguments_json();
      break;
    case v1::Part::kToolResult:
      part.kind = Kind::kToolResult;
      part.tool_name = wire.tool_result().name();
      part.call_id = wire.tool_result().call_id();
      part.text = wire.tool_result().text();
      break;
    case v1::Part::kThinking:
      part.kind = Kind::kThinking;
      part.text = wire.thinking().text();
      break;
    case v1::Part::kCitation:
      part.kind = Kind::kCitation;
      part.text = wire.citation().cited_text();
      break;
    case v1::Part::kJson:
      part.kind = Kind::kJson;
      part.text = wire.json();
      break;
    case v1::Part::kOpaque:
      part.kind = Kind::kOpaque;
      part.opaque_type = wire.opaque().type();
      break;
    case v1::Part::KIND_NOT_SET:
      part.kind = Kind::kOpaque;
      break;
  }
  return part;
}

std::string WordsOf(const v1::Message& message) {
  if (message.has_text()) return message.text();
  std::string words;
  for (const v1::Part& part : message.parts()) AppendPart(words, part);
  return words;
}

absl::StatusOr<MessageText> StoredBodyReader::ReadMessage(std::string_view body) const {
  absl::StatusOr<v1::Message> message = Parse<v1::Message>(body);
  if (!message.ok()) return message.status();
  MessageText text;
  text.role = message->role();
  text.name = message->name();
  text.thread_id = message->thread_id();
  if (message->has_create_time()) {
    text.create_us = ToMicros(message->create_time());
  }
  text.text = WordsOf(*message);
  text.source_session_id = std::move(*message->mutable_source_session_id());
  return text;
}

absl::StatusOr<MessageHead> StoredBodyReader::ReadHead(std::string_view body) const {
  absl::StatusOr<v1::Message> message = Parse<v1::Message>(body);
  if (!message.ok()) return message.status();
  MessageHead head;
  head.role = std::move(*message->mutable_role());
  head.name = std::move(*message->mutable_name());
  head.thread_id = std::move(*message->mutable_thread_id());
  head.metadata_json = std::move(*message->mutable_metadata_json());
  head.source_session_id = std::move(*message->mutable_source_session_id());
  head.source_message_id = std::move(*message->mutable_source_message_id());
  head.writer = std::move(*message->mutable_writer());
  head.untrusted = message->untrusted();
  if (message->has_create_time()) head.create_us = ToMicros(message->create_time());
  return head;
}

StoredMessage ToStoredMessage(const v1::Message& wire) {
  StoredMessage message;
  message.role = wire.role();
  message.name = wire.name();
  message.metadata_json = wire.metadata_json();
  message.untrusted = wire.untrusted();
  message.source_session_id = wire.source_session_id();
  if (wire.has_create_time()) message.create_us = ToMicros(wire.create_time());
  if (wire.has_text()) {
    message.parts.emplace_back().text = wire.text();
  }
  for (const v1::Part& part : wire.parts()) message.parts.push_back(ToStoredPart(part));
  return message;
}

void FillMessage(const StoredMessage& message, v1::Message& wire) {
  wire.set_role(message.role);
  wire.set_name(message.name);
  wire.set_metadata_json(message.metadata_json);
  wire.set_untrusted(message.untrusted);
  if (message.parts.size() == 1 && message.parts.front().kind == StoredPart::Kind::kText) {
    wire.set_text(message.parts.front().text);
    return;
  }
  for (const StoredPart& part : message.parts) WritePart(part, *wire.add_parts());
}

void FillPart(const BlockPart& part, v1::Part& wire) {
  using Kind = StoredPart::Kind;
  // A body that was stored can be read back; one that can't is no part.
  if (!part.body.empty() && wire.ParseFromString(part.body)) return;
  const auto set_media = [&part](v1::Media& media) {
    media.set_url(part.url);
    if (!part.mime_type.empty()) media.set_mime_type(part.mime_type);
    if (!part.format.empty()) media.set_format(part.format);
    if (!part.title.empty()) media.set_title(part.title);
  };
  switch (part.kind) {
    case Kind::kImage:
      set_media(*wire.mutable_image());
      break;
    case Kind::kAudio:
      set_media(*wire.mutable_audio());
      break;
    case Kind::kVideo:
      set_media(*wire.mutable_video());
      break;
    case Kind::kDocument:
      set_media(*wire.mutable_document());
      break;
    default:
      wire.set_text(part.text);
      break;
  }
}

absl::StatusOr<StoredMessage> StoredBodyReader::ReadParts(std::string_view body) const {
  absl::StatusOr<v1::Message> wire = Parse<v1::Message>(body);
  if (!wire.ok()) return wire.status();
  return ToStoredMessage(*wire);
}

absl::StatusOr<StoredPart> StoredBodyReader::ReadPart(std::string_view part) const {
  absl::StatusOr<v1::Part> wire = Parse<v1::Part>(part);
  if (!wire.ok()) return wire.status();
  return ToStoredPart(*wire);
}

absl::StatusOr<ContentValue> StoredBodyReader::ReadContent(std::string_view body) const {
  absl::StatusOr<v1::Content> content = Parse<v1::Content>(body);
  if (!content.ok()) return content.status();
  ContentValue value;
  value.mime_type = content->mime_type();
  value.metadata_json = content->metadata_json();
  value.writer = content->writer();
  value.untrusted = content->untrusted();
  switch (content->value_case()) {
    case v1::Content::kText:
      value.kind = ContentValue::Kind::kText;
      value.value = content->text();
      break;
    case v1::Content::kJson:
      value.kind = ContentValue::Kind::kJson;
      value.value = content->json();
      break;
    case v1::Content::kBytesValue:
      value.kind = ContentValue::Kind::kBytes;
      value.value = content->bytes_value();
      break;
    case v1::Content::kImage:
    case v1::Content::VALUE_NOT_SET:
      value.kind = ContentValue::Kind::kImage;
      break;
  }
  return value;
}

}  // namespace memoryd
