#include "server/wire_writer.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>

#include <bit>

#include "server/timestamp.h"

namespace memoryd {
namespace {

using google::protobuf::io::CodedOutputStream;

// Wire types of protobuf's encoding.
constexpr std::uint32_t kVarint = 0;
constexpr std::uint32_t kFixed64 = 1;
constexpr std::uint32_t kLengthDelimited = 2;

constexpr std::uint32_t Tag(int field, std::uint32_t wire_type) {
  return (static_cast<std::uint32_t>(field) << 3) | wire_type;
}

void AppendVarint(std::string& out, std::uint64_t value) {
  std::uint8_t buffer[10];
  const std::uint8_t* const end = CodedOutputStream::WriteVarint64ToArray(value, buffer);
  out.append(reinterpret_cast<const char*>(buffer), static_cast<std::size_t>(end - buffer));
}

}  // namespace

void AppendInt(std::string& out, int field, std::int64_t value) {
  AppendVarint(out, Tag(field, kVarint));
  AppendVarint(out, static_cast<std::uint64_t>(value));
}

void AppendDouble(std::string& out, int field, double value) {
  AppendVarint(out, Tag(field, kFixed64));
  std::uint8_t buffer[8];
  CodedOutputStream::WriteLittleEndian64ToArray(std::bit_cast<std::uint64_t>(value), buffer);
  out.append(reinterpret_cast<const char*>(buffer), sizeof(buffer));
}

void AppendBytes(std::string& out, int field, std::string_view value) {
  AppendVarint(out, Tag(field, kLengthDelimited));
  AppendVarint(out, value.size());
  out.append(value);
}

void MessageWriter::Append(int field, const Message& message, std::uint64_t generation,
                           v1::MessageStatus status) {
  added_.clear();
  AppendBytes(added_, v1::Message::kMessageIdFieldNumber, MessageId(message, generation));
  AppendInt(added_, v1::Message::kTokenCountFieldNumber, message.token_count);
  AppendInt(added_, v1::Message::kPositionFieldNumber, message.position);
  AppendInt(added_, v1::Message::kStatusFieldNumber, status);
  AppendTime(v1::Message::kIngestTimeFieldNumber, message.ingest_us);
  Finish(field, message.body);
}

void MessageWriter::AppendContent(int field, const Content& content, std::uint64_t generation) {
  added_.clear();
  AppendBytes(added_, v1::Content::kContentIdFieldNumber, MessageId(content, generation));
  AppendInt(added_, v1::Content::kPositionFieldNumber, content.position);
  AppendTime(v1::Content::kIngestTimeFieldNumber, content.ingest_us);
  Finish(field, content.body);
}

void MessageWriter::AppendTime(int field, std::int64_t micros) {
  time_.clear();
  AppendInt(time_, google::protobuf::Timestamp::kSecondsFieldNumber, micros / kMicrosPerSecond);
  AppendInt(time_, google::protobuf::Timestamp::kNanosFieldNumber,
            micros % kMicrosPerSecond * 1000);
  AppendBytes(added_, field, time_);
}

void MessageWriter::Finish(int field, std::string_view body) {
  AppendVarint(out_, Tag(field, kLengthDelimited));
  AppendVarint(out_, body.size() + added_.size());
  out_.append(body).append(added_);
}

std::size_t WireSize(const std::vector<MessagePtr>& messages) {
  std::size_t bytes = 64;
  for (const MessagePtr& message : messages) {
    bytes += message->body.size() + message->message_id.size() + kAddedBytes;
  }
  return bytes;
}

}  // namespace memoryd
