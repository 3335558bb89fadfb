// A connection for batch statements, through libpq (docs/adr/0001-commit-statement.md).
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_BATCH_CONNECTION_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_BATCH_CONNECTION_H_

#include <libpq-fe.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/storage/postgres/batch_statement.h"
#include "core/storage/postgres/connection_settings.h"
#include "core/storage/postgres/statement_names.h"

namespace memoryd {

// What became of a statement.
struct BatchReply {
  enum class Kind {
    kDone,     // Durable.
    kError,    // Rolled back; see `sqlstate` and `constraint`.
    kNotSent,  // Not executed: the connection was gone before.
    kInDoubt,  // The connection was lost, or the deadline passed, before the answer.
    // Committed with a warning, which can only be PostgreSQL's "committed locally, but might not
    // have been replicated": visible, but a failover may lose it.
    kNotReplicated,
  };
  Kind kind = Kind::kNotSent;
  std::string sqlstate;    // Five characters; empty when the server gave no error.
  std::string constraint;  // The violated one, if any.
  std::string said;        // By the server, or by libpq of a connection that failed.
  int rows = 0;            // Returned.
  // The returned rows, one after the other, of a statement whose columns all are bigint in binary
  // format; NULL is 0.
  std::vector<std::int64_t> numbers;
};

// One thread at a time. Never blocks beyond the deadlines given, and never reconnects.
class BatchConnection {
 public:
  // How many shapes it knows, and has names for. A prepared batch of 64 sessions takes about half a
  // megabyte of the server's memory.
  static constexpr std::size_t kMaxPlans = 128;

  // Blocks for libpq's connect_timeout at most, for each host. UNAVAILABLE when there is no server.
  static absl::StatusOr<std::unique_ptr<BatchConnection>> Connect(
      const ConnectionSettings& settings);

  // Runs one statement as a transaction of its own. No cancel request is ever sent: cancelling the
  // wait for a standby would make a commit visible that is not replicated.
  BatchReply Execute(const ShapedStatement& statement, Deadline deadline);
  // The same for a rare statement with parameters in text form.
  BatchReply Execute(const char* sql, std::span<const std::string> parameters, Deadline deadline);

  // How many texts its statements may have.
  Texts texts() const {
    return names_->pooled() && names_->used() ? Texts::kBounded : Texts::kExact;
  }
  // False once the connection is lost, closed by the server while idle, or not to be used again.
  bool usable() const;

 private:
  // Of statements that were prepared, and whether they may be used. Behind a pooler also of those
  // that could not be: PgBouncer ends the connection of a client that prepares a name once more.
  using Names = std::map<std::string, bool>;
  // A shape that has been seen: one that comes again is prepared.
  struct Plan {
    BatchShape shape;
    Names::value_type* name = nullptr;  // Of `prepared_`; none until the shape comes again.
  };
  using Plans = std::list<Plan>;  // The last used first.

  BatchConnection(PGconn* connection, std::shared_ptr<StatementNames> names);

  // Under the name if there is one, else with its text.
  BatchReply Send(const ShapedStatement& statement, const std::string& name, Deadline deadline);
  // Null unless the shape is prepared now. The connection may be lost meanwhile.
  Names::value_type* Prepare(const ShapedStatement& statement, Deadline deadline);
  // The statement's name, prepared if it was not to be before. Null where that failed.
  Names::value_type* Name(const ShapedStatement& statement, Deadline deadline);
  // Makes room among the plans. The connection may be lost.
  void ForgetPlan(Deadline deadline);
  BatchReply Await(Deadline deadline);
  // Adds one of the server's results to the reply; false for an error.
  bool Read(const PGresult* result, BatchReply& reply);
  // `reply` when the server's answer has ended, in which there was an error if it has `failed`.
  BatchReply Ended(BatchReply reply, bool failed);
  // `reply` for a connection that is lost now, unless it says more already.
  BatchReply Lost(BatchReply reply);
  // libpq does not say how much of the statement has left already.
  BatchReply SendFailed();
  // False when the deadline passed.
  bool Poll(short events, Deadline deadline) const;
  static void OnNotice(void* self, const PGresult* notice);

  const std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
  const std::shared_ptr<StatementNames> names_;
  Plans plans_;
  std::map<BatchShape, Plans::iterator> plan_of_;
  Names prepared_;
  bool warned_ = false;
  bool lost_ = false;
  bool worn_ = false;  // A name of it can't be had any more, and can be on another connection.
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_BATCH_CONNECTION_H_
