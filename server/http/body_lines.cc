#include "server/http/body_lines.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

namespace memoryd {

void BodyLines::Put(std::string_view bytes) {
  // Moves less than it drops, so that many pieces cost no more than one.
  if (begin_ > kept_.size() / 2) {
    kept_.erase(0, begin_);
    searched_ -= begin_;
    begin_ = 0;
  }
  kept_.append(bytes);
}

std::optional<std::string> BodyLines::Take(bool has_ended) {
  while (true) {
    const std::size_t found = kept_.find('\n', searched_);
    if (found == std::string::npos && (!has_ended || bytes() == 0)) {
      searched_ = kept_.size();
      return std::nullopt;
    }
    const std::size_t end = std::min(found, kept_.size());
    const std::size_t next = std::min(end + 1, kept_.size());
    const bool is_blank = kept_.find_first_not_of(" \t\r", begin_) >= end;
    std::string line;
    if (begin_ == 0 && end > kept_.size() / 2) {
      // A large one would be there twice.
      line = std::move(kept_);
      kept_ = line.substr(next);
      line.resize(end);
      begin_ = searched_ = 0;
    } else {
      line = kept_.substr(begin_, end - begin_);
      begin_ = searched_ = next;
    }
    ++number_;
    if (!is_blank) return line;
  }
}

}  // namespace memoryd
