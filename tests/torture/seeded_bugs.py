"""Bugs that a server like memoryd may have, as changes of its source, and the runs that bring them
out.

`proof.py` builds memoryd with one at a time. What a change replaces stands exactly once in its
file; a test of `make test` looks.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Edit:
    """In the file at `path`, `old` becomes `new`."""

    path: str
    old: str
    new: str


@dataclasses.dataclass(frozen=True)
class SeededBug:
    """`options` are those of run.py."""

    name: str
    breaks: str
    options: tuple[str, ...]
    edits: tuple[Edit, ...]


_SQLITE = ("--store=sqlite", "--failpoints")
_TWO_SERVERS = ("--store=postgresql", "--failpoints")
# Their answers are lost on the way.
_IN_DOUBT = ("--store=postgresql", "--only=commits_lost,server_term")
# Time enough for a commit to wait until the standby is given up.
_FAILOVER = ("--store=postgresql", "--failover",
             "--server-environment=MEMORYD_STORE_TIMEOUT_MS=20000")
# Durable only in sessions that keep what the store's URL has set.
_SESSION_SETTING = ("--store=postgresql", "--postgres-setting=synchronous_commit=off",
                    "--postgres-setting=wal_writer_delay=10s",
                    "--session-setting=synchronous_commit=on",
                    "--only=backends_terminate,postmaster_kill")

BUGS = (
    SeededBug(
        "ack_before_commit", "a write is answered before the store has it", _SQLITE,
        (Edit("core/writes/committer.cc",
              '  ReachFailpoint("batch_drafted");\n',
              "  for (Group* group : changed) {\n"
              "    for (auto& [write, reply] : group->stored) {\n"
              "      write->Finish(reply);\n"
              "    }\n"
              "  }\n"
              '  ReachFailpoint("batch_drafted");\n'),)),
    SeededBug(
        "cache_not_checked", "a cached session is served without a look at the stored revision",
        _TWO_SERVERS,
        (Edit("core/sessions/session_loader.cc",
              "  if (freshness_ == nullptr) {\n    if (loaded)",
              "  if (freshness_ == nullptr || loaded) {\n    if (loaded)"),)),
    SeededBug(
        # The servers of a run share a clock, so theirs are made to differ here.
        "order_by_clock", "messages are read in the order of the servers' clocks", _TWO_SERVERS,
        (Edit("core/reads/page.cc",
              "MEMORYD_ASSIGN_OR_RETURN(const std::vector<MessagePtr> rows, "
              "Read(generation, range));\n",
              "MEMORYD_ASSIGN_OR_RETURN(std::vector<MessagePtr> rows, Read(generation, range));\n"
              "      std::ranges::stable_sort(\n"
              "          rows, {}, [](const MessagePtr& row) { return row->ingest_us; });\n"),
         Edit("server/engine_and_models.cc",
              '#include "server/engine_and_models.h"\n',
              '#include "server/engine_and_models.h"\n\n#include <unistd.h>\n'),
         Edit("server/engine_and_models.cc",
              "               std::chrono::system_clock::now().time_since_epoch())\n",
              "               std::chrono::system_clock::now().time_since_epoch() +\n"
              "               std::chrono::milliseconds(300) * (::getpid() % 3))\n"),
         # Else no message of a session is of a time before that of the one in front of it.
         Edit("core/writes/draft/session_draft.cc",
              "now_us_(std::max(now_us, base.row.update_us + (base.row.deleted ? 1 : 0))),",
              "now_us_(now_us),"))),
    SeededBug(
        "request_ids_not_unique", "the store takes a request_id twice", _TWO_SERVERS,
        (Edit("core/storage/postgres/migrations.cc",
              "  create_us bigint NOT NULL,\n"
              "  CONSTRAINT memoryd_requests_pkey PRIMARY KEY (tenant, session, request_id)\n",
              "  create_us bigint NOT NULL\n"),)),
    SeededBug(
        "cache_without_tenant", "the cache knows sessions by their names alone", _SQLITE,
        (Edit("core/sessions/session_cache.cc", "SessionKeyHash()(key) >> 48",
              'SessionKeyHash()({"", key.session}) >> 48'),
         Edit("core/sessions/session_cache.cc", "shard.index.find(key)",
              'shard.index.find({"", key.session})'),
         Edit("core/sessions/session_cache.cc", "shard.index.emplace(key, ",
              'shard.index.emplace(SessionKey{"", key.session}, '),
         Edit("core/sessions/session_cache.cc", "shard.index.erase((*candidate)->key)",
              'shard.index.erase({"", (*candidate)->key.session})'),
         Edit("core/sessions/session_cache.cc", "shard.index.erase((*place)->key)",
              'shard.index.erase({"", (*place)->key.session})'))),
    SeededBug(
        "set_in_two_transactions", "Set removes in one transaction and puts in another",
        _TWO_SERVERS,
        (Edit("core/writes/committer.cc",
              '  ReachFailpoint("batch_drafted");\n',
              "  for (SessionChange& change : changes) {\n"
              "    if (change.garbage.empty() || change.messages.empty()) continue;\n"
              "    std::vector<SessionChange> removal = {change};\n"
              "    removal.front().messages.clear();\n"
              "    removal.front().jobs.clear();\n"
              "    removal.front().requests.clear();\n"
              "    if (options_.store->Commit(removal).front().outcome == "
              "CommitOutcome::kCommitted) {\n"
              "      change.expected_revision = change.row.revision;\n"
              "    }\n"
              "  }\n"
              '  ReachFailpoint("batch_drafted");\n'),)),
    SeededBug(
        "failed_part_acknowledged",
        "a write that lost to another server's is acknowledged with its batch",
        _TWO_SERVERS,
        (Edit("core/storage/postgres/batch_writer.cc",
              "        *batch[i].result = {*conflict, absl::OkStatus()};\n",
              "        *batch[i].result = {CommitOutcome::kCommitted, absl::OkStatus()};\n"),)),
    SeededBug(
        "doubt_not_settled", "a commit in doubt that was done is done again", _IN_DOUBT,
        (Edit("core/storage/postgres/settle.cc",
              "  if (reply.rows == 1) return {CommitOutcome::kCommitted, absl::OkStatus()};\n",
              ""),)),
    SeededBug(
        "warning_ignored", "a commit that no standby has confirmed is acknowledged", _FAILOVER,
        (Edit("core/storage/postgres/batch_connection.cc",
              "    static_cast<BatchConnection*>(self)->warned_ = true;\n",
              "    static_cast<BatchConnection*>(self)->warned_ = false;\n"),)),
    SeededBug(
        "settings_lost", "a connection that takes another's place lacks its settings",
        _SESSION_SETTING,
        (Edit("core/storage/postgres/batch_connection.cc",
              "  for (const auto& [keyword, value] : settings.values) {\n"
              "    keywords.push_back(keyword.c_str());\n",
              "  static int connections = 0;\n"
              "  const bool replaces = connections++ >= 2;  // One for each committer.\n"
              "  for (const auto& [keyword, value] : settings.values) {\n"
              '    if (replaces && keyword == "options") continue;\n'
              "    keywords.push_back(keyword.c_str());\n"),)),
    SeededBug(
        "text_cut_at_nul", "a text ends at its first NUL", _SQLITE,
        (Edit("server/wire/convert.cc",
              "  incoming.message.role = ParseRole(message.role());\n",
              "  if (message.has_text()) {\n"
              "    message.set_text(std::string(message.text().c_str()));\n"
              "  }\n"
              "  incoming.message.role = ParseRole(message.role());\n"),)),
    SeededBug(
        "reset_without_generation", "Reset and Set leave the generation as it is", _SQLITE,
        (Edit("core/writes/draft/message_ledger.cc",
              "  row.generation = generation;\n"
              "  row.floor = row.watermark = row.next_position;\n"
              "  row.pinned.clear();\n",
              "  static_cast<void>(generation);\n"
              "  row.floor = row.watermark = row.next_position;\n"
              "  row.pinned.clear();\n"),)),
    SeededBug(
        "delete_keeps_the_row", "a deleted message goes from memory and stays in the store", _SQLITE,
        (Edit("core/storage/sqlite/sqlite_change.cc",
              "constexpr char kEraseMessages[] =\n"
              '    "DELETE FROM memoryd_messages"\n'
              '    " WHERE tenant = ? AND session = ? AND generation = ? AND position >= ?',
              "constexpr char kEraseMessages[] =\n"
              '    "DELETE FROM memoryd_messages"\n'
              '    " WHERE tenant = ? AND session = ? AND generation = ? AND position > ?'),)),
    SeededBug(
        "update_keeps_the_row", "an updated message changes in memory and not in the store", _SQLITE,
        (Edit("core/storage/sqlite/sqlite_change.cc",
              "constexpr char kReplaceMessage[] =\n"
              '    "UPDATE memoryd_messages SET role = ?, token_count = ?, tool_ids = ?, body = ?, checksum = ?"\n'
              '    " WHERE tenant = ? AND session = ? AND generation = ? AND position = ?',
              "constexpr char kReplaceMessage[] =\n"
              '    "UPDATE memoryd_messages SET role = ?, token_count = ?, tool_ids = ?, body = ?, checksum = ?"\n'
              '    " WHERE tenant = ? AND session = ? AND generation = ? AND position < ? - 4000000'),)),
    SeededBug(
        "keeps_one_too_few", "a session that keeps its newest messages keeps one less", _SQLITE,
        (Edit("core/sessions/oldest_messages.cc",
              "stored - retention.keep_messages, 0,",
              "stored + 1 - retention.keep_messages, 0,"),)),
    SeededBug(
        "condition_at_an_old_version", "an item that was replaced is still at its older versions",
        _SQLITE,
        (Edit("core/storage/sqlite/sqlite_item_write.cc",
              "if (write.expected_version.value_or(version) != version) {",
              "if (write.expected_version.value_or(version) > version) {"),)),
    SeededBug(
        "item_batch_in_two_transactions", "a batch's first item is written before the others",
        _TWO_SERVERS,
        (Edit("core/writes/items/item_committer.cc",
              "    sent = true;\n",
              "    sent = true;\n"
              "    std::vector<ItemBatch> first;\n"
              "    for (const ItemBatch& batch : batches) {\n"
              "      if (batch.writes.size() < 2 || batch.writes.front().expected_version) continue;\n"
              "      first.push_back({batch.key, batch.subject, {batch.writes.front()}});\n"
              "    }\n"
              "    if (!first.empty()) options_.store->WriteItems(first, now_us);\n"),)),
    SeededBug(
        "deleted_items_come_back", "a namespace that is made again has the generation of the deleted one",
        _SQLITE,
        (Edit("core/storage/sqlite/sqlite_item_write.cc",
              "    row_->generation = NewNamespaceGeneration();\n",
              "    row_->generation = std::hash<std::string_view>()(batch_.key.path.stored());\n"),)),
    SeededBug(
        "tenant_left_out_of_a_list", "the list of namespaces has those of all tenants", _SQLITE,
        (Edit("core/storage/sqlite/sqlite_item_read.cc",
              "constexpr char kListNamespaces[] =\n"
              '    "SELECT " MEMORYD_NAMESPACE_COLUMNS\n'
              '    ", path FROM memoryd_namespaces WHERE tenant = ? AND path > ?',
              "constexpr char kListNamespaces[] =\n"
              '    "SELECT " MEMORYD_NAMESPACE_COLUMNS\n'
              '    ", path FROM memoryd_namespaces WHERE ? <> \'\' AND path > ?'),)),
)
