#include "server/rpc/parse_request.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/common.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_join.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "core/base/status_macros.h"
#include "server/wire/rpc_call.h"

namespace memoryd {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::MessageFactory;

// What protobuf 3.21 takes, measured, for its worst case each. An array that grows has its unused
// half in the arena, and the arrays that it grew from.
constexpr std::int64_t kGrowth = 4;
constexpr std::int64_t kPointer = kGrowth * 8;  // Of a repeated field to one of its entries.
constexpr std::int64_t kNumber = kGrowth * 8;  // Of a repeated field; packed it has a byte or more.
constexpr std::int64_t kString = 80;  // Beside its bytes: the object, its heap block, its cleanup.
constexpr std::int64_t kMapEntry = 96;  // Beside the key and the value.
constexpr std::int64_t kUnknown = 112;
constexpr std::int64_t kArenaStart = 256;
constexpr std::int64_t kArenaRest = 32 << 10;

// As protobuf's own.
constexpr std::size_t kMaxDepth = 100;

// https://protobuf.dev/programming-guides/encoding/#structure
constexpr int kTypeBits = 3;
enum WireType : std::uint8_t { kVarint, kFixed64, kDelimited, kStartGroup, kEndGroup, kFixed32 };

// Whether the parser takes the field from the wire in this form, and not for an unknown one.
bool Takes(const FieldDescriptor& field, WireType type) {
  if (type == kDelimited && field.is_packable()) return true;
  switch (field.type()) {
    case FieldDescriptor::TYPE_DOUBLE:
    case FieldDescriptor::TYPE_FIXED64:
    case FieldDescriptor::TYPE_SFIXED64:
      return type == kFixed64;
    case FieldDescriptor::TYPE_FLOAT:
    case FieldDescriptor::TYPE_FIXED32:
    case FieldDescriptor::TYPE_SFIXED32:
      return type == kFixed32;
    case FieldDescriptor::TYPE_STRING:
    case FieldDescriptor::TYPE_BYTES:
    case FieldDescriptor::TYPE_MESSAGE:
      return type == kDelimited;
    default:
      return type == kVarint;
  }
}

// What a message of this type takes while it is empty.
std::int64_t BytesOf(const Descriptor& type) {
  thread_local absl::flat_hash_map<const Descriptor*, std::int64_t> known;
  const auto [entry, is_new] = known.try_emplace(&type);
  if (is_new) {
    const auto* prototype = MessageFactory::generated_factory()->GetPrototype(&type);
    entry->second = static_cast<std::int64_t>(prototype->SpaceUsedLong());
  }
  return entry->second;
}

// Follows the wire as the parser will, but makes nothing.
class Measure {
 public:
  explicit Measure(std::string_view bytes)
      : input_(reinterpret_cast<const std::uint8_t*>(bytes.data()),
               static_cast<int>(bytes.size())) {}

  // Stops at the first fault, and when `overhead()` is above kMaxParsedOverhead.
  void Run(const Descriptor& type) {
    overhead_ = kArenaStart + BytesOf(type);
    Message(type);
  }

  // With the unused rest of the arena's blocks: each is twice as large as the one before, up to
  // 8 KiB, and an array that fits no more begins a new one.
  std::int64_t bytes() const { return overhead_ + std::min(overhead_, kArenaRest) + text_; }
  std::int64_t overhead() const { return overhead_; }
  // The field it has stopped in, such as `messages.parts`; empty for one of the request that the
  // server does not know.
  std::string field() const {
    return absl::StrJoin(path_, ".", [](std::string* out, const FieldDescriptor* field) {
      out->append(field->name());
    });
  }

 private:
  bool Message(const Descriptor& type) {
    // No message of ours has groups: what they hold is unknown too.
    int open_groups = 0;
    while (const std::uint32_t tag = input_.ReadTag()) {
      const auto wire = static_cast<WireType>(tag & ((1U << kTypeBits) - 1));
      const FieldDescriptor* field = type.FindFieldByNumber(static_cast<int>(tag >> kTypeBits));
      if (open_groups > 0 || (field != nullptr && !Takes(*field, wire))) field = nullptr;
      if (!Field(wire, field, open_groups) || overhead_ > kMaxParsedOverhead) return false;
    }
    return input_.BytesUntilLimit() == 0;
  }

  bool Field(WireType type, const FieldDescriptor* field, int& open_groups) {
    switch (type) {
      case kVarint: {
        Number(field);
        std::uint64_t ignored = 0;
        return input_.ReadVarint64(&ignored);
      }
      case kFixed64:
        Number(field);
        return input_.Skip(sizeof(std::uint64_t));
      case kFixed32:
        Number(field);
        return input_.Skip(sizeof(std::uint32_t));
      case kDelimited:
        return Delimited(field);
      case kStartGroup:
        ++open_groups;
        overhead_ += kUnknown;
        return true;
      case kEndGroup:
        return --open_groups >= 0;
    }
    return false;
  }

  void Number(const FieldDescriptor* field) {
    if (field == nullptr) {
      overhead_ += kUnknown;
    } else if (field->is_repeated()) {
      overhead_ += kNumber;
    }
  }

  bool Delimited(const FieldDescriptor* field) {
    int size = 0;
    if (!input_.ReadVarintSizeAsInt(&size)) return false;
    if (field == nullptr) {
      overhead_ += kUnknown + kString;
      text_ += size;
      return input_.Skip(size);
    }
    path_.push_back(field);
    if (field->is_repeated()) overhead_ += field->is_map() ? kMapEntry : kPointer;
    const Descriptor* message = field->message_type();
    if (message == nullptr) Payload(*field, size);
    // Else the path stays as it is.
    const bool goes_on = (message != nullptr ? Submessage(*message, size) : input_.Skip(size)) &&
                         overhead_ <= kMaxParsedOverhead;
    if (goes_on) path_.pop_back();
    return goes_on;
  }

  // Texts, and numbers that are packed.
  void Payload(const FieldDescriptor& field, int size) {
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING:
        overhead_ += kString;
        text_ += size;
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
      case FieldDescriptor::CPPTYPE_DOUBLE:
        // As many bytes as on the wire, but for how an array grows.
        text_ += kGrowth * size;
        break;
      default:
        overhead_ += kNumber * size;
    }
  }

  bool Submessage(const Descriptor& type, int size) {
    overhead_ += BytesOf(type);
    if (overhead_ > kMaxParsedOverhead || path_.size() > kMaxDepth) return false;
    const auto outer = input_.PushLimit(size);
    const bool goes_on = Message(type);
    input_.PopLimit(outer);
    return goes_on;
  }

  google::protobuf::io::CodedInputStream input_;
  std::int64_t overhead_ = 0;
  std::int64_t text_ = 0;
  std::vector<const FieldDescriptor*> path_;
};

// The last complaint of protobuf's parser on this thread.
thread_local std::string parse_complaint;

// "String field 'memoryd.v1.PutRequest.session_id' contains invalid UTF-8 data …" -> "session_id".
std::string FieldOfComplaint() {
  const std::size_t begin = parse_complaint.find('\'');
  const std::size_t end = parse_complaint.find('\'', begin + 1);
  if (begin == std::string::npos || end == std::string::npos) return {};
  const std::string name = parse_complaint.substr(begin + 1, end - begin - 1);
  return name.substr(name.rfind('.') + 1);
}

}  // namespace

absl::StatusOr<std::int64_t> ParsedBytes(std::string_view bytes, const Descriptor& type) {
  Measure measure(bytes);
  measure.Run(type);
  if (measure.overhead() <= kMaxParsedOverhead) return measure.bytes();
  const std::string field = measure.field();
  if (field.empty()) {
    return Error(absl::StatusCode::kInvalidArgument, "MALFORMED_REQUEST",
                 "the request has far too many fields that the server does not know");
  }
  return InvalidField(field, "has far too many entries for one request; send fewer");
}

absl::Status Parse(std::string_view bytes, google::protobuf::Message& message) {
  parse_complaint.clear();
  if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return absl::OkStatus();
  if (const std::string field = FieldOfComplaint(); !field.empty()) {
    return InvalidField(field, "is not valid UTF-8");
  }
  return Error(absl::StatusCode::kInvalidArgument, "MALFORMED_REQUEST",
               "the request is not a valid protobuf message of this method");
}

absl::StatusOr<MemoryBudget::Hold> ParseRequest(RpcCall& rpc, std::string_view bytes,
                                                google::protobuf::Message& request) {
  MEMORYD_ASSIGN_OR_RETURN(const std::int64_t needed, ParsedBytes(bytes, *request.GetDescriptor()));
  MEMORYD_ASSIGN_OR_RETURN(MemoryBudget::Hold hold, rpc.Take(MemoryUse::kRequests, needed));
  MEMORYD_RETURN_IF_ERROR(Parse(bytes, request));
  return hold;
}

void CaptureProtobufLog() {
#if GOOGLE_PROTOBUF_VERSION < 4022000
  google::protobuf::SetLogHandler([](google::protobuf::LogLevel, const char*, int,
                                     const std::string& message) { parse_complaint = message; });
#endif
}

}  // namespace memoryd
