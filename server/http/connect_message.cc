#include "server/http/connect_message.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "core/base/status_macros.h"
#include "server/http/connect_codec.h"
#include "server/http/gzip.h"
#include "server/http2/call_messages.h"

namespace memoryd {
namespace {

// Below that, gzip saves less than a packet.
constexpr std::size_t kWorthCompressing = 1 << 10;

absl::Status Malformed(std::string_view why) {
  return Error(absl::StatusCode::kInvalidArgument, "MALFORMED_REQUEST", why);
}

// Takes the envelope off the body. Returns its flags.
absl::StatusOr<unsigned char> TakeEnvelope(std::string& body) {
  const auto not_one = [](std::string_view found) {
    return Error(absl::StatusCode::kUnimplemented, "MALFORMED_REQUEST",
                 fmt::format("the method takes one request, and {}", found));
  };
  if (body.empty()) return not_one("none came");
  if (body.size() < kPrefixBytes) return Malformed("the request has a part of an envelope");
  const std::size_t size = MessageSize(body);
  const auto flags = static_cast<unsigned char>(body[0]);
  if ((flags & ~kGzippedFlag) != 0) return Malformed("the envelope has unknown flags");
  if (size > body.size() - kPrefixBytes) return Malformed("the request has a part of an envelope");
  if (size < body.size() - kPrefixBytes) return not_one("more came");
  body.erase(0, kPrefixBytes);
  return flags;
}

}  // namespace

std::optional<ConnectFormat> FormatOf(std::string_view content_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (type.ends_with(' ')) type.remove_suffix(1);
  // JSON is UTF-8, whatever else is said.
  constexpr ConnectFormat kEnvelopes = {.request = Framing::kEnvelopes,
                                        .reply = Framing::kEnvelopes};
  constexpr ConnectFormat kEnvelopesOfJson = {
      .is_json = true, .request = Framing::kEnvelopes, .reply = Framing::kEnvelopes};
  constexpr auto kFormats = std::to_array<std::pair<std::string_view, ConnectFormat>>(
      {{"application/json", {.is_json = true}},
       {"application/proto", {}},
       {"application/connect+json", kEnvelopesOfJson},
       {"application/connect+proto", kEnvelopes},
       {kLinesType, {.is_json = true, .request = Framing::kLines}}});
  for (const auto& [name, format] : kFormats) {
    if (absl::EqualsIgnoreCase({type.data(), type.size()}, {name.data(), name.size()})) {
      return format;
    }
  }
  return std::nullopt;
}

absl::StatusOr<std::string> DecodeRequest(std::string body, const ConnectFormat& format,
                                          const google::protobuf::Descriptor& type,
                                          std::size_t most, MemoryBudget::Hold& hold) {
  bool is_gzipped = format.is_gzipped;
  if (format.request == Framing::kEnvelopes) {
    MEMORYD_ASSIGN_OR_RETURN(const unsigned char flags, TakeEnvelope(body));
    const bool says_so = (flags & kGzippedFlag) != 0;
    if (says_so && !is_gzipped) {
      return Error(absl::StatusCode::kInternal, "COMPRESSED",
                   "the envelope is compressed, and Connect-Content-Encoding doesn't say how");
    }
    is_gzipped = says_so;
  }
  // An empty message needs no bytes to be compressed.
  if (is_gzipped && !body.empty()) {
    // A string that grows has up to twice its bytes.
    auto bytes = Gunzip(body, most, [&hold](std::size_t more) {
      return hold.Grow(2 * static_cast<std::int64_t>(more));
    });
    if (absl::IsOutOfRange(bytes.status())) return RequestTooLarge(most);
    MEMORYD_RETURN_IF_ERROR(bytes.status());
    body = *std::move(bytes);
  }
  if (!format.is_json) return body;
  MEMORYD_RETURN_IF_ERROR(hold.Grow(MostMemoryOf(body)));
  return JsonToBytes(body, type);
}

absl::StatusOr<EncodedReply> EncodeReply(std::string message, const ConnectFormat& format,
                                         const google::protobuf::Descriptor& type) {
  EncodedReply reply{.bytes = std::move(message)};
  if (format.is_json) {
    MEMORYD_ASSIGN_OR_RETURN(reply.bytes, BytesToJson(reply.bytes, type));
  }
  if (format.takes_gzip && reply.bytes.size() >= kWorthCompressing) {
    reply.bytes = Gzip(reply.bytes);
    reply.is_gzipped = true;
  }
  return reply;
}

std::string Enveloped(unsigned char flags, std::string_view message) {
  const auto prefix = PrefixOf(message.size(), flags);
  return std::string(prefix.data(), prefix.size()).append(message);
}

absl::Status RequestTooLarge(std::size_t most) {
  return Error(
      absl::StatusCode::kResourceExhausted, "REQUEST_TOO_LARGE",
      fmt::format("the request may have {} bytes by the server's setting max_request_mib; nothing "
                  "was stored. Raise it, send less at once, or media by their url alone",
                  most),
      {{"setting", "max_request_mib"}, {"max_bytes", fmt::format("{}", most)}});
}

}  // namespace memoryd
