#include "core/storage/postgres/batch_statement.h"

#include <fmt/format.h>

#include <bit>
#include <concepts>
#include <cstdint>
#include <iterator>

#include "core/storage/tool_ids.h"

namespace memoryd {
namespace {

// OIDs of PostgreSQL's built-in types; they are part of its protocol and never change.
enum Type : unsigned {
  kBool = 16,
  kBytea = 17,
  kInt8 = 20,
  kInt2 = 21,
  kText = 25,
  kInt8Array = 1016,
};

constexpr unsigned ArrayOf(unsigned type) {
  switch (type) {
    case kBytea:
      return 1001;
    case kInt2:
      return 1005;
    case kText:
      return 1009;
    default:
      return kInt8Array;
  }
}

constexpr std::size_t kSessionColumns = 17;
constexpr std::size_t kMessageColumns = 10;
constexpr std::size_t kRequestColumns = 6;
constexpr std::size_t kGarbageColumns = 5;
constexpr std::size_t kEraseParameters = 5;

constexpr std::string_view kInsertSessions =
    "WITH won AS (INSERT INTO memoryd_sessions AS s (tenant, session, generation, revision, "
    "previous_revision, next_position, floor_position, watermark, pinned, active_count, "
    "archived_count, active_tokens, create_us, update_us, deleted, commit_tag, config) ";
// coalesce: a NULL configuration is one that stays as it is.
constexpr std::string_view kUpdateSessions =
    " ON CONFLICT (tenant, session) DO UPDATE SET generation = excluded.generation, "
    "revision = excluded.revision, previous_revision = -excluded.previous_revision, "
    "next_position = excluded.next_position, floor_position = excluded.floor_position, "
    "watermark = excluded.watermark, pinned = excluded.pinned, "
    "active_count = excluded.active_count, archived_count = excluded.archived_count, "
    "active_tokens = excluded.active_tokens, create_us = excluded.create_us, "
    "update_us = excluded.update_us, deleted = excluded.deleted, "
    "commit_tag = excluded.commit_tag, config = coalesce(excluded.config, s.config) "
    "WHERE s.revision = -excluded.previous_revision RETURNING s.previous_revision)";
constexpr std::string_view kInsertMessages =
    ", m AS (INSERT INTO memoryd_messages (tenant, session, generation, position, message_id, "
    "role, token_count, ingest_us, tool_ids, body) ";
constexpr std::string_view kInsertRequests =
    ", r AS (INSERT INTO memoryd_requests (tenant, session, request_id, fingerprint, reply, "
    "create_us) ";
constexpr std::string_view kInsertGarbage =
    ", g AS (INSERT INTO memoryd_garbage AS g (tenant, session, generation, begin_position, "
    "end_position) ";
constexpr std::string_view kUpdateGarbage =
    " ON CONFLICT (tenant, session, generation, end_position) DO UPDATE SET "
    "begin_position = least(g.begin_position, excluded.begin_position))";
constexpr std::string_view kErase =
    "(tenant = ${} AND session = ${} AND generation = ${} AND position >= ${} AND position < ${})";

void AppendValues(std::string& sql, std::size_t& number, std::size_t rows, std::size_t columns) {
  sql += "VALUES ";
  for (std::size_t row = 0; row < rows; ++row) {
    sql += row == 0 ? "(" : ",(";
    for (std::size_t column = 0; column < columns; ++column) {
      fmt::format_to(std::back_inserter(sql), "{}${}", column == 0 ? "" : ",", ++number);
    }
    sql += ')';
  }
}

void AppendUnnest(std::string& sql, std::size_t& number, std::size_t columns) {
  sql += "SELECT * FROM unnest(";
  for (std::size_t column = 0; column < columns; ++column) {
    fmt::format_to(std::back_inserter(sql), "{}${}", column == 0 ? "" : ",", ++number);
  }
  sql += ')';
}

template <std::unsigned_integral Number>
void AppendBigEndian(std::string& bytes, Number number) {
  for (int shift = static_cast<int>(sizeof(Number) * 8) - 8; shift >= 0; shift -= 8) {
    bytes += static_cast<char>(static_cast<unsigned char>(number >> shift));
  }
}

std::string ArrayHeader(unsigned type, std::size_t size) {
  std::string header;
  AppendBigEndian(header, std::uint32_t{size == 0 ? 0U : 1U});  // Dimensions.
  AppendBigEndian(header, std::uint32_t{1});                    // May hold NULLs.
  AppendBigEndian(header, std::uint32_t{type});
  if (size > 0) {
    AppendBigEndian(header, static_cast<std::uint32_t>(size));
    AppendBigEndian(header, std::uint32_t{1});  // Lower bound.
  }
  return header;
}

std::string PinnedArray(const std::vector<std::int64_t>& pinned) {
  std::string array = ArrayHeader(kInt8, pinned.size());
  for (const std::int64_t position : pinned) {
    AppendBigEndian(array, std::uint32_t{8});
    AppendBigEndian(array, static_cast<std::uint64_t>(position));
  }
  return array;
}

template <typename Sink>
void WriteSession(const SessionChange& change, Sink& sink) {
  const SessionRow& row = change.row;
  sink.Text(change.key.tenant);
  sink.Text(change.key.session);
  sink.Int8(std::bit_cast<std::int64_t>(row.generation));
  sink.Int8(row.revision);
  sink.Int8(-change.expected_revision);
  sink.Int8(row.next_position);
  sink.Int8(row.floor);
  sink.Int8(row.watermark);
  sink.Owned(PinnedArray(row.pinned), kInt8Array);
  sink.Int8(row.active_count);
  sink.Int8(row.archived_count);
  sink.Int8(row.active_tokens);
  sink.Int8(row.create_us);
  sink.Int8(row.update_us);
  sink.Bool(row.deleted);
  sink.Int8(std::bit_cast<std::int64_t>(row.commit_tag));
  if (change.write_config) {
    sink.Bytes(row.config);
  } else {
    sink.Null(kBytea);
  }
}

template <typename Sink>
void WriteMessage(const SessionChange& change, const Message& message, Sink& sink) {
  sink.Text(change.key.tenant);
  sink.Text(change.key.session);
  sink.Int8(std::bit_cast<std::int64_t>(change.row.generation));
  sink.Int8(message.position);
  if (message.message_id.empty()) {
    sink.Null(kText);
  } else {
    sink.Text(message.message_id);
  }
  sink.Int2(static_cast<std::int16_t>(message.role));
  sink.Int8(message.token_count);
  sink.Int8(message.ingest_us);
  sink.Owned(EncodeToolIds(message), kBytea);
  sink.Bytes(message.body);
}

template <typename Sink>
void WriteRequest(const SessionChange& change, const RequestRecord& request, Sink& sink) {
  sink.Text(change.key.tenant);
  sink.Text(change.key.session);
  sink.Text(request.request_id);
  sink.Bytes(request.fingerprint);
  sink.Bytes(request.reply);
  sink.Int8(request.create_us);
}

}  // namespace

// Each value is a parameter.
class BatchStatement::Rows {
 public:
  explicit Rows(BatchStatement& statement) : statement_(statement) {}

  void Text(const std::string& text) { statement_.Add(text.data(), text.size(), kText); }
  void Bytes(const std::string& bytes) { statement_.Add(bytes.data(), bytes.size(), kBytea); }
  void Int8(std::int64_t number) { Number(static_cast<std::uint64_t>(number), 8, kInt8); }
  void Int2(std::int16_t number) { Number(static_cast<std::uint16_t>(number), 2, kInt2); }
  void Bool(bool value) { Number(value ? 1 : 0, 1, kBool); }
  void Null(unsigned type) { statement_.Add(nullptr, 0, type); }
  void Owned(std::string bytes, unsigned type) {
    const std::string& kept = statement_.strings_.emplace_back(std::move(bytes));
    statement_.Add(kept.data(), kept.size(), type);
  }

 private:
  void Number(std::uint64_t number, std::size_t size, unsigned type) {
    std::array<char, 8>& bytes = statement_.numbers_.emplace_back();
    for (std::size_t i = 0; i < size; ++i) {
      bytes[i] = static_cast<char>(static_cast<unsigned char>(number >> (8 * (size - 1 - i))));
    }
    statement_.Add(bytes.data(), size, type);
  }

  BatchStatement& statement_;
};

// Values go round the columns; each column becomes one array parameter.
class BatchStatement::Columns {
 public:
  Columns(std::size_t columns, std::size_t rows) : rows_(rows), columns_(columns) {}

  void Text(const std::string& text) { Next(kText, text); }
  void Bytes(const std::string& bytes) { Next(kBytea, bytes); }
  void Int8(std::int64_t number) { Number(static_cast<std::uint64_t>(number), kInt8); }
  void Int2(std::int16_t number) { Number(static_cast<std::uint16_t>(number), kInt2); }
  void Owned(const std::string& bytes, unsigned type) { Next(type, bytes); }
  void Null(unsigned type) { AppendBigEndian(Column(type), ~std::uint32_t{0}); }

  void AddTo(BatchStatement& statement) {
    for (auto& [type, bytes] : columns_) {
      if (!bytes.empty()) Rows(statement).Owned(std::move(bytes), ArrayOf(type));
    }
  }

 private:
  std::string& Column(unsigned type) {
    auto& [column_type, bytes] = columns_[next_];
    next_ = (next_ + 1) % columns_.size();
    if (bytes.empty()) {
      column_type = type;
      bytes = ArrayHeader(type, rows_);
    }
    return bytes;
  }
  void Next(unsigned type, const std::string& value) {
    std::string& bytes = Column(type);
    AppendBigEndian(bytes, static_cast<std::uint32_t>(value.size()));
    bytes += value;
  }
  template <std::unsigned_integral Integer>
  void Number(Integer number, unsigned type) {
    std::string& bytes = Column(type);
    AppendBigEndian(bytes, std::uint32_t{sizeof(Integer)});
    AppendBigEndian(bytes, number);
  }

  const std::size_t rows_;
  std::vector<std::pair<unsigned, std::string>> columns_;  // Type and binary array.
  std::size_t next_ = 0;
};

std::size_t BatchStatement::ParameterCount(const SessionChange& change) {
  return kSessionColumns + change.messages.size() * kMessageColumns +
         change.requests.size() * kRequestColumns + (change.garbage ? kGarbageColumns : 0) +
         (change.erase ? kEraseParameters : 0);
}

bool BatchStatement::NeedsArrays(const SessionChange& change) {
  // Beyond this many rows planning a list of rows costs more than the arrays do.
  constexpr std::size_t kMaxListed = 128;
  return change.messages.size() > kMaxListed || ParameterCount(change) > kMaxParameters;
}

BatchStatement::BatchStatement(std::span<const SessionChange* const> changes) {
  std::size_t parameters = 0;
  for (const SessionChange* change : changes) {
    ++shape_.sessions;
    shape_.messages += change->messages.size();
    shape_.requests += change->requests.size();
    shape_.garbage += change->garbage ? 1 : 0;
    shape_.erased += change->erase ? 1 : 0;
    parameters += ParameterCount(*change);
  }
  if (changes.size() == 1 && NeedsArrays(*changes.front())) {
    // Whatever the number of rows, the text is the same, and so is the shape.
    shape_.arrays = true;
    shape_.messages = changes.front()->messages.empty() ? 0 : 1;
    shape_.requests = changes.front()->requests.empty() ? 0 : 1;
    parameters =
        kSessionColumns + kMessageColumns + kRequestColumns + kGarbageColumns + kEraseParameters;
  }
  values_.reserve(parameters);
  lengths_.reserve(parameters);
  types_.reserve(parameters);

  Rows rows(*this);
  for (const SessionChange* change : changes) WriteSession(*change, rows);
  for (const SessionChange* change : changes) {
    if (!change->erase) continue;
    rows.Text(change->key.tenant);
    rows.Text(change->key.session);
    rows.Int8(std::bit_cast<std::int64_t>(change->row.generation));
    rows.Int8(change->erase->begin);
    rows.Int8(change->erase->end);
  }
  if (shape_.arrays) {
    const SessionChange& change = *changes.front();
    Columns messages(kMessageColumns, change.messages.size());
    for (const MessagePtr& message : change.messages) WriteMessage(change, *message, messages);
    messages.AddTo(*this);
    Columns requests(kRequestColumns, change.requests.size());
    for (const RequestRecord& request : change.requests) WriteRequest(change, request, requests);
    requests.AddTo(*this);
  } else {
    for (const SessionChange* change : changes) {
      for (const MessagePtr& message : change->messages) WriteMessage(*change, *message, rows);
    }
    for (const SessionChange* change : changes) {
      for (const RequestRecord& request : change->requests) WriteRequest(*change, request, rows);
    }
  }
  for (const SessionChange* change : changes) {
    if (!change->garbage) continue;
    rows.Text(change->key.tenant);
    rows.Text(change->key.session);
    rows.Int8(std::bit_cast<std::int64_t>(change->garbage->generation));
    rows.Int8(change->garbage->begin);
    rows.Int8(change->garbage->end);
  }
}

void BatchStatement::Add(const char* bytes, std::size_t size, unsigned type) {
  values_.push_back(bytes);
  lengths_.push_back(static_cast<int>(size));
  types_.push_back(type);
}

std::string BatchStatement::Sql() const {
  std::string sql(kInsertSessions);
  std::size_t number = 0;
  AppendValues(sql, number, shape_.sessions, kSessionColumns);
  sql += kUpdateSessions;
  if (shape_.erased > 0) {
    sql += ", e AS (DELETE FROM memoryd_messages WHERE ";
    for (std::size_t i = 0; i < shape_.erased; ++i) {
      if (i > 0) sql += " OR ";
      fmt::format_to(std::back_inserter(sql), kErase, number + 1, number + 2, number + 3,
                     number + 4, number + 5);
      number += kEraseParameters;
    }
    sql += ')';
  }
  if (shape_.messages > 0) {
    sql += kInsertMessages;
    shape_.arrays ? AppendUnnest(sql, number, kMessageColumns)
                  : AppendValues(sql, number, shape_.messages, kMessageColumns);
    sql += ')';
  }
  if (shape_.requests > 0) {
    sql += kInsertRequests;
    shape_.arrays ? AppendUnnest(sql, number, kRequestColumns)
                  : AppendValues(sql, number, shape_.requests, kRequestColumns);
    sql += ')';
  }
  if (shape_.garbage > 0) {
    sql += kInsertGarbage;
    AppendValues(sql, number, shape_.garbage, kGarbageColumns);
    sql += kUpdateGarbage;
  }
  fmt::format_to(std::back_inserter(sql),
                 " SELECT 1 / (CASE WHEN count(*) FILTER (WHERE previous_revision >= 0) = {} "
                 "THEN 1 ELSE 0 END) FROM won",
                 shape_.sessions);
  return sql;
}

}  // namespace memoryd
