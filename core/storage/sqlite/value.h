// Values of rows that may be large, and where they stand.
//
// SQLite keeps a WITHOUT ROWID table as an index and reads the whole of each row that a search
// compares with, so a row of megabytes slows down whatever is searched beside it, also for other
// tenants. So a value above kLargestInRow stands in memoryd_values, and in its row in place of it
// the id there. In the row it is a blob, or NULL where the column may be; an id is an integer. The
// table's triggers delete the value with its row, or when another value takes its place. Rows from
// before schema 9 have large values in them.
#ifndef MEMORYD_CORE_STORAGE_SQLITE_VALUE_H_
#define MEMORYD_CORE_STORAGE_SQLITE_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/storage/sqlite/database.h"

namespace memoryd::sqlite {

// In bytes; see docs/adr/0053-large-values-apart.md.
inline constexpr std::size_t kLargestInRow = 1024;

// The SQL of a value's length, for which the value is not read; NULL when it is missing.
#define MEMORYD_LENGTH_OF(column)                    \
  "CASE typeof(" column                              \
  ") WHEN 'integer' THEN (SELECT length(value) FROM" \
  " memoryd_values WHERE id = " column ") ELSE length(" column ") END"

// A value on its way into a row. It borrows the bytes.
class NewValue {
 public:
  explicit NewValue(std::string_view bytes) : bytes_(bytes) {}

  bool is_empty() const { return bytes_.empty(); }
  bool is_large() const { return bytes_.size() > kLargestInRow; }

  // Writes it, if it is large, into memoryd_values. An extended result code.
  int Store(Database& db);
  // What belongs into the row, after Store().
  void BindTo(Query& query) const;
  // Deletes what Store() has written, since no row took it. An extended result code.
  int TakeBack(Database& db) const;

 private:
  const std::string_view bytes_;
  std::optional<std::int64_t> id_;
};

// The value in `column` of the query's row, wherever it stands; empty for NULL. DATA_LOSS when it
// is missing. In the transaction of `query`.
absl::StatusOr<std::string> ReadValue(Database& db, const Query& query, int column);

// What should never be.
struct ValueFaults {
  std::int64_t strays = 0;   // Values that no row names.
  std::int64_t missing = 0;  // Names of values that don't exist.
};

// Counts the faults of the whole file. Reads all rows, but no values.
absl::StatusOr<ValueFaults> CheckValues(Database& db);

}  // namespace memoryd::sqlite

#endif  // MEMORYD_CORE_STORAGE_SQLITE_VALUE_H_
