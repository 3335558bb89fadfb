#include "server/http/connect_codec.h"

#include <fmt/format.h>
#include <google/protobuf/any.pb.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/type_resolver.h>
#include <google/protobuf/util/type_resolver_util.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "core/base/error.h"
#include "core/base/utf8_decode.h"
#include "google/rpc/error_details.pb.h"
#include "server/wire/rpc_call.h"
#include "server/wire/rpc_status.h"

namespace memoryd {
namespace {

using Json = nlohmann::ordered_json;
namespace protobuf = google::protobuf;

constexpr std::string_view kTypes = "type.googleapis.com";

struct CodeName {
  std::string_view name;
  int http_status;
};

// By gRPC's numbers.
constexpr std::array<CodeName, 17> kCodes = {{{"ok", 200},
                                              {"canceled", 499},
                                              {"unknown", 500},
                                              {"invalid_argument", 400},
                                              {"deadline_exceeded", 504},
                                              {"not_found", 404},
                                              {"already_exists", 409},
                                              {"permission_denied", 403},
                                              {"resource_exhausted", 429},
                                              {"failed_precondition", 400},
                                              {"aborted", 409},
                                              {"out_of_range", 400},
                                              {"unimplemented", 501},
                                              {"internal", 500},
                                              {"unavailable", 503},
                                              {"data_loss", 500},
                                              {"unauthenticated", 401}}};

const CodeName& NameOf(int code) {
  constexpr std::size_t kUnknown = 2;
  const auto at = static_cast<std::size_t>(code);
  return kCodes[code >= 0 && at < kCodes.size() ? at : kUnknown];
}

protobuf::util::TypeResolver* Types() {
  static protobuf::util::TypeResolver* const types =
      protobuf::util::NewTypeResolverForDescriptorPool(std::string(kTypes),
                                                       protobuf::DescriptorPool::generated_pool());
  return types;
}

std::string UrlOf(const protobuf::Descriptor& type) {
  return std::string(kTypes).append("/").append(type.full_name());
}

protobuf::StringPiece Piece(std::string_view text) { return {text.data(), text.size()}; }

absl::Status MalformedJson(std::string_view why) {
  return Error(absl::StatusCode::kInvalidArgument, "MALFORMED_JSON", why);
}

// What protobuf says of wrong JSON: a line, or that, some bytes around the place, and a mark below.
std::string InOneLine(std::string_view why) {
  const std::size_t end = why.find('\n');
  std::string line(why.substr(0, end));
  if (end == std::string_view::npos) return line;
  std::string_view place = why.substr(end + 1);
  place = place.substr(0, place.rfind('\n'));
  // They may begin and end within a character.
  constexpr unsigned kContinues = 0xC0;
  while (!place.empty() && (static_cast<unsigned char>(place[0]) & kContinues) == 0x80) {
    place.remove_prefix(1);
  }
  return line + " Near: " + std::string(place.substr(0, Utf8Bytes(place)));
}

// Read by people; none where the detail can't be read.
Json DebugOf(const protobuf::Any& detail) {
  std::string json;
  if (!protobuf::util::BinaryToJsonString(Types(), detail.type_url(), detail.value(), &json).ok()) {
    return {};
  }
  return Json::parse(json, nullptr, /*allow_exceptions=*/false);
}

Json JsonOf(const RpcStatus& status) {
  Json json = {{"code", NameOf(status.code).name}, {"message", status.message}};
  google::rpc::Status read;
  if (!status.details.empty() && read.ParseFromString(status.details)) {
    for (const protobuf::Any& detail : read.details()) {
      std::string value;
      absl::Base64Escape(detail.value(), &value);
      while (!value.empty() && value.back() == '=') value.pop_back();
      Json entry = {{"type", detail.type_url().substr(detail.type_url().rfind('/') + 1)},
                    {"value", value}};
      if (Json debug = DebugOf(detail); debug.is_object()) entry["debug"] = std::move(debug);
      json["details"].push_back(std::move(entry));
    }
  }
  return json;
}

std::string Text(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace

std::int64_t MostMemoryOf(std::string_view json) {
  // A value behind a separator has at most a tag and a length, of itself and of two messages around
  // it as in a Struct, and 8 bytes in place of one digit. Protobuf writes all of it twice.
  constexpr std::int64_t kValue = 24;
  const auto separators = std::count_if(json.begin(), json.end(), [](char c) {
    return c == ',' || c == ':' || c == '[' || c == '{';
  });
  return 2 * (static_cast<std::int64_t>(json.size()) + kValue * separators);
}

absl::StatusOr<std::string> JsonToBytes(std::string_view json, const protobuf::Descriptor& type) {
  const std::size_t first = json.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || json[first] != '{') {
    return MalformedJson(fmt::format("the request must be a JSON object, a {}", type.name()));
  }
  // Else what the parser says of it is none either.
  if (!IsUtf8(json)) return MalformedJson("the request is not UTF-8");
  std::string bytes;
  const auto status = protobuf::util::JsonToBinaryString(Types(), UrlOf(type), Piece(json), &bytes);
  if (!status.ok()) {
    return MalformedJson(
        fmt::format("the request is no {} in JSON: {}", type.name(),
                    InOneLine({status.message().data(), status.message().size()})));
  }
  return bytes;
}

absl::StatusOr<std::string> BytesToJson(std::string_view bytes, const protobuf::Descriptor& type) {
  std::string json;
  const auto status =
      protobuf::util::BinaryToJsonString(Types(), UrlOf(type), std::string(bytes), &json);
  if (!status.ok()) return absl::InternalError("a reply can't be written as JSON");
  return json;
}

std::string ErrorJson(const RpcStatus& status) { return Text(JsonOf(status)); }

std::string EndJson(const RpcStatus& status,
                    const std::vector<std::pair<std::string, std::string>>& trailers) {
  Json json = Json::object();
  if (status.code != 0) json["error"] = JsonOf(status);
  for (const auto& [name, value] : trailers) json["metadata"][name].push_back(value);
  return Text(json);
}

int HttpStatusOf(int code) { return NameOf(code).http_status; }

absl::StatusOr<RpcCall::TimePoint> ParseConnectTimeout(std::string_view text) {
  if (text.empty()) return RpcCall::TimePoint::max();
  constexpr std::size_t kMaxDigits = 10;
  std::int64_t count = -1;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, count);
  if (text.size() > kMaxDigits || error != std::errc() || last != end || count < 0) {
    return Error(absl::StatusCode::kInvalidArgument, "INVALID_TIMEOUT",
                 "Connect-Timeout-Ms: must be at most ten digits");
  }
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(count);
}

}  // namespace memoryd
