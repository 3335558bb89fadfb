#include "cli/table.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "cli/terminal.h"
#include "cli/terminal_text.h"

namespace memoryd::cli {
namespace {

constexpr int kGap = 2;
// No column is made narrower than this; a line that is still too long is cut at its end.
constexpr int kLeast = 8;

}  // namespace

Table::Table(std::vector<std::string> names, int width, bool colour)
    : width_(width), bold_(colour), widths_(names.size()) {
  Add(names);
}

void Table::Add(const std::vector<std::string>& cells) {
  Row row(widths_.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] = EscapeForTerminal(cells[i]);
    widths_[i] = std::max(widths_[i], DisplayWidth(row[i]));
  }
  rows_.push_back(std::move(row));
}

std::vector<int> Table::Fitted() const {
  std::vector<int> widths = widths_;
  const int gaps = kGap * (static_cast<int>(widths.size()) - 1);
  while (width_ > 0 && std::accumulate(widths.begin(), widths.end(), gaps) > width_) {
    const auto widest = std::ranges::max_element(widths);
    if (*widest <= kLeast) break;
    // At once to what fits, if it stays the widest: a text may have a million columns.
    const int others = std::accumulate(widths.begin(), widths.end(), gaps) - *widest;
    int second = kLeast;
    for (auto other = widths.begin(); other != widths.end(); ++other) {
      if (other != widest) second = std::max(second, *other);
    }
    *widest = std::max({width_ - others, std::min(second, *widest - 1), kLeast});
  }
  return widths;
}

std::string Table::Take() {
  const std::vector<int> widths = Fitted();
  std::string text;
  for (const Row& row : std::exchange(rows_, {})) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string cell = width_ > 0 ? CutToWidth(row[i], widths[i]) : row[i];
      line += cell;
      // What is last is not filled up, so that no line ends in blanks.
      if (i + 1 == row.size()) break;
      line.append(static_cast<std::size_t>(widths[i] - DisplayWidth(cell) + kGap), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    if (width_ > 0) line = CutToWidth(line, width_);
    text += Bold(line, std::exchange(bold_, false)) + "\n";
  }
  return text;
}

}  // namespace memoryd::cli
