#include "server/http/accepted.h"

#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace memoryd {

bool Accepts(std::string_view accepted, std::string_view wanted) {
  for (const absl::string_view entry :
       absl::StrSplit(absl::string_view(accepted.data(), accepted.size()), ',')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(entry, absl::MaxSplits(';', 1));
    const absl::string_view weight = absl::StripAsciiWhitespace(parts.second);
    if (absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(parts.first),
                               {wanted.data(), wanted.size()})) {
      return weight.find_first_not_of("q=0. ") != absl::string_view::npos || weight.empty();
    }
  }
  return false;
}

}  // namespace memoryd
