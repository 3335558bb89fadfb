#include "server/http2/grpc_headers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "server/wire/rpc_status.h"

namespace memoryd {

std::optional<std::chrono::nanoseconds> ParseGrpcTimeout(std::string_view text) {
  constexpr std::size_t kMaxDigits = 8;
  if (text.size() < 2 || text.size() > kMaxDigits + 1) return std::nullopt;
  std::int64_t count = 0;
  const char* const end = text.data() + text.size() - 1;
  const auto [last, error] = std::from_chars(text.data(), end, count);
  if (error != std::errc() || last != end || count < 0) return std::nullopt;
  switch (*end) {
    case 'H':
      // More is more than a clock of nanoseconds can tell.
      return std::chrono::hours(std::min<std::int64_t>(count, 24 * 365));
    case 'M':
      return std::chrono::minutes(std::min<std::int64_t>(count, 60 * 24 * 365));
    case 'S':
      return std::chrono::seconds(count);
    case 'm':
      return std::chrono::milliseconds(count);
    case 'u':
      return std::chrono::microseconds(count);
    case 'n':
      return std::chrono::nanoseconds(count);
    default:
      return std::nullopt;
  }
}

std::string PercentEncoded(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    if (c >= ' ' && c <= '~' && c != '%') {
      encoded.push_back(c);
    } else {
      fmt::format_to(std::back_inserter(encoded), "%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

std::vector<std::pair<std::string, std::string>> ErrorTrailers(const RpcStatus& status,
                                                               std::string request_id) {
  std::vector<std::pair<std::string, std::string>> trailers;
  trailers.emplace_back("grpc-status", std::to_string(status.code));
  trailers.emplace_back("grpc-message", PercentEncoded(status.message));
  if (!status.details.empty()) {
    std::string encoded;
    absl::Base64Escape(status.details, &encoded);
    trailers.emplace_back("grpc-status-details-bin", std::move(encoded));
  }
  if (!request_id.empty()) trailers.emplace_back("x-request-id", std::move(request_id));
  return trailers;
}

}  // namespace memoryd
