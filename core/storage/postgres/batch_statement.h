// The one statement that writes a batch of session changes (docs/adr/0001-commit-statement.md).
//
// It is all or nothing: the session rows are written by a conditional multi-row INSERT … ON
// CONFLICT DO UPDATE, or by a conditional UPDATE where messages are appended and no more,
// everything else by further CTEs, and the final SELECT divides by zero (SQLSTATE 22012) unless
// every session row was won. batch_clauses.h has the CTEs.
//
// `previous_revision` carries the condition: the INSERT has minus the expected revision, which is
// turned round by its update. A row that ends up with a negative one was inserted where an update
// was meant, which counts as lost. With an expected revision of 0 every stored row is a loss, since
// stored revisions are at least 1.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_BATCH_STATEMENT_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_BATCH_STATEMENT_H_

#include <compare>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/storage/postgres/batch_rows.h"
#include "core/storage/store.h"

namespace memoryd {

// What the SQL text depends on: how many rows go where. Different shapes have different texts.
struct BatchShape {
  // Of each of BatchClauses(); 1 stands for any number that comes as arrays.
  std::vector<std::size_t> rows;
  // Whether clauses that can be lists or arrays are arrays: a statement has at most 65,535
  // parameters.
  bool arrays = false;
  // Whether all clauses are, and a part of a change has all of its clauses, with empty arrays where
  // there is no row.
  bool whole = false;
  // Of items, see item_statement.h, rather than of sessions.
  bool items = false;

  friend auto operator<=>(const BatchShape&, const BatchShape&) = default;
};

// How many texts the statements of a kind may have.
enum class Texts {
  kExact,    // A text for each number of rows, which costs PostgreSQL the least.
  kBounded,  // kBoundedTexts of the kind at most: behind a pooler none can be given up.
};

// Unique constraints that tell what a session change collided with.
inline constexpr std::string_view kMessageIdConstraint = "memoryd_messages_message_id";
inline constexpr std::string_view kRequestIdConstraint = "memoryd_requests_pkey";

// A statement whose text depends on its shape alone, with parameters in PostgreSQL's binary format.
class ShapedStatement {
 public:
  ShapedStatement() = default;
  ShapedStatement(const ShapedStatement&) = delete;
  ShapedStatement& operator=(const ShapedStatement&) = delete;
  virtual ~ShapedStatement() = default;

  virtual std::string Sql() const = 0;

  const BatchShape& shape() const { return shape_; }
  // Types are OIDs.
  std::span<const char* const> values() const { return parameters_.values(); }
  std::span<const int> lengths() const { return parameters_.lengths(); }
  std::span<const unsigned> types() const { return parameters_.types(); }

 protected:
  BatchShape shape_;
  BatchParameters parameters_;
};

class BatchStatement final : public ShapedStatement {
 public:
  // The most parameters of a batch without arrays.
  static constexpr std::size_t kMaxParameters = 16'000;

  // So many changes come as arrays: one text for any number of them, and fewer parameters to read.
  // For fewer a list costs PostgreSQL less.
  static constexpr std::size_t kArraysFrom = 16;

  // Where texts are bounded these come as lists: one change that puts up to kFewRows messages and
  // one request, and several that append, have a request each, and together as many messages as
  // they are, or more. All else comes as arrays.
  static constexpr std::size_t kFewRows = 8;

  // Of one change, which is an append or not, 0 to kFewRows messages and 0 or 1 requests; of 2 to
  // kFewRows changes the messages from their number on; of arrays which sessions' clauses there
  // are, at least one of the two, and which of the other parts.
  static constexpr std::size_t kBoundedTexts =
      2 * (kFewRows + 1) * 2 + (kFewRows - 1) * kFewRows / 2 + 3 * 2 * 2;

  // Parameters that `change` takes, at most, when it is written without arrays.
  static std::size_t ParameterCount(const SessionChange& change);

  // True for a large change: it is written in a statement of its own, with arrays.
  static bool NeedsArrays(const SessionChange& change);

  // `changes` are sorted by key, so that two batches never wait for each other in a ring. They
  // must outlive the statement. Unless there is just one, none of them needs arrays and together
  // they take at most kMaxParameters.
  explicit BatchStatement(std::span<const SessionChange* const> changes,
                          Texts texts = Texts::kExact);

  std::string Sql() const override;

 private:
  void AppendOutcome(std::span<const std::size_t> first, std::string& sql) const;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_BATCH_STATEMENT_H_
