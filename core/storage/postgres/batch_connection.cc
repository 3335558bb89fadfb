#include "core/storage/postgres/batch_connection.h"

#include <fmt/format.h>
#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/failpoint.h"
#include "core/storage/postgres/batch_rows.h"
#include "core/storage/postgres/batch_statement.h"
#include "core/storage/postgres/connection_settings.h"
#include "core/storage/postgres/item_statement.h"
#include "core/storage/postgres/sqlstate.h"
#include "core/storage/postgres/statement_names.h"

namespace memoryd {
namespace {

// So behind a pooler, where none can be forgotten, all have a name.
static_assert(BatchStatement::kBoundedTexts + ItemStatement::kBoundedTexts <=
              BatchConnection::kMaxPlans);

std::string Field(const PGresult* result, int field) {
  const char* const text = PQresultErrorField(result, field);
  return text == nullptr ? std::string() : std::string(text);
}

// See BatchReply::numbers.
void AppendNumbers(const PGresult* result, std::vector<std::int64_t>& numbers) {
  constexpr int kBytes = 8;
  const int columns = PQnfields(result);
  for (int column = 0; column < columns; ++column) {
    if (PQfformat(result, column) != 1 ||
        PQftype(result, column) != static_cast<unsigned>(ParameterType::kInt8)) {
      return;
    }
  }
  for (int row = 0; row < PQntuples(result); ++row) {
    for (int column = 0; column < columns; ++column) {
      std::uint64_t bits = 0;
      if (PQgetlength(result, row, column) == kBytes) {
        const char* const bytes = PQgetvalue(result, row, column);
        for (int i = 0; i < kBytes; ++i) bits = bits << 8 | static_cast<unsigned char>(bytes[i]);
      }
      numbers.push_back(static_cast<std::int64_t>(bits));
    }
  }
}

}  // namespace

BatchConnection::BatchConnection(PGconn* connection, std::shared_ptr<StatementNames> names)
    : connection_(connection, &PQfinish), names_(std::move(names)) {
  PQsetNoticeReceiver(connection, &BatchConnection::OnNotice, this);
}

absl::StatusOr<std::unique_ptr<BatchConnection>> BatchConnection::Connect(
    const ConnectionSettings& settings) {
  std::vector<const char*> keywords;
  std::vector<const char*> values;
  for (const auto& [keyword, value] : settings.values) {
    keywords.push_back(keyword.c_str());
    values.push_back(value.c_str());
  }
  keywords.push_back(nullptr);
  values.push_back(nullptr);
  std::unique_ptr<BatchConnection> connection(
      new BatchConnection(PQconnectdbParams(keywords.data(), values.data(), 0), settings.names));
  PGconn* const raw = connection->connection_.get();
  if (PQstatus(raw) != CONNECTION_OK || PQsetnonblocking(raw, 1) != 0) {
    return StatusForSqlState("", PQerrorMessage(raw));
  }
  return connection;
}

void BatchConnection::OnNotice(void* self, const PGresult* notice) {
  // By severity alone: the text is translated, and a batch gives no other warnings.
  if (Field(notice, PG_DIAG_SEVERITY_NONLOCALIZED) == "WARNING") {
    static_cast<BatchConnection*>(self)->warned_ = true;
  }
}

BatchReply BatchConnection::Execute(const ShapedStatement& statement, Deadline deadline) {
  if (Names::value_type* const name = Prepare(statement, deadline)) {
    BatchReply reply = Send(statement, name->first, deadline);
    if (reply.kind != BatchReply::Kind::kError) return reply;
    if (reply.sqlstate == kSqlStateNotSupported) {
      name->second = false;
    } else if (!names_->GiveUpAfter(reply.sqlstate)) {
      return reply;
    }
  }
  names_->CountUnnamed();
  return Send(statement, "", deadline);
}

BatchReply BatchConnection::Send(const ShapedStatement& statement, const std::string& name,
                                 Deadline deadline) {
  if (lost_) return {};
  ReachFailpoint("commit_begun");
  PGconn* const connection = connection_.get();
  const int count = static_cast<int>(statement.values().size());
  const std::vector<int> formats(statement.values().size(), 1);
  const int sent =
      name.empty() ? PQsendQueryParams(connection, statement.Sql().c_str(), count,
                                       statement.types().data(), statement.values().data(),
                                       statement.lengths().data(), formats.data(), 1)
                   : PQsendQueryPrepared(connection, name.c_str(), count, statement.values().data(),
                                         statement.lengths().data(), formats.data(), 1);
  if (sent != 1) return SendFailed();
  // All but the largest batches are in the socket's buffer by now.
  ReachFailpoint("commit_sent");
  return Await(deadline);
}

BatchReply BatchConnection::Execute(const char* sql, std::span<const std::string> parameters,
                                    Deadline deadline) {
  if (lost_) return {};
  std::vector<const char*> values;
  for (const std::string& parameter : parameters) values.push_back(parameter.c_str());
  if (PQsendQueryParams(connection_.get(), sql, static_cast<int>(values.size()), nullptr,
                        values.data(), nullptr, nullptr, 1) != 1) {
    return SendFailed();
  }
  return Await(deadline);
}

BatchReply BatchConnection::SendFailed() {
  BatchReply reply;
  reply.kind = BatchReply::Kind::kInDoubt;
  return Lost(std::move(reply));
}

BatchReply BatchConnection::Lost(BatchReply reply) {
  lost_ = true;
  if (reply.said.empty()) reply.said = PQerrorMessage(connection_.get());
  return reply;
}

BatchConnection::Names::value_type* BatchConnection::Prepare(const ShapedStatement& statement,
                                                             Deadline deadline) {
  if (!names_->used()) return nullptr;
  const auto found = plan_of_.find(statement.shape());
  if (found == plan_of_.end()) {
    // A pooler's server has statements under names of the pooler's, so it could not be told to
    // forget one.
    if (names_->pooled() && plans_.size() >= kMaxPlans) return nullptr;
    plans_.push_front({statement.shape()});
    plan_of_[statement.shape()] = plans_.begin();
    if (plans_.size() > kMaxPlans) ForgetPlan(deadline);
    return nullptr;
  }
  plans_.splice(plans_.begin(), plans_, found->second);
  Plan& plan = plans_.front();
  if (plan.name == nullptr) plan.name = Name(statement, deadline);
  return plan.name != nullptr && plan.name->second ? plan.name : nullptr;
}

BatchConnection::Names::value_type* BatchConnection::Name(const ShapedStatement& statement,
                                                          Deadline deadline) {
  const std::string sql = statement.Sql();
  std::string name = StatementName(sql, statement.types());
  if (const auto known = prepared_.find(name); known != prepared_.end()) return &*known;
  if (PQsendPrepare(connection_.get(), name.c_str(), sql.c_str(),
                    static_cast<int>(statement.types().size()), statement.types().data()) != 1) {
    lost_ = true;
    return nullptr;
  }
  const BatchReply reply = Await(deadline);
  const bool done = reply.kind == BatchReply::Kind::kDone;
  if (!done) {
    // What is wrong with the statement comes up again, and is reported, when it is executed.
    lost_ = lost_ || reply.kind != BatchReply::Kind::kError;
    names_->GiveUpAfter(reply.sqlstate);
    if (!names_->pooled()) return nullptr;
    worn_ = worn_ || IsWorthRetrying(reply.sqlstate);
  }
  return &*prepared_.emplace(std::move(name), done).first;
}

void BatchConnection::ForgetPlan(Deadline deadline) {
  const Names::value_type* const name = plans_.back().name;
  plan_of_.erase(plans_.back().shape);
  plans_.pop_back();
  if (name == nullptr || std::ranges::find(plans_, name, &Plan::name) != plans_.end()) return;
  // Also of one that is not used any more, which the server still has.
  const std::string sql = fmt::format("DEALLOCATE {}", name->first);
  prepared_.erase(name->first);
  if (PQsendQuery(connection_.get(), sql.c_str()) != 1) {
    lost_ = true;
    return;
  }
  const BatchReply reply = Await(deadline);
  if (reply.kind == BatchReply::Kind::kError && names_->GiveUpAfter(reply.sqlstate)) return;
  if (reply.kind != BatchReply::Kind::kDone) lost_ = true;
}

bool BatchConnection::Poll(short events, Deadline deadline) const {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd socket{PQsocket(connection_.get()), events, 0};
    const int ready = ::poll(&socket, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) return false;
  }
}

BatchReply BatchConnection::Await(Deadline deadline) {
  BatchReply reply;
  if (lost_) return reply;
  reply.kind = BatchReply::Kind::kInDoubt;
  warned_ = false;
  PGconn* const connection = connection_.get();
  bool failed = false;
  // The answer ends where PQgetResult has no more: the commit comes after the last row, and so may
  // its error.
  for (;;) {
    const int unsent = PQflush(connection);
    if (unsent < 0 && PQisBusy(connection) == 0) lost_ = true;
    while (PQisBusy(connection) == 0) {
      const std::unique_ptr<PGresult, decltype(&PQclear)> result(PQgetResult(connection), &PQclear);
      if (result == nullptr) return Ended(std::move(reply), failed);
      failed |= !Read(result.get(), reply);
    }
    const short events = unsent > 0 ? POLLIN | POLLOUT : POLLIN;
    if (!Poll(events, deadline)) {
      reply.said = "no answer in time";
      return Lost(std::move(reply));
    }
    if (PQconsumeInput(connection) != 1) lost_ = true;
    if (lost_ && PQisBusy(connection) != 0) return Lost(std::move(reply));
  }
}

bool BatchConnection::Read(const PGresult* result, BatchReply& reply) {
  const ExecStatusType status = PQresultStatus(result);
  if (status == PGRES_COMMAND_OK) return true;
  if (status == PGRES_TUPLES_OK) {
    reply.rows = PQntuples(result);
    AppendNumbers(result, reply.numbers);
    return true;
  }
  reply.sqlstate = Field(result, PG_DIAG_SQLSTATE);
  reply.constraint = Field(result, PG_DIAG_CONSTRAINT_NAME);
  reply.said = Field(result, PG_DIAG_MESSAGE_PRIMARY);
  // Without a code it is libpq that failed, not the server.
  if (reply.sqlstate.empty()) lost_ = true;
  return false;
}

BatchReply BatchConnection::Ended(BatchReply reply, bool failed) {
  if (lost_ || PQstatus(connection_.get()) != CONNECTION_OK ||
      PQtransactionStatus(connection_.get()) != PQTRANS_IDLE) {
    return Lost(std::move(reply));
  }
  reply.kind = failed    ? BatchReply::Kind::kError
               : warned_ ? BatchReply::Kind::kNotReplicated
                         : BatchReply::Kind::kDone;
  return reply;
}

bool BatchConnection::usable() const {
  if (lost_ || worn_ || PQstatus(connection_.get()) != CONNECTION_OK) return false;
  // An exception may have come between a statement and its answer.
  if (PQtransactionStatus(connection_.get()) != PQTRANS_IDLE) return false;
  // Nothing is expected while idle: bytes to read are the server's farewell, or the end.
  pollfd socket{PQsocket(connection_.get()), POLLIN, 0};
  return ::poll(&socket, 1, 0) == 0;
}

}  // namespace memoryd
