#include "core/storage/postgres/batch_statement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/storage/postgres/batch_clauses.h"
#include "core/storage/postgres/batch_rows.h"
#include "core/storage/store.h"

namespace memoryd {
namespace {

bool IsArrays(const BatchClause& clause, const BatchShape& shape) {
  return shape.whole || clause.form == RowForm::kArrays ||
         (clause.form == RowForm::kListOrArrays && shape.arrays);
}

std::size_t ParameterCount(const BatchClause& clause, std::size_t rows, const BatchShape& shape) {
  return (IsArrays(clause, shape) ? std::min<std::size_t>(rows, 1) : rows) *
         clause.parameters().size();
}

// Appends `text`; what `append` appends for a placeholder's name stands in its place.
template <typename Append>
void AppendFilled(std::string& sql, std::string_view text, const Append& append) {
  for (std::size_t open = text.find('{'); open != std::string_view::npos; open = text.find('{')) {
    sql += text.substr(0, open);
    const std::size_t close = text.find('}', open);
    append(text.substr(open + 1, close - open - 1));
    text.remove_prefix(close + 1);
  }
  sql += text;
}

// `item(i)` appends the i-th of `count`.
template <typename Item>
void AppendJoined(std::string& sql, std::string_view separator, std::size_t count,
                  const Item& item) {
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) sql += separator;
    item(i);
  }
}

// Parameters from `$first` on.
void AppendParameters(std::string& sql, std::size_t first, std::size_t count) {
  AppendJoined(sql, ",", count,
               [&](std::size_t i) { fmt::format_to(std::back_inserter(sql), "${}", first + i); });
}

// Writes the text of a clause whose parameters begin with `$first`.
class ClauseText {
 public:
  ClauseText(const BatchClause& clause, std::size_t rows, bool arrays, std::size_t first,
             std::string& sql)
      : clause_(clause), rows_(rows), arrays_(arrays), first_(first), sql_(sql) {}

  void Append() {
    const bool own = arrays_ && !clause_.arrays_sql.empty();
    AppendFilled(sql_, own ? clause_.arrays_sql : clause_.sql, [this](std::string_view name) {
      if (name == "columns") AppendNames(clause_.columns);
      if (name == "rows") AppendRows();
      if (name == "given") AppendGiven();
      if (name == "conditions") AppendList(" AND ", " OR ");
      if (name == "set") AppendAssignments();
    });
  }

 private:
  void AppendNames(std::span<const BatchColumn> columns) {
    AppendJoined(sql_, ", ", columns.size(), [&](std::size_t i) { sql_ += columns[i].name; });
  }

  void AppendRows() {
    if (!arrays_) {
      AppendValues();
    } else {
      sql_ += "SELECT ";
      AppendJoined(sql_, ", ", clause_.columns.size(), [this](std::size_t i) {
        const BatchColumn& column = clause_.columns[i];
        AppendFilled(sql_, column.value, [&](std::string_view) {
          sql_.append("given.").append(column.name);
          if (column.type == ParameterType::kInt8Array) sql_ += "::bigint[]";
        });
      });
      sql_ += " FROM ";
      AppendGiven();
    }
  }

  void AppendValues() {
    sql_ += "VALUES ";
    AppendList(", ", ",");
  }

  // As a table.
  void AppendGiven() {
    const std::span<const BatchColumn> columns = clause_.parameters();
    sql_ += arrays_ ? "unnest(" : "(";
    if (arrays_) {
      AppendParameters(sql_, first_, columns.size());
    } else {
      AppendValues();
    }
    sql_ += ") AS given (";
    AppendNames(columns);
    sql_ += ')';
  }

  // The rows, each of them in brackets.
  void AppendList(std::string_view between_values, std::string_view between_rows) {
    std::size_t next = first_;
    AppendJoined(sql_, between_rows, rows_, [&](std::size_t) {
      sql_ += '(';
      AppendJoined(sql_, between_values, clause_.columns.size(), [&](std::size_t i) {
        const BatchColumn& column = clause_.columns[i];
        AppendFilled(sql_, column.value, [&](std::string_view) {
          fmt::format_to(std::back_inserter(sql_), "${}", next);
        });
        if (column.type != ParameterType::kNone) ++next;
      });
      sql_ += ')';
    });
  }

  void AppendAssignments() {
    const std::string_view given = clause_.has_given() ? "given." : "excluded.";
    bool first = true;
    for (const BatchColumn& column : clause_.columns) {
      if (column.is_key) continue;
      if (!std::exchange(first, false)) sql_ += ", ";
      sql_.append(column.name).append(" = ");
      AppendFilled(sql_, column.set,
                   [&](std::string_view) { sql_.append(given).append(column.name); });
    }
  }

  const BatchClause& clause_;
  const std::size_t rows_;
  const bool arrays_;
  const std::size_t first_;
  std::string& sql_;
};

bool IsIn(std::span<const SessionChange* const> changes, ChangePart part) {
  return std::ranges::any_of(BatchClauses(), [&](const BatchClause& clause) {
    return clause.part == part && std::ranges::any_of(changes, [&](const SessionChange* change) {
             return clause.max_rows(*change) > 0;
           });
  });
}

// Whether the changes come as lists where texts are bounded, see BatchStatement::kFewRows.
bool IsShort(std::span<const SessionChange* const> changes) {
  constexpr std::size_t kMost = BatchStatement::kFewRows;
  if (changes.size() > kMost || IsIn(changes, ChangePart::kEdits) ||
      IsIn(changes, ChangePart::kBlocks)) {
    return false;
  }
  std::size_t messages = 0;
  for (const SessionChange* change : changes) {
    messages += change->messages.size() + change->contents.size() + change->entries.size();
  }
  if (messages > kMost) return false;
  if (changes.size() == 1) return changes.front()->requests.size() <= 1;
  return messages >= changes.size() &&
         std::ranges::all_of(changes, [](const SessionChange* change) {
           return change->appends_only && change->requests.size() == 1;
         });
}

}  // namespace

std::size_t BatchStatement::ParameterCount(const SessionChange& change) {
  std::size_t count = 0;
  for (const BatchClause& clause : BatchClauses()) {
    count += memoryd::ParameterCount(clause, clause.max_rows(change), BatchShape());
  }
  return count;
}

bool BatchStatement::NeedsArrays(const SessionChange& change) {
  return std::ranges::any_of(BatchClauses(),
                             [&](const BatchClause& clause) {
                               return clause.max_rows(change) > clause.max_listed;
                             }) ||
         ParameterCount(change) > kMaxParameters;
}

BatchStatement::BatchStatement(std::span<const SessionChange* const> changes, Texts texts) {
  shape_.whole = texts == Texts::kBounded && !IsShort(changes);
  shape_.arrays = shape_.whole || changes.size() >= kArraysFrom ||
                  (changes.size() == 1 && NeedsArrays(*changes.front()));
  const std::span<const BatchClause> clauses = BatchClauses();
  std::size_t parameters = 0;
  for (const BatchClause& clause : clauses) {
    std::size_t rows = 0;
    for (const SessionChange* change : changes) rows += clause.max_rows(*change);
    parameters += memoryd::ParameterCount(clause, rows, shape_);
  }
  parameters_.Reserve(parameters);

  shape_.rows.reserve(clauses.size());
  for (const BatchClause& clause : clauses) {
    if (IsArrays(clause, shape_)) {
      ArrayWriter row(clause.parameters());
      for (const SessionChange* change : changes) clause.write(*change, row);
      const bool with_part = shape_.whole && !clause.is_of_sessions &&
                             (clause.part == ChangePart::kPut || IsIn(changes, clause.part));
      row.AddTo(parameters_, /*even_empty=*/with_part);
      shape_.rows.push_back(with_part ? 1 : std::min<std::size_t>(row.rows(), 1));
    } else {
      ListWriter row(clause.parameters(), parameters_);
      for (const SessionChange* change : changes) clause.write(*change, row);
      shape_.rows.push_back(row.rows());
    }
  }
}

// Divides by zero unless every session's row was won. `first` is of each clause's parameters.
void BatchStatement::AppendOutcome(std::span<const std::size_t> first, std::string& sql) const {
  const std::span<const BatchClause> clauses = BatchClauses();
  std::string wanted;
  std::string rows;
  for (std::size_t i = 0; clauses[i].is_of_sessions; ++i) {
    if (shape_.rows[i] == 0) continue;
    wanted += wanted.empty() ? "" : " + ";
    wanted += IsArrays(clauses[i], shape_) ? fmt::format("cardinality(${})", first[i])
                                           : fmt::format("{}", shape_.rows[i]);
    rows += rows.empty() ? "" : " UNION ALL ";
    rows.append("SELECT previous_revision FROM ").append(clauses[i].name);
  }
  fmt::format_to(std::back_inserter(sql),
                 " SELECT 1 / (CASE WHEN count(*) FILTER (WHERE previous_revision >= 0) = {} "
                 "THEN 1 ELSE 0 END) FROM ({}) AS changed",
                 wanted, rows);
}

std::string BatchStatement::Sql() const {
  const std::span<const BatchClause> clauses = BatchClauses();
  std::string sql = "WITH ";
  std::size_t next = 1;
  std::vector<std::size_t> first(clauses.size());  // Of each clause's parameters.
  for (std::size_t i = 0; i < clauses.size(); ++i) {
    const BatchClause& clause = clauses[i];
    first[i] = next;
    if (shape_.rows[i] == 0) continue;
    if (next > 1) sql += ", ";
    sql.append(clause.name).append(" AS (");
    ClauseText(clause, shape_.rows[i], IsArrays(clause, shape_), next, sql).Append();
    for (std::size_t other = 0; other < i; ++other) {
      if (clauses[other].name != clause.exception.of || shape_.rows[other] == 0) continue;
      AppendFilled(sql, clause.exception.sql, [&](std::string_view) {
        AppendParameters(sql, first[other],
                         static_cast<std::size_t>(
                             std::ranges::count_if(clauses[other].columns, &BatchColumn::is_key)));
      });
    }
    sql += ')';
    next += shape_.rows[i] * clause.parameters().size();
  }
  AppendOutcome(first, sql);
  return sql;
}

}  // namespace memoryd
