#include "core/storage/postgres/batch_statement.h"

#include <fmt/format.h>

#include <bit>
#include <concepts>
#include <cstdint>
#include <iterator>
#include <utility>

#include "core/storage/checksum.h"
#include "core/storage/job_order.h"
#include "core/storage/postgres/job_queries.h"
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

constexpr std::size_t kSessionColumns = 28;
constexpr std::size_t kMessageColumns = 11;
constexpr std::size_t kRequestColumns = 6;
constexpr std::size_t kGarbageColumns = 5;
constexpr std::size_t kEraseParameters = 5;
constexpr std::size_t kReplacedColumns = 9;
constexpr std::size_t kBlockColumns = 10;
constexpr std::size_t kRemovedColumns = 4;
constexpr std::size_t kJobColumns = 19;
constexpr std::size_t kEndedColumns = 11;
constexpr std::size_t kCancelledColumns = 4;
constexpr std::size_t kJobKeyColumns = 5;

constexpr std::string_view kInsertSessions =
    "WITH won AS (INSERT INTO memoryd_sessions AS s (tenant, session, generation, revision, "
    "previous_revision, next_position, floor_position, watermark, pinned, active_count, "
    "archived_count, active_tokens, content_generation, next_content, content_count, "
    "message_bytes, content_bytes, edit_revision, block_generation, create_us, update_us, deleted, "
    "commit_tag, opening, config, subject, expire_us, drop_us) ";
// coalesce: what is NULL stays as it is.
constexpr std::string_view kUpdateSessions =
    " ON CONFLICT (tenant, session) DO UPDATE SET generation = excluded.generation, "
    "revision = excluded.revision, previous_revision = -excluded.previous_revision, "
    "next_position = excluded.next_position, floor_position = excluded.floor_position, "
    "watermark = excluded.watermark, pinned = excluded.pinned, "
    "active_count = excluded.active_count, archived_count = excluded.archived_count, "
    "active_tokens = excluded.active_tokens, "
    "content_generation = excluded.content_generation, next_content = excluded.next_content, "
    "content_count = excluded.content_count, message_bytes = excluded.message_bytes, "
    "content_bytes = excluded.content_bytes, edit_revision = excluded.edit_revision, "
    "block_generation = excluded.block_generation, "
    "create_us = excluded.create_us, update_us = excluded.update_us, deleted = excluded.deleted, "
    "commit_tag = excluded.commit_tag, opening = excluded.opening, config = "
    "coalesce(excluded.config, s.config), "
    "subject = coalesce(excluded.subject, s.subject), "
    "expire_us = coalesce(excluded.expire_us, s.expire_us), "
    "drop_us = coalesce(excluded.drop_us, s.drop_us) "
    "WHERE s.revision = -excluded.previous_revision RETURNING s.previous_revision)";
constexpr std::string_view kInsertMessages =
    ", m AS (INSERT INTO memoryd_messages (tenant, session, generation, position, message_id, "
    "role, token_count, ingest_us, tool_ids, body, checksum) ";
constexpr std::string_view kInsertRequests =
    ", r AS (INSERT INTO memoryd_requests (tenant, session, request_id, fingerprint, reply, "
    "create_us) ";
constexpr std::string_view kInsertGarbage =
    ", g AS (INSERT INTO memoryd_garbage AS g (tenant, session, generation, begin_position, "
    "end_position) ";
constexpr std::string_view kUpdateGarbage =
    " ON CONFLICT (tenant, session, generation, end_position) DO UPDATE SET "
    "begin_position = least(g.begin_position, excluded.begin_position))";
constexpr std::string_view kEraseMessages = ", e AS (DELETE FROM memoryd_messages WHERE ";
constexpr std::string_view kErase =
    "(tenant = ${} AND session = ${} AND generation = ${} AND position >= ${} AND position < ${})";
constexpr std::string_view kReplaceMessages =
    ", u AS (UPDATE memoryd_messages m SET role = k.role, token_count = k.token_count, "
    "tool_ids = k.tool_ids, body = k.body, checksum = k.checksum FROM unnest({}) AS k (tenant, "
    "session, generation, "
    "position, role, token_count, tool_ids, body, checksum) WHERE m.tenant = k.tenant "
    "AND m.session = k.session AND m.generation = k.generation AND m.position = k.position)";
constexpr std::string_view kInsertBlocks =
    ", b AS (INSERT INTO memoryd_blocks (tenant, session, generation, name, done, next, "
    "entry_generation, next_entry, update_us, state) ";
constexpr std::string_view kUpdateBlocks =
    " ON CONFLICT (tenant, session, generation, name) DO UPDATE SET done = excluded.done, "
    "next = excluded.next, entry_generation = excluded.entry_generation, "
    "next_entry = excluded.next_entry, update_us = excluded.update_us, state = excluded.state)";
constexpr std::string_view kRemoveBlocks =
    ", x AS (DELETE FROM memoryd_blocks b USING unnest({}) AS k (tenant, session, generation, "
    "name) "
    "WHERE b.tenant = k.tenant AND b.session = k.session AND b.generation = k.generation "
    "AND b.name = k.name)";
constexpr std::string_view kInsertJobs =
    ", j AS (INSERT INTO memoryd_jobs (tenant, session, generation, block, number, "
    "message_generation, begin_position, end_position, state, attempts, create_us, update_us, "
    "last_error, calls, prompt_tokens, completion_tokens, ready, lease, lease_until, due) ";
// The last two columns, from the duration of the lease: 0 for none.
constexpr std::string_view kLeaseAndDue =
    "coalesce(" MEMORYD_NOW_US " + nullif({}, 0), 0), " MEMORYD_NOW_US;
constexpr std::string_view kEndJobs =
    ", d AS (UPDATE memoryd_jobs j SET state = k.state, update_us = k.update_us, lease = 0, "
    "lease_until = 0, last_error = CASE WHEN k.error = '' THEN j.last_error ELSE k.error END, "
    "calls = j.calls + k.calls, prompt_tokens = j.prompt_tokens + k.prompt_tokens, "
    "completion_tokens = j.completion_tokens + k.completion_tokens FROM unnest({}) "
    "AS k (tenant, session, generation, block, number, state, update_us, error, calls, "
    "prompt_tokens, completion_tokens) WHERE j.tenant = k.tenant AND j.session = k.session "
    "AND j.generation = k.generation AND j.block = k.block AND j.number = k.number "
    "AND j.state = 0)";
// 3 is JobState::kCancelled. What the statement inserts it does not see.
constexpr std::string_view kCancelJobs =
    ", c AS (UPDATE memoryd_jobs j SET state = 3, update_us = k.update_us, lease = 0, "
    "lease_until = 0 FROM unnest({}) AS k (tenant, session, generation, update_us) "
    "WHERE j.tenant = k.tenant AND j.session = k.session AND j.generation = k.generation "
    "AND j.state = 0";
// See job_order.h.
constexpr std::string_view kMarkJobs =
    ", f AS (UPDATE memoryd_jobs j SET ready = 1 FROM unnest({}) AS k (tenant, session, "
    "generation, "
    "block, number) WHERE j.tenant = k.tenant AND j.session = k.session "
    "AND j.generation = k.generation AND j.block = k.block AND j.number = k.number "
    "AND j.state = 0 AND j.ready = 0)";
// Of two updates of one row in a statement only one would be done, and none knows which.
constexpr std::string_view kButEndedJobs =
    " AND NOT EXISTS (SELECT FROM unnest({}) AS d (tenant, session, generation, block, number) "
    "WHERE d.tenant = j.tenant AND d.session = j.session AND d.generation = j.generation "
    "AND d.block = j.block AND d.number = j.number)";

void AppendValues(std::string& sql, std::size_t& number, std::size_t rows, std::size_t columns) {
  sql += "VALUES ";
  for (std::size_t row = 0; row < rows; ++row) {
    sql += row == 0 ? "(" : ",(";
    for (std::size_t column = 0; column < columns; ++column) {
      sql += column == 0 ? "$" : ",$";
      sql += std::to_string(++number);
    }
    sql += ')';
  }
}

// The next `columns` parameters, as a list.
std::string Parameters(std::size_t& number, std::size_t columns) {
  std::string list;
  for (std::size_t column = 0; column < columns; ++column) {
    fmt::format_to(std::back_inserter(list), "{}${}", column == 0 ? "" : ",", ++number);
  }
  return list;
}

void AppendUnnest(std::string& sql, std::size_t& number, std::size_t columns) {
  fmt::format_to(std::back_inserter(sql), "SELECT * FROM unnest({})", Parameters(number, columns));
}

void AppendJobValues(std::string& sql, std::size_t& number, std::size_t rows) {
  sql += "VALUES ";
  for (std::size_t row = 0; row < rows; ++row) {
    const std::string columns = Parameters(number, kJobColumns - 1);
    const std::string lease = fmt::format(kLeaseAndDue, Parameters(number, 1));
    fmt::format_to(std::back_inserter(sql), "{}({}, {})", row == 0 ? "" : ",", columns, lease);
  }
}

void AppendJobUnnest(std::string& sql, std::size_t& number) {
  std::string columns;
  for (std::size_t column = 1; column < kJobColumns; ++column) {
    fmt::format_to(std::back_inserter(columns), "{}v{}", column == 1 ? "" : ",", column);
  }
  const std::string lease = fmt::format("v{}", kJobColumns);
  fmt::format_to(std::back_inserter(sql), "SELECT {}, {} FROM unnest({}) AS v ({},{})", columns,
                 fmt::format(kLeaseAndDue, lease), Parameters(number, kJobColumns), columns, lease);
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
  sink.Int8(std::bit_cast<std::int64_t>(row.content_generation));
  sink.Int8(row.next_content);
  sink.Int8(row.content_count);
  sink.Int8(row.message_bytes);
  sink.Int8(row.content_bytes);
  sink.Int8(row.edit_revision);
  sink.Int8(std::bit_cast<std::int64_t>(row.block_generation));
  sink.Int8(row.create_us);
  sink.Int8(row.update_us);
  sink.Bool(row.deleted);
  sink.Int8(std::bit_cast<std::int64_t>(row.commit_tag));
  sink.Int8(row.opening);
  if (change.write_config) {
    sink.Bytes(row.config);
    sink.Text(row.subject);
  } else {
    sink.Null(kBytea);
    sink.Null(kText);
  }
  for (const auto& [written, value] : {std::pair(change.write_expire_us, row.expire_us),
                                       std::pair(change.write_drop_us, row.drop_us)}) {
    if (written) {
      sink.Int8(value);
    } else {
      sink.Null(kInt8);
    }
  }
}

// The last columns of a message: what may take another's place.
template <typename Sink>
void WriteBody(const Message& message, Sink& sink) {
  std::string tool_ids = EncodeToolIds(message);
  const std::int64_t checksum = ChecksumOf(message, tool_ids);
  sink.Owned(std::move(tool_ids), kBytea);
  sink.Bytes(message.body);
  sink.Int8(checksum);
}

template <typename Sink>
void WriteMessage(const SessionKey& key, std::uint64_t generation, const Message& message,
                  Sink& sink) {
  sink.Text(key.tenant);
  sink.Text(key.session);
  sink.Int8(std::bit_cast<std::int64_t>(generation));
  sink.Int8(message.position);
  if (message.ids->message_id.empty()) {
    sink.Null(kText);
  } else {
    sink.Text(message.ids->message_id);
  }
  sink.Int2(static_cast<std::int16_t>(message.role));
  sink.Int8(message.token_count);
  sink.Int8(message.ingest_us);
  WriteBody(message, sink);
}

template <typename Sink>
void WriteMessages(const SessionChange& change, Sink& sink) {
  for (const MessagePtr& message : change.messages) {
    WriteMessage(change.key, change.row.generation, *message, sink);
  }
  for (const ContentPtr& content : change.contents) {
    WriteMessage(change.key, change.row.content_generation, *content, sink);
  }
  for (const BlockEntry& entry : change.entries) {
    WriteMessage(change.key, entry.generation, *entry.row, sink);
  }
}

std::size_t ErasedRanges(const SessionChange& change) {
  return change.erase.size() + change.erased_entries.size();
}

std::size_t ReplacedRows(const SessionChange& change) {
  return change.replaced.size() + change.replaced_contents.size();
}

std::size_t MessageRows(const SessionChange& change) {
  return change.messages.size() + change.contents.size() + change.entries.size();
}

// The first three columns of what stands under a generation.
template <typename Sink>
void WriteGeneration(const SessionChange& change, std::uint64_t generation, Sink& sink) {
  sink.Text(change.key.tenant);
  sink.Text(change.key.session);
  sink.Int8(std::bit_cast<std::int64_t>(generation));
}

template <typename Sink>
void WriteReplaced(const SessionChange& change, std::uint64_t generation, const Message& message,
                   Sink& sink) {
  WriteGeneration(change, generation, sink);
  sink.Int8(message.position);
  sink.Int2(static_cast<std::int16_t>(message.role));
  sink.Int8(message.token_count);
  WriteBody(message, sink);
}

template <typename Sink>
void WriteBlock(const SessionChange& change, const BlockState& block, Sink& sink) {
  WriteGeneration(change, change.row.block_generation, sink);
  sink.Text(block.name);
  sink.Int8(block.done);
  sink.Int8(block.next);
  sink.Int8(std::bit_cast<std::int64_t>(block.entry_generation));
  sink.Int8(block.next_entry);
  sink.Int8(block.update_us);
  sink.Bytes(block.state);
}

template <typename Sink>
void WriteJob(const SessionChange& change, const Job& job, Sink& sink) {
  WriteGeneration(change, change.row.block_generation, sink);
  sink.Text(job.key.block);
  sink.Int8(job.key.number);
  sink.Int8(std::bit_cast<std::int64_t>(job.message_generation));
  sink.Int8(job.begin);
  sink.Int8(job.end);
  sink.Int2(static_cast<std::int16_t>(job.state));
  sink.Int8(job.attempts);
  sink.Int8(job.create_us);
  sink.Int8(job.update_us);
  sink.Bytes(job.last_error);
  sink.Int8(job.usage.calls);
  sink.Int8(job.usage.prompt_tokens);
  sink.Int8(job.usage.completion_tokens);
  sink.Int2(IsReady(change, job) ? 1 : 0);
  sink.Int8(std::bit_cast<std::int64_t>(job.lease));
  sink.Int8(job.lease == 0 ? 0 : job.lease_until_us);
}

template <typename Sink>
void WriteEnd(const SessionChange& change, const JobEnd& end, Sink& sink) {
  WriteGeneration(change, end.key.generation, sink);
  sink.Text(end.key.block);
  sink.Int8(end.key.number);
  sink.Int2(static_cast<std::int16_t>(end.state));
  sink.Int8(change.row.update_us);
  sink.Bytes(end.error);
  sink.Int8(end.usage.calls);
  sink.Int8(end.usage.prompt_tokens);
  sink.Int8(end.usage.completion_tokens);
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
  void Bytes(std::string_view bytes) {
    // libpq takes a null pointer for NULL, and an empty view may have one.
    statement_.Add(bytes.empty() ? "" : bytes.data(), bytes.size(), kBytea);
  }
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
  void Bytes(std::string_view bytes) { Next(kBytea, bytes); }
  void Int8(std::int64_t number) { Number(static_cast<std::uint64_t>(number), kInt8); }
  void Int2(std::int16_t number) { Number(static_cast<std::uint16_t>(number), kInt2); }
  void Owned(std::string_view bytes, unsigned type) { Next(type, bytes); }
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
  void Next(unsigned type, std::string_view value) {
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
  return kSessionColumns + MessageRows(change) * kMessageColumns +
         change.requests.size() * kRequestColumns + change.garbage.size() * kGarbageColumns +
         ErasedRanges(change) * kEraseParameters +
         (ReplacedRows(change) == 0 ? 0 : kReplacedColumns) + change.blocks.size() * kBlockColumns +
         change.jobs.size() * kJobColumns + (change.removed_blocks.empty() ? 0 : kRemovedColumns) +
         (change.ended_jobs.empty() ? 0 : kEndedColumns) +
         (change.cancel_jobs_of == 0 ? 0 : kCancelledColumns) +
         (change.blocks.empty() ? 0 : kJobKeyColumns);
}

bool BatchStatement::NeedsArrays(const SessionChange& change) {
  // Beyond this many rows planning a list of rows costs more than the arrays do.
  constexpr std::size_t kMaxListed = 128;
  return MessageRows(change) > kMaxListed || ParameterCount(change) > kMaxParameters;
}

BatchStatement::BatchStatement(std::span<const SessionChange* const> changes) {
  std::size_t parameters = 0, replaced = 0, removed = 0, ended = 0, cancelled = 0, marked = 0;
  for (const SessionChange* change : changes) {
    ++shape_.sessions;
    shape_.messages += MessageRows(*change);
    shape_.requests += change->requests.size();
    shape_.garbage += change->garbage.size();
    shape_.erased += ErasedRanges(*change);
    replaced += ReplacedRows(*change);
    shape_.blocks += change->blocks.size();
    shape_.jobs += change->jobs.size();
    removed += change->removed_blocks.size();
    ended += change->ended_jobs.size();
    cancelled += change->cancel_jobs_of == 0 ? 0 : 1;
    marked += JobsToMark(*change).size();
    parameters += ParameterCount(*change);
  }
  shape_.replaced_messages = replaced > 0;
  shape_.removed_blocks = removed > 0;
  shape_.ended_jobs = ended > 0;
  shape_.cancelled_jobs = cancelled > 0;
  shape_.marked_jobs = marked > 0;
  if (changes.size() == 1 && NeedsArrays(*changes.front())) {
    // Whatever the number of rows, the text is the same, and so is the shape.
    shape_.arrays = true;
    for (std::size_t* rows : {&shape_.messages, &shape_.requests, &shape_.blocks, &shape_.jobs}) {
      *rows = *rows == 0 ? 0 : 1;
    }
    parameters = kSessionColumns + kMessageColumns + kRequestColumns + kGarbageColumns +
                 ErasedRanges(*changes.front()) * kEraseParameters + kReplacedColumns +
                 kBlockColumns + kJobColumns + kRemovedColumns + kEndedColumns + kCancelledColumns +
                 kJobKeyColumns;
  }
  values_.reserve(parameters);
  lengths_.reserve(parameters);
  types_.reserve(parameters);

  Rows rows(*this);
  for (const SessionChange* change : changes) WriteSession(*change, rows);
  for (const SessionChange* change : changes) {
    const auto write = [&](std::uint64_t generation, PositionRange range) {
      WriteGeneration(*change, generation, rows);
      rows.Int8(range.begin);
      rows.Int8(range.end);
    };
    for (const PositionRange& range : change->erase) write(change->row.generation, range);
    for (const EntryRange& erased : change->erased_entries) {
      write(erased.generation, erased.positions);
    }
  }
  if (shape_.arrays) {
    const SessionChange& change = *changes.front();
    Columns messages(kMessageColumns, MessageRows(change));
    WriteMessages(change, messages);
    messages.AddTo(*this);
    Columns requests(kRequestColumns, change.requests.size());
    for (const RequestRecord& request : change.requests) WriteRequest(change, request, requests);
    requests.AddTo(*this);
  } else {
    for (const SessionChange* change : changes) WriteMessages(*change, rows);
    for (const SessionChange* change : changes) {
      for (const RequestRecord& request : change->requests) WriteRequest(*change, request, rows);
    }
  }
  for (const SessionChange* change : changes) {
    for (const Garbage& garbage : change->garbage) {
      rows.Text(change->key.tenant);
      rows.Text(change->key.session);
      rows.Int8(std::bit_cast<std::int64_t>(garbage.generation));
      rows.Int8(garbage.begin);
      rows.Int8(garbage.end);
    }
  }
  if (shape_.arrays) {
    const SessionChange& change = *changes.front();
    Columns blocks(kBlockColumns, change.blocks.size());
    for (const BlockState& block : change.blocks) WriteBlock(change, block, blocks);
    blocks.AddTo(*this);
    Columns jobs(kJobColumns, change.jobs.size());
    for (const Job& job : change.jobs) WriteJob(change, job, jobs);
    jobs.AddTo(*this);
  } else {
    for (const SessionChange* change : changes) {
      for (const BlockState& block : change->blocks) WriteBlock(*change, block, rows);
    }
    for (const SessionChange* change : changes) {
      for (const Job& job : change->jobs) WriteJob(*change, job, rows);
    }
  }
  Columns replaced_messages(kReplacedColumns, replaced);
  Columns removed_blocks(kRemovedColumns, removed);
  Columns ended_jobs(kEndedColumns, ended);
  Columns cancelled_jobs(kCancelledColumns, cancelled);
  Columns marked_jobs(kJobKeyColumns, marked);
  for (const SessionChange* change : changes) {
    for (const MessagePtr& message : change->replaced) {
      WriteReplaced(*change, change->row.generation, *message, replaced_messages);
    }
    for (const ContentPtr& content : change->replaced_contents) {
      WriteReplaced(*change, change->row.content_generation, *content, replaced_messages);
    }
    for (const std::string& name : change->removed_blocks) {
      WriteGeneration(*change, change->row.block_generation, removed_blocks);
      removed_blocks.Text(name);
    }
    for (const JobEnd& end : change->ended_jobs) WriteEnd(*change, end, ended_jobs);
    for (const BlockJob& job : JobsToMark(*change)) {
      WriteGeneration(*change, change->row.block_generation, marked_jobs);
      marked_jobs.Text(*job.block);
      marked_jobs.Int8(job.number);
    }
    if (change->cancel_jobs_of == 0) continue;
    WriteGeneration(*change, change->cancel_jobs_of, cancelled_jobs);
    cancelled_jobs.Int8(change->row.update_us);
  }
  replaced_messages.AddTo(*this);
  removed_blocks.AddTo(*this);
  ended_jobs.AddTo(*this);
  cancelled_jobs.AddTo(*this);
  marked_jobs.AddTo(*this);
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
    sql += kEraseMessages;
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
  if (shape_.blocks > 0) {
    sql += kInsertBlocks;
    shape_.arrays ? AppendUnnest(sql, number, kBlockColumns)
                  : AppendValues(sql, number, shape_.blocks, kBlockColumns);
    sql += kUpdateBlocks;
  }
  if (shape_.jobs > 0) {
    sql += kInsertJobs;
    shape_.arrays ? AppendJobUnnest(sql, number) : AppendJobValues(sql, number, shape_.jobs);
    sql += ')';
  }
  if (shape_.replaced_messages) {
    fmt::format_to(std::back_inserter(sql), kReplaceMessages, Parameters(number, kReplacedColumns));
  }
  if (shape_.removed_blocks) {
    fmt::format_to(std::back_inserter(sql), kRemoveBlocks, Parameters(number, kRemovedColumns));
  }
  const std::size_t before_ended = number;
  if (shape_.ended_jobs) {
    fmt::format_to(std::back_inserter(sql), kEndJobs, Parameters(number, kEndedColumns));
  }
  if (shape_.cancelled_jobs) {
    fmt::format_to(std::back_inserter(sql), kCancelJobs, Parameters(number, kCancelledColumns));
    if (shape_.ended_jobs) {
      std::size_t ended = before_ended;
      fmt::format_to(std::back_inserter(sql), kButEndedJobs, Parameters(ended, kJobKeyColumns));
    }
    sql += ')';
  }
  if (shape_.marked_jobs) {
    fmt::format_to(std::back_inserter(sql), kMarkJobs, Parameters(number, kJobKeyColumns));
  }
  fmt::format_to(std::back_inserter(sql),
                 " SELECT 1 / (CASE WHEN count(*) FILTER (WHERE previous_revision >= 0) = {} "
                 "THEN 1 ELSE 0 END) FROM won",
                 shape_.sessions);
  return sql;
}

}  // namespace memoryd
