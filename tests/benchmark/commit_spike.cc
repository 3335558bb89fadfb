// What the batch statement costs by form and by client library (docs/adr/0001-commit-statement.md).
//
//   commit_spike postgresql://postgres@127.0.0.1:5432/postgres [rounds]
//
// Works in a schema of its own, memoryd_spike, and drops it. Every round runs every variant once,
// so that what else the machine does hits all of them alike; the medians are printed.
#include <fmt/format.h>
#include <libpq-fe.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <memory>
#include <pqxx/pqxx>
#include <ratio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

constexpr int kSessionColumns = 17;
constexpr std::string_view kSessionTarget =
    "memoryd_sessions AS s (tenant, session, generation, revision, previous_revision, "
    "next_position, floor_position, watermark, pinned, active_count, archived_count, "
    "active_tokens, create_us, update_us, deleted, commit_tag, config)";
constexpr std::string_view kSessionCasts[kSessionColumns] = {
    "text",   "text",   "bigint", "bigint", "bigint", "bigint",  "bigint", "bigint", "bytea",
    "bigint", "bigint", "bigint", "bigint", "bigint", "boolean", "bigint", "bytea"};
constexpr std::string_view kOnConflict =
    " ON CONFLICT (tenant, session) DO UPDATE SET generation = excluded.generation, "
    "revision = excluded.revision, previous_revision = -excluded.previous_revision, "
    "next_position = excluded.next_position, floor_position = excluded.floor_position, "
    "watermark = excluded.watermark, pinned = excluded.pinned, "
    "active_count = excluded.active_count, archived_count = excluded.archived_count, "
    "active_tokens = excluded.active_tokens, create_us = excluded.create_us, "
    "update_us = excluded.update_us, deleted = excluded.deleted, "
    "commit_tag = excluded.commit_tag, config = coalesce(excluded.config, s.config) "
    "WHERE s.revision = -excluded.previous_revision RETURNING ";
constexpr std::string_view kMessageTarget =
    "memoryd_messages (tenant, session, generation, position, message_id, role, token_count, "
    "ingest_us, tool_ids, body)";
constexpr std::string_view kMessageCasts[] = {"text",     "text",   "bigint", "bigint", "text",
                                              "smallint", "bigint", "bigint", "bytea",  "bytea"};
constexpr std::string_view kRequestTarget =
    "memoryd_requests (tenant, session, request_id, create_us, fingerprint, reply)";
constexpr std::string_view kRequestCasts[] = {"text", "text", "text", "bigint", "bytea", "bytea"};

// One column value: a whole number, text, bytes or NULL.
struct Value {
  enum Kind { kInt, kText, kBytes, kNull } kind;
  std::int64_t number = 0;
  std::string bytes = {};
};
using Row = std::vector<Value>;

struct Batch {
  std::vector<Row> sessions, messages, requests;
};

struct Size {
  int sessions;
  int messages;
  bool requests;
};

enum class Form { kJoin, kAssert, kUnnest };

// Numbers parameters: binary ones behind the others, as libpqxx wants them in ranges.
class Numbering {
 public:
  explicit Numbering(int text_count) : text_(0), binary_(text_count) {}
  std::string Next(bool binary) { return fmt::format("${}", binary ? ++binary_ : ++text_); }

 private:
  int text_, binary_;
};

template <typename Casts>
std::string Rows(Numbering& numbering, std::size_t rows, const Casts& casts, bool cast) {
  std::string sql = "VALUES ";
  for (std::size_t r = 0; r < rows; ++r) {
    sql += r == 0 ? "(" : ",(";
    bool first = true;
    for (const std::string_view type : casts) {
      if (!first) sql += ',';
      first = false;
      sql += numbering.Next(type == "bytea");
      if (cast && r == 0) sql += fmt::format("::{}", type);
    }
    sql += ')';
  }
  return sql;
}

template <typename Casts>
std::string Unnest(int& number, const Casts& casts) {
  std::string sql = "SELECT * FROM unnest(";
  bool first = true;
  for (const std::string_view type : casts) {
    if (!first) sql += ',';
    first = false;
    sql += fmt::format("${}::{}[]", ++number, type);
  }
  return sql + ")";
}

template <typename Casts>
int TextColumns(const Casts& casts) {
  return static_cast<int>(
      std::count_if(std::begin(casts), std::end(casts), [](auto t) { return t != "bytea"; }));
}

std::string Sql(Form form, const Size& size) {
  const auto sessions = static_cast<std::size_t>(size.sessions);
  const auto messages = static_cast<std::size_t>(size.messages);
  std::string won, messages_sql, requests_sql;
  if (form == Form::kUnnest) {
    int number = 0;
    won = Unnest(number, kSessionCasts);
    messages_sql = Unnest(number, kMessageCasts);
    requests_sql = Unnest(number, kRequestCasts);
  } else {
    Numbering numbering(size.sessions * TextColumns(kSessionCasts) +
                        size.messages * TextColumns(kMessageCasts) +
                        (size.requests ? size.sessions * TextColumns(kRequestCasts) : 0));
    const bool join = form == Form::kJoin;
    won = Rows(numbering, sessions, kSessionCasts, false);
    messages_sql = Rows(numbering, messages, kMessageCasts, join);
    if (size.requests) requests_sql = Rows(numbering, sessions, kRequestCasts, join);
    if (join) {
      messages_sql = fmt::format(
          "SELECT v.* FROM ({}) v (tenant, session, c, d, e, f, g, h, i, j) "
          "JOIN won USING (tenant, session)",
          messages_sql);
      requests_sql = fmt::format(
          "SELECT v.* FROM ({}) v (tenant, session, c, d, e, f) "
          "JOIN won USING (tenant, session)",
          requests_sql);
    }
  }
  std::string sql = fmt::format(
      "WITH won AS (INSERT INTO {} {}{} {}), m AS (INSERT INTO {} {})", kSessionTarget, won,
      kOnConflict, form == Form::kJoin ? "s.tenant, s.session" : "s.previous_revision AS p",
      kMessageTarget, messages_sql);
  if (size.requests) sql += fmt::format(", r AS (INSERT INTO {} {})", kRequestTarget, requests_sql);
  if (form == Form::kJoin) return sql + " SELECT tenant, session FROM won";
  return sql + fmt::format(
                   " SELECT 1 / (CASE WHEN count(*) FILTER (WHERE p >= 0) = {} THEN 1 "
                   "ELSE 0 END) FROM won",
                   size.sessions);
}

// Batches of one variant and size: the same sessions again and again, revisions rising.
class Source {
 public:
  Source(std::string prefix, Size size) : prefix_(std::move(prefix)), size_(size) {}

  Batch Next() {
    Batch batch;
    const int per_session = size_.messages / size_.sessions;
    for (int s = 0; s < size_.sessions; ++s) {
      const Value tenant{Value::kText, 0, "default"};
      const Value session{Value::kText, 0, fmt::format("{}-{:04}", prefix_, s)};
      const std::int64_t generation = 0x1234567812345678 + s;
      auto number = [](std::int64_t n) { return Value{Value::kInt, n, {}}; };
      batch.sessions.push_back({tenant, session, number(generation), number(revision_ + 1),
                                number(-revision_), number(revision_ * per_session + 1), number(1),
                                number(1), Value{Value::kBytes, 0, ""}, number(revision_),
                                number(0), number(revision_ * 25), number(1), number(2), number(0),
                                number(0x7234567812345678),
                                revision_ == 0 ? Value{Value::kBytes, 0, std::string(60, 'c')}
                                               : Value{Value::kNull, 0, {}}});
      for (int m = 0; m < per_session; ++m) {
        batch.messages.push_back(
            {tenant, session, number(generation), number(revision_ * per_session + m + 1),
             Value{Value::kNull, 0, {}}, number(1), number(25), number(1795300000000000),
             Value{Value::kBytes, 0, ""}, Value{Value::kBytes, 0, std::string(200, 'b')}});
      }
      if (size_.requests) {
        batch.requests.push_back(
            {tenant, session, Value{Value::kText, 0, fmt::format("request-{}", revision_)},
             number(1795300000000000), Value{Value::kBytes, 0, std::string(32, 'f')},
             Value{Value::kBytes, 0, std::string(60, 'r')}});
      }
    }
    ++revision_;
    return batch;
  }

 private:
  std::string prefix_;
  Size size_;
  std::int64_t revision_ = 0;
};

template <typename Do>
void ForEach(const Batch& batch, const Do& value) {
  for (const auto* rows : {&batch.sessions, &batch.messages, &batch.requests}) {
    for (const Row& row : *rows) {
      for (std::size_t c = 0; c < row.size(); ++c) {
        const auto type = rows == &batch.sessions   ? kSessionCasts[c]
                          : rows == &batch.messages ? kMessageCasts[c]
                                                    : kRequestCasts[c];
        value(type, row[c]);
      }
    }
  }
}

std::string BigEndian(std::int64_t number, int bytes) {
  std::string out;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    out += static_cast<char>(number >> shift);
  }
  return out;
}

std::string Binary(std::string_view type, const Value& value) {
  if (value.kind != Value::kInt) return value.bytes;
  return BigEndian(value.number, type == "boolean" ? 1 : type == "smallint" ? 2 : 8);
}

Oid TypeOid(std::string_view type) {
  return type == "text"       ? 25U
         : type == "bytea"    ? 17U
         : type == "boolean"  ? 16U
         : type == "smallint" ? 21U
                              : 20U;
}

void Check(PGresult* result) {
  const ExecStatusType status = PQresultStatus(result);
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
    std::fprintf(stderr, "%s\n", PQresultErrorMessage(result));
    std::exit(1);
  }
  PQclear(result);
}

class Runner {
 public:
  virtual ~Runner() = default;
  virtual void Run(const Batch& batch) = 0;
};

// Binary parameters, one by one.
class PqRunner : public Runner {
 public:
  PqRunner(PGconn* connection, std::string name, std::string sql, bool prepare)
      : connection_(connection), name_(std::move(name)), sql_(std::move(sql)), prepare_(prepare) {}

  void Run(const Batch& batch) override {
    struct Parameter {
      std::string bytes;
      Oid type;
      bool null;
    };
    std::vector<Parameter> text, bytes;
    ForEach(batch, [&](std::string_view type, const Value& value) {
      (type == "bytea" ? bytes : text)
          .push_back({Binary(type, value), TypeOid(type), value.kind == Value::kNull});
    });
    text.insert(text.end(), std::make_move_iterator(bytes.begin()),
                std::make_move_iterator(bytes.end()));
    std::vector<const char*> values;
    std::vector<int> lengths;
    std::vector<Oid> types;
    for (const Parameter& p : text) {
      values.push_back(p.null ? nullptr : p.bytes.data());
      lengths.push_back(static_cast<int>(p.bytes.size()));
      types.push_back(p.type);
    }
    Execute(values, lengths, types);
  }

 protected:
  void Execute(const std::vector<const char*>& values, const std::vector<int>& lengths,
               const std::vector<Oid>& types) {
    const int n = static_cast<int>(values.size());
    const std::vector<int> formats(values.size(), 1);
    if (!prepare_) {
      Check(PQexecParams(connection_, sql_.c_str(), n, types.data(), values.data(), lengths.data(),
                         formats.data(), 1));
      return;
    }
    if (!prepared_) Check(PQprepare(connection_, name_.c_str(), sql_.c_str(), n, types.data()));
    prepared_ = true;
    Check(PQexecPrepared(connection_, name_.c_str(), n, values.data(), lengths.data(),
                         formats.data(), 1));
  }

 private:
  PGconn* connection_;
  std::string name_, sql_;
  bool prepare_, prepared_ = false;
};

// One binary array for each column.
class UnnestRunner : public PqRunner {
 public:
  using PqRunner::PqRunner;

  void Run(const Batch& batch) override {
    std::vector<std::string> arrays;
    auto add = [&](const std::vector<Row>& rows, const auto& casts) {
      for (std::size_t c = 0; c < std::size(casts) && !rows.empty(); ++c) {
        std::string array = BigEndian(1, 4) + BigEndian(1, 4) + BigEndian(TypeOid(casts[c]), 4) +
                            BigEndian(static_cast<std::int64_t>(rows.size()), 4) + BigEndian(1, 4);
        for (const Row& row : rows) {
          const std::string bytes = Binary(casts[c], row[c]);
          const bool null = row[c].kind == Value::kNull;
          array += BigEndian(null ? -1 : static_cast<std::int64_t>(bytes.size()), 4) + bytes;
        }
        arrays.push_back(std::move(array));
      }
    };
    add(batch.sessions, kSessionCasts);
    add(batch.messages, kMessageCasts);
    add(batch.requests, kRequestCasts);
    std::vector<const char*> values;
    std::vector<int> lengths;
    for (const std::string& array : arrays) {
      values.push_back(array.data());
      lengths.push_back(static_cast<int>(array.size()));
    }
    Execute(values, lengths, std::vector<Oid>(values.size(), 0));
  }
};

class PqxxRunner : public Runner {
 public:
  PqxxRunner(pqxx::connection& connection, std::string name, std::string sql, bool prepare)
      : connection_(connection), name_(std::move(name)), sql_(std::move(sql)), prepare_(prepare) {
    if (prepare_) connection_.prepare(name_, sql_);
  }

  void Run(const Batch& batch) override {
    std::vector<std::string> strings;
    std::vector<bool> nulls;
    std::vector<pqxx::binarystring> bytes;
    ForEach(batch, [&](std::string_view type, const Value& value) {
      if (type == "bytea") {
        bytes.emplace_back(value.bytes);  // A range has no NULL; '' stands for it.
      } else {
        nulls.push_back(value.kind == Value::kNull);
        strings.push_back(value.kind == Value::kInt ? std::to_string(value.number) : value.bytes);
      }
    });
    std::vector<const char*> text;
    text.reserve(strings.size());
    for (std::size_t i = 0; i < strings.size(); ++i) {
      text.push_back(nulls[i] ? nullptr : strings[i].c_str());
    }
    pqxx::nontransaction transaction(connection_);
    const auto text_range = pqxx::prepare::make_dynamic_params(text);
    const auto byte_range = pqxx::prepare::make_dynamic_params(bytes);
    if (prepare_) {
      transaction.exec_prepared(name_, text_range, byte_range);
    } else {
      transaction.exec_params(sql_, text_range, byte_range);
    }
  }

 private:
  pqxx::connection& connection_;
  std::string name_, sql_;
  bool prepare_;
};

constexpr const char* kSchema = R"(
DROP SCHEMA IF EXISTS memoryd_spike CASCADE;
CREATE SCHEMA memoryd_spike;
SET search_path = memoryd_spike;
CREATE TABLE memoryd_sessions (
  tenant text COLLATE "C" NOT NULL, session text COLLATE "C" NOT NULL, generation bigint NOT NULL,
  revision bigint NOT NULL, previous_revision bigint NOT NULL, next_position bigint NOT NULL,
  floor_position bigint NOT NULL, watermark bigint NOT NULL, pinned bytea NOT NULL,
  active_count bigint NOT NULL, archived_count bigint NOT NULL, active_tokens bigint NOT NULL,
  create_us bigint NOT NULL, update_us bigint NOT NULL, deleted boolean NOT NULL,
  commit_tag bigint NOT NULL, config bytea, PRIMARY KEY (tenant, session)) WITH (fillfactor = 50);
CREATE TABLE memoryd_messages (
  tenant text COLLATE "C" NOT NULL, session text COLLATE "C" NOT NULL, generation bigint NOT NULL,
  position bigint NOT NULL, message_id text COLLATE "C", role smallint NOT NULL,
  token_count bigint NOT NULL, ingest_us bigint NOT NULL, tool_ids bytea NOT NULL,
  body bytea NOT NULL, PRIMARY KEY (tenant, session, generation, position));
CREATE UNIQUE INDEX ON memoryd_messages (tenant, session, generation, message_id)
  WHERE message_id IS NOT NULL;
CREATE TABLE memoryd_requests (
  tenant text COLLATE "C" NOT NULL, session text COLLATE "C" NOT NULL,
  request_id text COLLATE "C" NOT NULL, create_us bigint NOT NULL, fingerprint bytea NOT NULL,
  reply bytea NOT NULL, PRIMARY KEY (tenant, session, request_id));
)";

struct Variant {
  std::string name;
  std::function<std::unique_ptr<Runner>(const Size&, std::string statement)> make;
};

struct Cell {
  Source source;
  std::unique_ptr<Runner> runner;
  std::vector<double> us = {};
};

std::vector<Variant> Variants(PGconn* pq, pqxx::connection& pqxx_connection) {
  auto pq_variant = [pq](Form form, bool prepare) {
    return [=](const Size& size, std::string statement) -> std::unique_ptr<Runner> {
      const std::string sql = Sql(form, size);
      if (form == Form::kUnnest) {
        return std::make_unique<UnnestRunner>(pq, std::move(statement), sql, prepare);
      }
      return std::make_unique<PqRunner>(pq, std::move(statement), sql, prepare);
    };
  };
  auto pqxx_variant = [&pqxx_connection](bool prepare) {
    return [&pqxx_connection, prepare](const Size& size,
                                       std::string statement) -> std::unique_ptr<Runner> {
      return std::make_unique<PqxxRunner>(pqxx_connection, std::move(statement),
                                          Sql(Form::kAssert, size), prepare);
    };
  };
  return {
      {"(b) pqxx params", pqxx_variant(false)},
      {"(b) pqxx prepared", pqxx_variant(true)},
      {"(b) pq params", pq_variant(Form::kAssert, false)},
      {"(b) pq prepared", pq_variant(Form::kAssert, true)},
      {"(a) pq prepared", pq_variant(Form::kJoin, true)},
      {"unnest prepared", pq_variant(Form::kUnnest, true)},
  };
}

std::vector<Size> Sizes() {
  std::vector<Size> sizes;
  for (const bool requests : {false, true}) {
    for (const int n : {1, 4, 16, 64, 256}) sizes.push_back({n, n, requests});
    sizes.push_back({16, 64, requests});
  }
  return sizes;
}

void Measure(int rounds, std::vector<std::vector<Cell>>& cells) {
  // The server plans a prepared statement anew for its first five runs.
  constexpr int kWarmup = 6;
  for (int round = 0; round < rounds + kWarmup; ++round) {
    for (auto& row : cells) {
      for (Cell& cell : row) {
        const Batch batch = cell.source.Next();
        const auto start = std::chrono::steady_clock::now();
        cell.runner->Run(batch);
        const std::chrono::duration<double, std::micro> took =
            std::chrono::steady_clock::now() - start;
        if (round >= kWarmup) cell.us.push_back(took.count());
      }
    }
  }
}

// Medians; sorts the times of `cells`.
void PrintTable(const std::vector<Variant>& variants, const std::vector<Size>& sizes,
                std::vector<std::vector<Cell>>& cells) {
  fmt::print("| sessions x rows, request_id |");
  for (const Variant& variant : variants) fmt::print(" {} |", variant.name);
  fmt::print("\n|---|");
  for (std::size_t v = 0; v < variants.size(); ++v) fmt::print("---|");
  fmt::print("\n");
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    fmt::print("| {} x {}{} |", sizes[s].sessions, sizes[s].messages,
               sizes[s].requests ? ", yes" : "");
    for (Cell& cell : cells[s]) {
      std::nth_element(cell.us.begin(), cell.us.begin() + static_cast<long>(cell.us.size() / 2),
                       cell.us.end());
      fmt::print(" {:.0f} |", cell.us[cell.us.size() / 2]);
    }
    fmt::print("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: commit_spike URL [rounds]\n", stderr);
    return 2;
  }
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 100;
  PGconn* const pq = PQconnectdb(argv[1]);
  if (PQstatus(pq) != CONNECTION_OK) {
    std::fprintf(stderr, "%s", PQerrorMessage(pq));
    return 1;
  }
  PQsetNoticeProcessor(
      pq, [](void*, const char*) {}, nullptr);
  Check(PQexec(pq, kSchema));
  pqxx::connection pqxx_connection(argv[1]);
  pqxx::nontransaction(pqxx_connection).exec("SET search_path = memoryd_spike");

  const std::vector<Variant> variants = Variants(pq, pqxx_connection);
  const std::vector<Size> sizes = Sizes();
  std::vector<std::vector<Cell>> cells(sizes.size());
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    for (std::size_t v = 0; v < variants.size(); ++v) {
      const std::string name = fmt::format("v{}-s{}", v, s);
      cells[s].push_back({Source(name, sizes[s]), variants[v].make(sizes[s], name)});
    }
  }
  Measure(rounds, cells);
  PrintTable(variants, sizes, cells);
  Check(PQexec(pq, "DROP SCHEMA memoryd_spike CASCADE"));
  PQfinish(pq);
  return 0;
}
