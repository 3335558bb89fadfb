#include "server/http/get_query.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace memoryd {
namespace {

constexpr auto kNames =
    std::to_array<std::string_view>({"message", "encoding", "base64", "compression", "connect"});
using Values = std::array<std::optional<std::string>, kNames.size()>;
enum Name : std::size_t { kMessage, kEncoding, kBase64, kCompression, kConnect };

absl::Status Invalid(std::string_view name, std::string_view why) {
  return Error(absl::StatusCode::kInvalidArgument, "INVALID_QUERY",
               fmt::format("the query's {}: {}", name, why));
}

// nullopt for a % without its two digits.
std::optional<std::string> Unescaped(std::string_view text) {
  constexpr std::size_t kDigits = 2;
  constexpr int kHex = 16;
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    const std::string_view digits = text.substr(i + 1, kDigits);
    unsigned char byte = 0;
    const auto [last, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), byte, kHex);
    if (error != std::errc() || last != digits.data() + kDigits) return std::nullopt;
    plain += static_cast<char>(byte);
    i += kDigits;
  }
  return plain;
}

absl::StatusOr<Values> Split(std::string_view query) {
  Values values;
  for (const absl::string_view part :
       absl::StrSplit(absl::string_view(query.data(), query.size()), '&', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    std::size_t at = 0;
    while (at < kNames.size() &&
           absl::string_view(kNames[at].data(), kNames[at].size()) != pair.first) {
      ++at;
    }
    // As the protocol has it, others are nobody's.
    if (at == kNames.size()) continue;
    if (values[at].has_value()) return Invalid(kNames[at], "must be given once");
    values[at] = Unescaped({pair.second.data(), pair.second.size()});
    if (!values[at].has_value()) return Invalid(kNames[at], "has a % without two digits");
  }
  return values;
}

}  // namespace

absl::StatusOr<GetQuery> ParseGetQuery(std::string_view query) {
  MEMORYD_ASSIGN_OR_RETURN(Values values, Split(query));
  if (values[kConnect].value_or("v1") != "v1") return Invalid("connect", "must be v1");
  GetQuery parsed;
  const std::string encoding = values[kEncoding].value_or("");
  parsed.format.is_json = encoding == "json";
  if (encoding != "json" && encoding != "proto") {
    return Invalid("encoding", "must be json or proto");
  }
  const std::string compression = values[kCompression].value_or("identity");
  parsed.format.is_gzipped = compression == "gzip";
  if (compression != "gzip" && compression != "identity") {
    return Error(absl::StatusCode::kUnimplemented, "COMPRESSED",
                 "the query's compression: must be gzip or identity");
  }
  if (!values[kMessage].has_value()) return Invalid("message", "must be given");
  parsed.message = *std::move(values[kMessage]);
  const std::string base64 = values[kBase64].value_or("0");
  if (base64 != "0" && base64 != "1") return Invalid("base64", "must be 0 or 1");
  if (base64 == "1") {
    std::string bytes;
    if (!absl::WebSafeBase64Unescape(parsed.message, &bytes)) {
      return Invalid("message", "is no base64 for URLs");
    }
    parsed.message = std::move(bytes);
  }
  return parsed;
}

}  // namespace memoryd
