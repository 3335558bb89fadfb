#include "server/wire/wire_writer.h"

#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/message.h"
#include "server/wire/timestamp.h"

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

// What a message gets besides its id, on the stack rather than number by number into a string: see
// docs/adr/0024.
class NumberFields {
 public:
  NumberFields() = default;
  NumberFields(const NumberFields&) = delete;
  NumberFields& operator=(const NumberFields&) = delete;

  void Add(int field, std::int64_t value) {
    end_ = CodedOutputStream::WriteVarint32ToArray(Tag(field, kVarint), end_);
    end_ = CodedOutputStream::WriteVarint64ToArray(static_cast<std::uint64_t>(value), end_);
  }
  void AddTime(int field, std::int64_t micros) {
    NumberFields time;
    time.Add(google::protobuf::Timestamp::kSecondsFieldNumber, micros / kMicrosPerSecond);
    time.Add(google::protobuf::Timestamp::kNanosFieldNumber, micros % kMicrosPerSecond * 1000);
    const std::string_view bytes = time.bytes();
    end_ = CodedOutputStream::WriteVarint32ToArray(Tag(field, kLengthDelimited), end_);
    end_ = CodedOutputStream::WriteVarint32ToArray(static_cast<std::uint32_t>(bytes.size()), end_);
    end_ = std::copy(bytes.begin(), bytes.end(), end_);
  }
  std::string_view bytes() const {
    return {reinterpret_cast<const char*>(buffer_.data()),
            static_cast<std::size_t>(end_ - buffer_.data())};
  }

 private:
  // Three numbers and a time, each number of at most 10 bytes and its tag.
  std::array<std::uint8_t, 64> buffer_;
  std::uint8_t* end_ = buffer_.data();
};

// The field `field` of `out`: a stored body, and behind it what the server adds.
void AppendStored(std::string& out, int field, std::string_view body, int id_field,
                  std::string_view id, const NumberFields& added) {
  std::uint8_t header[20];
  std::uint8_t* end =
      CodedOutputStream::WriteVarint32ToArray(Tag(id_field, kLengthDelimited), header);
  end = CodedOutputStream::WriteVarint64ToArray(id.size(), end);
  const std::string_view id_header(reinterpret_cast<const char*>(header),
                                   static_cast<std::size_t>(end - header));
  AppendVarint(out, Tag(field, kLengthDelimited));
  AppendVarint(out, body.size() + id_header.size() + id.size() + added.bytes().size());
  out.append(body).append(id_header).append(id).append(added.bytes());
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
  NumberFields added;
  added.Add(v1::Message::kTokenCountFieldNumber, message.token_count);
  added.Add(v1::Message::kPositionFieldNumber, message.position);
  added.Add(v1::Message::kStatusFieldNumber, status);
  added.AddTime(v1::Message::kIngestTimeFieldNumber, message.ingest_us);
  AppendStored(out_, field, message.body, v1::Message::kMessageIdFieldNumber,
               MessageId(message, generation), added);
}

void MessageWriter::AppendContent(int field, const Content& content, std::uint64_t generation) {
  NumberFields added;
  added.Add(v1::Content::kPositionFieldNumber, content.position);
  added.AddTime(v1::Content::kIngestTimeFieldNumber, content.ingest_us);
  AppendStored(out_, field, content.body, v1::Content::kContentIdFieldNumber,
               MessageId(content, generation), added);
}

std::size_t WireSize(const std::vector<MessagePtr>& messages) {
  std::size_t bytes = 64;
  for (const MessagePtr& message : messages) {
    bytes += message->body.size() + message->ids->message_id.size() + kAddedBytes;
  }
  return bytes;
}

}  // namespace memoryd
