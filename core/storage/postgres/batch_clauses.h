// The clauses of the statement that writes a batch (batch_statement.h), as one table.
//
// A clause is a CTE that writes the rows of one kind, of all changes of the batch. A new clause is
// a row of the table; a new column is a row of the clause's columns and a line of its writer.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_BATCH_CLAUSES_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_BATCH_CLAUSES_H_

#include <cstddef>
#include <limits>
#include <span>
#include <string_view>

#include "core/storage/postgres/batch_rows.h"
#include "core/storage/store.h"

namespace memoryd {

// Where texts are bounded (see Texts), all forms are as kArrays but in the few short lists.
enum class RowForm {
  kList,          // Each value is a parameter.
  kListOrArrays,  // As arrays in a statement of one large change, or of many.
  kArrays,        // Each column is a parameter, however many rows there are.
};

// What of a change a clause writes. Where texts are bounded, the clauses of a part are in a
// statement together.
enum class ChangePart {
  kPut,     // The session's row, messages and requests.
  kEdits,   // What is erased, written anew, or no longer referred to.
  kBlocks,  // Blocks and their jobs.
};

struct BatchClause {
  // Appended to a clause's text where another clause writes rows as well.
  struct Exception {
    std::string_view of;   // The other clause's name; it stands before in the table, as kArrays.
    std::string_view sql;  // {keys} becomes the parameters of the other's key columns.
  };

  std::string_view name;  // Of the CTE.
  // Begin with tenant and session.
  std::span<const BatchColumn> columns;
  RowForm form;
  // {columns} becomes the names of the columns. {rows} becomes all rows, as they follow the columns
  // of an INSERT, {given} the rows as a table `given`. {conditions} becomes the rows as
  // alternatives, each of which is all of its values. {set} becomes assignments to all columns but
  // the keys: of `given` where there is that table, else of `excluded`.
  std::string_view sql;
  // How many rows Write() writes of a change at most, without looking closely.
  std::size_t (*max_rows)(const SessionChange& change);
  void (*write)(const SessionChange& change, RowWriter& row);
  // The text with the rows as arrays, where it is another one.
  std::string_view arrays_sql = {};
  ChangePart part = ChangePart::kPut;
  // Of a kListOrArrays: a change with more rows is written as arrays.
  std::size_t max_listed = std::numeric_limits<std::size_t>::max();
  Exception exception = {};
  // Its rows are those of sessions: it returns the `previous_revision` that says whether one was
  // won.
  bool is_of_sessions = false;

  constexpr bool has_given() const { return sql.find("{given}") != std::string_view::npos; }

  // The columns that a parameter is sent for.
  constexpr std::span<const BatchColumn> parameters() const {
    std::size_t count = 0;
    while (count < columns.size() && columns[count].type != ParameterType::kNone) ++count;
    return columns.first(count);
  }
};

// In the order of the statement. Those of the sessions' rows come first, and have one row together
// for each change.
std::span<const BatchClause> BatchClauses();

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_BATCH_CLAUSES_H_
