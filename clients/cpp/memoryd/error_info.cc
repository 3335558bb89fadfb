#include "memoryd/error_info.h"

#include <absl/status/status.h>
#include <absl/strings/cord.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

namespace memoryd::client {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

constexpr char kErrorInfoUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";

// Field numbers of google.rpc.Status, google.protobuf.Any, google.rpc.ErrorInfo and of a map's
// entries. They are read by hand: a second generated copy of google.rpc ends a process that links
// googleapis or grpc++_error_details as well.
constexpr int kStatusDetails = 3;
constexpr int kAnyTypeUrl = 1;
constexpr int kAnyValue = 2;
constexpr int kErrorReason = 1;
constexpr int kErrorMetadata = 3;
constexpr int kKey = 1;
constexpr int kValue = 2;

// Gives each field of strings, bytes or messages to `take`; skips all others. Stops where the bytes
// are no message.
void ReadFields(const std::string& bytes, const std::function<void(int, std::string)>& take) {
  CodedInputStream in(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  while (const std::uint32_t tag = in.ReadTag()) {
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&in, tag)) return;
      continue;
    }
    std::uint32_t size = 0;
    std::string value;
    if (!in.ReadVarint32(&size) || !in.ReadString(&value, static_cast<int>(size))) return;
    take(WireFormatLite::GetTagFieldNumber(tag), std::move(value));
  }
}

void WriteField(int number, const std::string& value, std::string& bytes) {
  google::protobuf::io::StringOutputStream stream(&bytes);
  CodedOutputStream out(&stream);
  WireFormatLite::WriteBytes(number, value, &out);
}

std::pair<std::string, std::string> ReadTwo(const std::string& bytes, int first, int second) {
  std::pair<std::string, std::string> two;
  ReadFields(bytes, [&](int number, std::string value) {
    if (number == first) {
      two.first = std::move(value);
    } else if (number == second) {
      two.second = std::move(value);
    }
  });
  return two;
}

}  // namespace

ErrorInfo GetErrorInfo(const absl::Status& status) {
  ErrorInfo info;
  const auto payload = status.GetPayload(kErrorInfoUrl);
  if (!payload.has_value()) return info;
  ReadFields(std::string(*payload), [&info](int number, std::string value) {
    if (number == kErrorReason) {
      info.reason = std::move(value);
    } else if (number == kErrorMetadata) {
      auto [key, said] = ReadTwo(value, kKey, kValue);
      info.details[std::move(key)] = std::move(said);
    }
  });
  if (const auto field = info.details.find("field"); field != info.details.end()) {
    info.field = field->second;
  }
  return info;
}

bool MayHaveBeenDone(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kDeadlineExceeded:
      // With a reason it is the server's, which has not begun.
      return GetErrorInfo(status).reason.empty();
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kUnknown: {
      const std::string reason = GetErrorInfo(status).reason;
      return reason != "STORE_UNAVAILABLE" && reason != "DRAINING";
    }
    default:
      return false;
  }
}

absl::Status WithErrorInfo(absl::Status status, const ErrorInfo& info) {
  std::map<std::string, std::string> details = info.details;
  if (!info.field.empty()) details["field"] = info.field;
  std::string bytes;
  WriteField(kErrorReason, info.reason, bytes);
  for (const auto& [key, value] : details) {
    std::string entry;
    WriteField(kKey, key, entry);
    WriteField(kValue, value, entry);
    WriteField(kErrorMetadata, entry, bytes);
  }
  status.SetPayload(kErrorInfoUrl, absl::Cord(bytes));
  return status;
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  absl::Status made(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  if (made.ok()) return made;
  ReadFields(status.error_details(), [&made](int number, const std::string& value) {
    if (number != kStatusDetails) return;
    auto [type_url, info] = ReadTwo(value, kAnyTypeUrl, kAnyValue);
    if (type_url == kErrorInfoUrl) made.SetPayload(kErrorInfoUrl, absl::Cord(std::move(info)));
  });
  return made;
}

}  // namespace memoryd::client
