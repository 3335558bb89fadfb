#include "server/wire/page_token.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "core/base/error.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"

namespace memoryd {
namespace {

constexpr std::size_t kChecksumBytes = 12;
// The path of a namespace may have 16 names of 256 bytes.
constexpr std::size_t kMaxTokenBytes = 8192;

// A version in front, so that the form may change.
constexpr char kVersion = 1;

std::string Checksum(std::string_view scope, std::string_view body) {
  const std::string bytes = std::string(scope).append(1, '\0').append(body);
  const Sha256Digest digest = Sha256(bytes);
  return {digest.begin(), digest.begin() + kChecksumBytes};
}

std::string Seal(std::string_view scope, std::string_view body) {
  return absl::WebSafeBase64Escape(
      std::string(1, kVersion).append(Checksum(scope, body)).append(body));
}

absl::StatusOr<std::string> Unseal(std::string_view scope, std::string_view token) {
  std::string bytes;
  if (token.size() <= kMaxTokenBytes && absl::WebSafeBase64Unescape(std::string(token), &bytes) &&
      bytes.size() > kChecksumBytes && bytes[0] == kVersion) {
    std::string body = bytes.substr(1 + kChecksumBytes);
    if (bytes.compare(1, kChecksumBytes, Checksum(scope, body)) == 0) return body;
  }
  return InvalidField("page_token",
                      "is not a token of this request; pass next_page_token as it was returned, "
                      "with the same session_id, order and filters");
}

void AppendFixed64(std::string& out, std::uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) out.push_back(static_cast<char>(value >> shift));
}

std::uint64_t ReadFixed64(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 8; i-- > 0;) value = (value << 8) | static_cast<unsigned char>(bytes[i]);
  return value;
}

}  // namespace

std::string EncodePageToken(std::string_view scope, const PagePosition& position) {
  std::string body;
  AppendFixed64(body, position.generation);
  AppendFixed64(body, static_cast<std::uint64_t>(position.position));
  body.push_back(position.in_contents ? 1 : 0);
  // Left out where it says nothing, as servers wrote and read tokens before there was such a bound.
  if (position.until_content > 0) {
    AppendFixed64(body, static_cast<std::uint64_t>(position.until_content));
  }
  return Seal(scope, body);
}

absl::StatusOr<PagePosition> DecodePageToken(std::string_view scope, std::string_view token) {
  MEMORYD_ASSIGN_OR_RETURN(const std::string body, Unseal(scope, token));
  if (body.size() != 17 && body.size() != 25) {
    return InvalidField("page_token", "is not a token of this request");
  }
  const auto number = [&body](std::size_t at) {
    return static_cast<std::int64_t>(ReadFixed64(std::string_view(body).substr(at)));
  };
  return PagePosition{ReadFixed64(body), number(8), body[16] != 0,
                      body.size() == 25 ? number(17) : 0};
}

std::string EncodeListToken(std::string_view scope, std::string_view after) {
  return Seal(scope, after);
}

absl::StatusOr<std::string> DecodeListToken(std::string_view scope, std::string_view token) {
  return Unseal(scope, token);
}

}  // namespace memoryd
