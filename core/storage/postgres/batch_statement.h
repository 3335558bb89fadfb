// The one statement that writes a batch of session changes (docs/adr/0001-commit-statement.md).
//
// It is all or nothing: the session rows are written by a conditional multi-row INSERT … ON
// CONFLICT DO UPDATE, everything else by further CTEs, and the final SELECT divides by zero
// (SQLSTATE 22012) unless every session row was won.
//
// `previous_revision` carries the condition: it is sent as minus the expected revision and turned
// round by the update. A row that ends up with a negative one was inserted where an update was
// meant, which counts as lost. With an expected revision of 0 every stored row is a loss, since
// stored revisions are at least 1.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_BATCH_STATEMENT_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_BATCH_STATEMENT_H_

#include <array>
#include <compare>
#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/storage/store.h"

namespace memoryd {

// What the SQL text depends on: how many rows go where.
struct BatchShape {
  std::size_t sessions = 0;
  std::size_t messages = 0;
  std::size_t requests = 0;
  std::size_t garbage = 0;
  std::size_t erased = 0;  // Ranges.
  std::size_t blocks = 0;
  std::size_t jobs = 0;
  // Whether there are any: however many, they come as one array for each column.
  bool replaced_messages = false;
  bool removed_blocks = false;
  bool ended_jobs = false;
  bool cancelled_jobs = false;
  bool marked_jobs = false;
  // Messages, requests, blocks and jobs as arrays too: a statement has at most 65,535 parameters.
  bool arrays = false;

  friend auto operator<=>(const BatchShape&, const BatchShape&) = default;
};

// Unique constraints that tell what a session change collided with.
inline constexpr std::string_view kMessageIdConstraint = "memoryd_messages_message_id";
inline constexpr std::string_view kRequestIdConstraint = "memoryd_requests_pkey";

class BatchStatement {
 public:
  // The most parameters of a batch without arrays.
  static constexpr std::size_t kMaxParameters = 16'000;

  // Parameters that `change` takes, at most, when it is written without arrays.
  static std::size_t ParameterCount(const SessionChange& change);

  // True for a large change: it is written in a statement of its own, with arrays.
  static bool NeedsArrays(const SessionChange& change);

  // `changes` are sorted by key, so that two batches never wait for each other in a ring. They
  // must outlive the statement. Unless there is just one, none of them needs arrays and together
  // they take at most kMaxParameters.
  explicit BatchStatement(std::span<const SessionChange* const> changes);

  BatchStatement(const BatchStatement&) = delete;
  BatchStatement& operator=(const BatchStatement&) = delete;

  const BatchShape& shape() const { return shape_; }
  std::string Sql() const;

  // The parameters, in PostgreSQL's binary format; types are OIDs.
  std::span<const char* const> values() const { return values_; }
  std::span<const int> lengths() const { return lengths_; }
  std::span<const unsigned> types() const { return types_; }

 private:
  class Rows;
  class Columns;

  void Add(const char* bytes, std::size_t size, unsigned type);

  BatchShape shape_;
  std::vector<const char*> values_;
  std::vector<int> lengths_;
  std::vector<unsigned> types_;
  // What the parameters point to when it is not in a change. Deques keep addresses.
  std::deque<std::array<char, 8>> numbers_;
  std::deque<std::string> strings_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_BATCH_STATEMENT_H_
