// Aligned columns for people.
#ifndef MEMORYD_CLI_TABLE_H_
#define MEMORYD_CLI_TABLE_H_

#include <cstddef>
#include <string>
#include <vector>

namespace memoryd::cli {

// Takes rows and gives them back aligned, page by page: columns never get narrower again, so that
// what was printed before and what follows stand one below the other where they fit.
class Table {
 public:
  // `width` is that of the terminal, to which rows are cut, the widest cells first; 0 for no bound.
  // `colour`: the names in bold.
  Table(std::vector<std::string> names, int width, bool colour = false);

  // A cell for each column, as it is stored: see EscapeForTerminal.
  void Add(const std::vector<std::string>& cells);

  // Rows that Take() would give.
  std::size_t size() const { return rows_.size(); }

  // The rows added since the last call, a line each; before the first ones the names.
  std::string Take();

 private:
  using Row = std::vector<std::string>;

  std::vector<int> Fitted() const;

  const int width_;
  bool bold_;  // The next row.
  std::vector<int> widths_;
  std::vector<Row> rows_;
};

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_TABLE_H_
