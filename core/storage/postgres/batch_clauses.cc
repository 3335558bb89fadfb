#include "core/storage/postgres/batch_clauses.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/storage/before_schema_12.h"
#include "core/storage/checksum.h"
#include "core/storage/job_order.h"
#include "core/storage/postgres/batch_rows.h"
#include "core/storage/postgres/job_queries.h"
#include "core/storage/postgres/session_rows.h"
#include "core/storage/store.h"
#include "core/storage/tool_ids.h"

namespace memoryd {
namespace {

using enum ParameterType;

// Rows of memoryd_messages: messages, contents and what blocks have of their own.

constexpr BatchColumn kErasedColumns[] = {
    {.name = "tenant", .type = kText, .value = "tenant = {}"},
    {.name = "session", .type = kText, .value = "session = {}"},
    {.name = "generation", .type = kInt8, .value = "generation = {}"},
    {.name = "begin_position", .type = kInt8, .value = "position >= {}"},
    {.name = "end_position", .type = kInt8, .value = "position < {}"},
};

void WriteErased(const SessionChange& change, RowWriter& row) {
  const auto write = [&](std::uint64_t generation, PositionRange range) {
    WriteKey(change.key, generation, row);
    row.Int8("begin_position", range.begin);
    row.Int8("end_position", range.end);
  };
  for (const PositionRange& range : change.erase) write(change.row.generation, range);
  for (const EntryRange& erased : change.erased_entries) {
    write(erased.generation, erased.positions);
  }
}

constexpr BatchColumn kMessageColumns[] = {
    kTenant,
    kSession,
    kGeneration,
    {.name = "position", .type = kInt8, .is_key = true},
    {.name = "message_id", .type = kText},
    {.name = "role", .type = kInt2},
    {.name = "token_count", .type = kInt8},
    {.name = "ingest_us", .type = kInt8},
    {.name = "tool_ids", .type = kBytea},
    {.name = "body", .type = kBytea},
    {.name = "checksum", .type = kInt8},
};

// The last columns of a message.
void WriteBody(const Message& message, RowWriter& row) {
  std::string tool_ids = EncodeToolIds(message);
  const std::int64_t checksum = ChecksumOf(message, tool_ids);
  row.MadeBytes("tool_ids", std::move(tool_ids));
  row.Bytes("body", message.body);
  row.Int8("checksum", checksum);
}

void WriteMessages(const SessionChange& change, RowWriter& row) {
  const auto write = [&](std::uint64_t generation, const Message& message) {
    WriteKey(change.key, generation, row);
    row.Int8("position", message.position);
    const std::string& id = message.ids->message_id;
    id.empty() ? row.Null("message_id") : row.Text("message_id", id);
    row.Int2("role", static_cast<std::int16_t>(message.role));
    row.Int8("token_count", message.token_count);
    row.Int8("ingest_us", message.ingest_us);
    WriteBody(message, row);
  };
  for (const MessagePtr& message : change.messages) write(change.row.generation, *message);
  for (const ContentPtr& content : change.contents) write(change.row.content_generation, *content);
  for (const BlockEntry& entry : change.entries) write(entry.generation, *entry.row);
}

constexpr BatchColumn kReplacedColumns[] = {
    kTenant,
    kSession,
    kGeneration,
    {.name = "position", .type = kInt8, .is_key = true},
    {.name = "role", .type = kInt2},
    {.name = "token_count", .type = kInt8},
    {.name = "tool_ids", .type = kBytea},
    {.name = "body", .type = kBytea},
    {.name = "checksum", .type = kInt8},
};

void WriteReplaced(const SessionChange& change, RowWriter& row) {
  const auto write = [&](std::uint64_t generation, const Message& message) {
    WriteKey(change.key, generation, row);
    row.Int8("position", message.position);
    row.Int2("role", static_cast<std::int16_t>(message.role));
    row.Int8("token_count", message.token_count);
    WriteBody(message, row);
  };
  for (const MessagePtr& message : change.replaced) write(change.row.generation, *message);
  for (const ContentPtr& content : change.replaced_contents) {
    write(change.row.content_generation, *content);
  }
}

constexpr BatchColumn kRequestColumns[] = {
    kTenant,
    kSession,
    {.name = "request_id", .type = kText, .is_key = true},
    {.name = "fingerprint", .type = kBytea},
    {.name = "reply", .type = kBytea},
    {.name = "create_us", .type = kInt8},
};

void WriteRequests(const SessionChange& change, RowWriter& row) {
  for (const RequestRecord& request : change.requests) {
    WriteKey(change.key, row);
    row.Text("request_id", request.request_id);
    row.Bytes("fingerprint", request.fingerprint);
    row.Bytes("reply", request.reply);
    row.Int8("create_us", request.create_us);
  }
}

std::size_t ForgottenRows(const SessionChange& change) {
  return std::size_t{change.forget_requests_before_us > 0};
}

constexpr BatchColumn kGarbageColumns[] = {
    kTenant,
    kSession,
    kGeneration,
    {.name = "begin_position", .type = kInt8, .set = "least(stored.begin_position, {})"},
    {.name = "end_position", .type = kInt8, .is_key = true},
};

void WriteGarbage(const SessionChange& change, RowWriter& row) {
  const auto write = [&](const Garbage& garbage) {
    WriteKey(change.key, garbage.generation, row);
    row.Int8("begin_position", garbage.begin);
    row.Int8("end_position", garbage.end);
  };
  for (const Garbage& garbage : change.garbage) write(garbage);
  const std::int64_t before_us = change.forget_requests_before_us;
  if (before_us > 0) write({kForgottenGeneration, 0, before_us});
}

constexpr BatchColumn kForgottenColumns[] = {
    kTenant,
    kSession,
    {.name = "before_us", .type = kInt8, .set = "greatest(stored.before_us, {})"},
};

void WriteForgotten(const SessionChange& change, RowWriter& row) {
  if (ForgottenRows(change) == 0) return;
  WriteKey(change.key, row);
  row.Int8("before_us", change.forget_requests_before_us);
}

// Blocks and their jobs.

constexpr BatchColumn kBlockColumns[] = {
    kTenant,
    kSession,
    kGeneration,
    {.name = "name", .type = kText, .is_key = true},
    {.name = "done", .type = kInt8},
    {.name = "next", .type = kInt8},
    {.name = "entry_generation", .type = kInt8},
    {.name = "next_entry", .type = kInt8},
    {.name = "update_us", .type = kInt8},
    {.name = "state", .type = kBytea},
};

void WriteBlocks(const SessionChange& change, RowWriter& row) {
  for (const BlockState& block : change.blocks) {
    WriteKey(change.key, change.row.block_generation, row);
    row.Text("name", block.name);
    row.Int8("done", block.done);
    row.Int8("next", block.next);
    row.Bits("entry_generation", block.entry_generation);
    row.Int8("next_entry", block.next_entry);
    row.Int8("update_us", block.update_us);
    row.Bytes("state", block.state);
  }
}

constexpr BatchColumn kJobBlock{.name = "block", .type = kText, .is_key = true};
constexpr BatchColumn kJobNumber{.name = "number", .type = kInt8, .is_key = true};

constexpr BatchColumn kJobColumns[] = {
    kTenant,
    kSession,
    kGeneration,
    kJobBlock,
    kJobNumber,
    {.name = "message_generation", .type = kInt8},
    {.name = "begin_position", .type = kInt8},
    {.name = "end_position", .type = kInt8},
    {.name = "state", .type = kInt2},
    {.name = "attempts", .type = kInt8},
    {.name = "create_us", .type = kInt8},
    {.name = "update_us", .type = kInt8},
    {.name = "last_error", .type = kBytea},
    {.name = "calls", .type = kInt8},
    {.name = "prompt_tokens", .type = kInt8},
    {.name = "completion_tokens", .type = kInt8},
    {.name = "ready", .type = kInt2},
    {.name = "lease", .type = kInt8},
    // From the duration of the lease: 0 for none.
    {.name = "lease_until",
     .type = kInt8,
     .value = "coalesce(" MEMORYD_NOW_US " + nullif({}, 0), 0)"},
    {.name = "due", .type = kNone, .value = MEMORYD_NOW_US},
};

void WriteJobs(const SessionChange& change, RowWriter& row) {
  for (const Job& job : change.jobs) {
    WriteKey(change.key, change.row.block_generation, row);
    row.Text("block", job.key.block);
    row.Int8("number", job.key.number);
    row.Bits("message_generation", job.message_generation);
    row.Int8("begin_position", job.begin);
    row.Int8("end_position", job.end);
    row.Int2("state", static_cast<std::int16_t>(job.state));
    row.Int8("attempts", job.attempts);
    row.Int8("create_us", job.create_us);
    row.Int8("update_us", job.update_us);
    row.Bytes("last_error", job.last_error);
    row.Int8("calls", job.usage.calls);
    row.Int8("prompt_tokens", job.usage.prompt_tokens);
    row.Int8("completion_tokens", job.usage.completion_tokens);
    row.Int2("ready", IsReady(change, job) ? 1 : 0);
    row.Bits("lease", job.lease);
    row.Int8("lease_until", job.lease == 0 ? 0 : job.lease_until_us);
  }
}

constexpr BatchColumn kEndedColumns[] = {
    kTenant,
    kSession,
    kGeneration,
    kJobBlock,
    kJobNumber,
    {.name = "state", .type = kInt2},
    {.name = "update_us", .type = kInt8},
    {.name = "last_error",
     .type = kBytea,
     .set = "CASE WHEN {} = '' THEN stored.last_error ELSE {} END"},
    {.name = "calls", .type = kInt8, .set = "stored.calls + {}"},
    {.name = "prompt_tokens", .type = kInt8, .set = "stored.prompt_tokens + {}"},
    {.name = "completion_tokens", .type = kInt8, .set = "stored.completion_tokens + {}"},
};

void WriteEnded(const SessionChange& change, RowWriter& row) {
  for (const JobEnd& end : change.ended_jobs) {
    WriteKey(change.key, end.key.generation, row);
    row.Text("block", end.key.block);
    row.Int8("number", end.key.number);
    row.Int2("state", static_cast<std::int16_t>(end.state));
    row.Int8("update_us", change.row.update_us);
    row.Bytes("last_error", end.error);
    row.Int8("calls", end.usage.calls);
    row.Int8("prompt_tokens", end.usage.prompt_tokens);
    row.Int8("completion_tokens", end.usage.completion_tokens);
  }
}

constexpr BatchColumn kCancelledColumns[] = {
    kTenant,
    kSession,
    kGeneration,
    {.name = "update_us", .type = kInt8},
};

void WriteCancelled(const SessionChange& change, RowWriter& row) {
  if (change.cancel_jobs_of == 0) return;
  WriteKey(change.key, change.cancel_jobs_of, row);
  row.Int8("update_us", change.row.update_us);
}

constexpr BatchColumn kReadyColumns[] = {kTenant, kSession, kGeneration, kJobBlock, kJobNumber};

void WriteReady(const SessionChange& change, RowWriter& row) {
  for (const BlockJob& job : JobsToMark(change)) {
    WriteKey(change.key, change.row.block_generation, row);
    row.Text("block", *job.block);
    row.Int8("number", job.number);
  }
}

// Beyond this many rows planning a list of rows costs more than the arrays do.
constexpr std::size_t kMaxListedMessages = 128;

constexpr BatchClause kClauses[] = {
    {.name = "won",
     .columns = kSessionColumns,
     .form = RowForm::kList,
     .sql = "INSERT INTO memoryd_sessions AS stored ({columns}) {rows} "
            "ON CONFLICT (tenant, session) DO UPDATE SET {set} "
            "WHERE stored.revision = -excluded.previous_revision "
            "RETURNING stored.previous_revision",
     .max_rows = [](const SessionChange& change) { return std::size_t{!change.appends_only}; },
     .write = &WriteSession,
     .is_of_sessions = true},
    // For PostgreSQL half the work: no more of the row is read or made than these columns.
    {.name = "advanced",
     .columns = kAdvancedColumns,
     .form = RowForm::kListOrArrays,
     .sql = "UPDATE memoryd_sessions AS stored SET {set} FROM {given} "
            "WHERE stored.tenant = given.tenant AND stored.session = given.session "
            "AND stored.revision = given.previous_revision RETURNING stored.previous_revision",
     .max_rows = [](const SessionChange& change) { return std::size_t{change.appends_only}; },
     .write = &WriteAdvanced,
     .is_of_sessions = true},
    {.name = "erased_messages",
     .columns = kErasedColumns,
     .form = RowForm::kList,
     .sql = "DELETE FROM memoryd_messages WHERE {conditions}",
     .max_rows =
         [](const SessionChange& change) {
           return change.erase.size() + change.erased_entries.size();
         },
     .write = &WriteErased,
     .arrays_sql = "DELETE FROM memoryd_messages AS stored USING {given} "
                   "WHERE stored.tenant = given.tenant AND stored.session = given.session "
                   "AND stored.generation = given.generation "
                   "AND stored.position >= given.begin_position "
                   "AND stored.position < given.end_position",
     .part = ChangePart::kEdits},
    {.name = "new_messages",
     .columns = kMessageColumns,
     .form = RowForm::kListOrArrays,
     .sql = "INSERT INTO memoryd_messages ({columns}) {rows}",
     .max_rows =
         [](const SessionChange& change) {
           return change.messages.size() + change.contents.size() + change.entries.size();
         },
     .write = &WriteMessages,
     .max_listed = kMaxListedMessages},
    {.name = "new_requests",
     .columns = kRequestColumns,
     .form = RowForm::kListOrArrays,
     .sql = "INSERT INTO memoryd_requests ({columns}) {rows}",
     .max_rows = [](const SessionChange& change) { return change.requests.size(); },
     .write = &WriteRequests},
    {.name = "new_garbage",
     .columns = kGarbageColumns,
     .form = RowForm::kList,
     .sql = "INSERT INTO memoryd_garbage AS stored ({columns}) {rows} "
            "ON CONFLICT (tenant, session, generation, end_position) DO UPDATE SET {set}",
     .max_rows =
         [](const SessionChange& change) { return change.garbage.size() + ForgottenRows(change); },
     .write = &WriteGarbage,
     .part = ChangePart::kEdits},
    {.name = "forgotten_requests",
     .columns = kForgottenColumns,
     .form = RowForm::kList,
     .sql = "INSERT INTO memoryd_forgotten AS stored ({columns}) {rows} "
            "ON CONFLICT (tenant, session) DO UPDATE SET {set}",
     .max_rows = &ForgottenRows,
     .write = &WriteForgotten,
     .part = ChangePart::kEdits},
    {.name = "written_blocks",
     .columns = kBlockColumns,
     .form = RowForm::kListOrArrays,
     .sql = "INSERT INTO memoryd_blocks ({columns}) {rows} "
            "ON CONFLICT (tenant, session, generation, name) DO UPDATE SET {set}",
     .max_rows = [](const SessionChange& change) { return change.blocks.size(); },
     .write = &WriteBlocks,
     .part = ChangePart::kBlocks},
    {.name = "new_jobs",
     .columns = kJobColumns,
     .form = RowForm::kListOrArrays,
     .sql = "INSERT INTO memoryd_jobs ({columns}) {rows}",
     .max_rows = [](const SessionChange& change) { return change.jobs.size(); },
     .write = &WriteJobs,
     .part = ChangePart::kBlocks},
    {.name = "replaced_messages",
     .columns = kReplacedColumns,
     .form = RowForm::kArrays,
     .sql = "UPDATE memoryd_messages stored SET {set} FROM {given} "
            "WHERE stored.tenant = given.tenant AND stored.session = given.session "
            "AND stored.generation = given.generation AND stored.position = given.position",
     .max_rows =
         [](const SessionChange& change) {
           return change.replaced.size() + change.replaced_contents.size();
         },
     .write = &WriteReplaced,
     .part = ChangePart::kEdits},
    {.name = "ended_jobs",
     .columns = kEndedColumns,
     .form = RowForm::kArrays,
     .sql = "UPDATE memoryd_jobs stored SET {set}, lease = 0, lease_until = 0 FROM {given} "
            "WHERE stored.tenant = given.tenant AND stored.session = given.session "
            "AND stored.generation = given.generation AND stored.block = given.block "
            "AND stored.number = given.number AND stored.state = 0",
     .max_rows = [](const SessionChange& change) { return change.ended_jobs.size(); },
     .write = &WriteEnded,
     .part = ChangePart::kBlocks},
    // 3 is JobState::kCancelled. What the statement inserts it does not see.
    {.name = "cancelled_jobs",
     .columns = kCancelledColumns,
     .form = RowForm::kArrays,
     .sql = "UPDATE memoryd_jobs stored SET state = 3, {set}, lease = 0, lease_until = 0 "
            "FROM {given} WHERE stored.tenant = given.tenant AND stored.session = given.session "
            "AND stored.generation = given.generation AND stored.state = 0",
     .max_rows =
         [](const SessionChange& change) { return std::size_t{change.cancel_jobs_of != 0}; },
     .write = &WriteCancelled,
     .part = ChangePart::kBlocks,
     // Of two updates of one row in a statement only one would be done, and none knows which.
     .exception = {.of = "ended_jobs",
                   .sql = " AND NOT EXISTS (SELECT FROM unnest({keys}) "
                          "AS ended (tenant, session, generation, block, number) "
                          "WHERE ended.tenant = stored.tenant AND ended.session = stored.session "
                          "AND ended.generation = stored.generation "
                          "AND ended.block = stored.block AND ended.number = stored.number)"}},
    // See job_order.h.
    {.name = "ready_jobs",
     .columns = kReadyColumns,
     .form = RowForm::kArrays,
     .sql = "UPDATE memoryd_jobs stored SET ready = 1 FROM {given} "
            "WHERE stored.tenant = given.tenant AND stored.session = given.session "
            "AND stored.generation = given.generation AND stored.block = given.block "
            "AND stored.number = given.number AND stored.state = 0 AND stored.ready = 0",
     .max_rows = [](const SessionChange& change) { return change.blocks.size(); },
     .write = &WriteReady,
     .part = ChangePart::kBlocks},
};

static_assert(std::ranges::is_partitioned(kClauses, &BatchClause::is_of_sessions));

// tools/check_statements.py takes it that {columns} and {conditions} begin so.
static_assert(std::ranges::all_of(kClauses, [](const BatchClause& clause) {
  return clause.columns.size() >= 2 && clause.columns[0].name == "tenant" &&
         clause.columns[1].name == "session";
}));
static_assert(std::ranges::all_of(kClauses, [](const BatchClause& clause) {
  return std::ranges::all_of(clause.columns.subspan(clause.parameters().size()),
                             [](const BatchColumn& column) { return column.type == kNone; });
}));

}  // namespace

std::span<const BatchClause> BatchClauses() { return kClauses; }

}  // namespace memoryd
