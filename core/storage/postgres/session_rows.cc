#include "core/storage/postgres/session_rows.h"

#include <cstdint>

#include "core/model/session.h"
#include "core/storage/before_schema_12.h"
#include "core/storage/postgres/batch_rows.h"
#include "core/storage/store.h"

namespace memoryd {

void WriteKey(const SessionKey& key, RowWriter& row) {
  row.Text("tenant", key.tenant);
  row.Text("session", key.session);
}

void WriteKey(const SessionKey& key, std::uint64_t generation, RowWriter& row) {
  WriteKey(key, row);
  row.Bits("generation", generation);
}

void WriteSession(const SessionChange& change, RowWriter& row) {
  if (change.appends_only) return;
  const SessionRow& session = change.row;
  WriteKey(change.key, session.generation, row);
  row.Int8("revision", session.revision);
  row.Int8("previous_revision", -change.expected_revision);
  row.Int8("next_position", session.next_position);
  row.Int8("floor_position", session.floor);
  row.Int8("watermark", session.watermark);
  row.Int8Array("pinned", session.pinned);
  row.Int8("active_count", session.active_count);
  row.Int8("archived_count", session.archived_count);
  row.Int8("active_tokens", session.active_tokens);
  row.Bits("content_generation", session.content_generation);
  row.Int8("next_content", session.next_content);
  row.Int8("content_count", session.content_count);
  row.Int8("message_bytes", session.message_bytes);
  row.Int8("content_bytes", session.content_bytes);
  row.Int8("edit_revision", session.edit_revision);
  row.Bits("block_generation", session.block_generation);
  row.Int8("create_us", session.create_us);
  row.Int8("update_us", session.update_us);
  row.Bool("deleted", session.deleted);
  row.Bits("commit_tag", session.commit_tag);
  row.Int8("opening", session.opening);
  change.write_config ? row.Bytes("config", session.config) : row.Null("config");
  change.write_config ? row.Text("subject", session.subject) : row.Null("subject");
  change.write_expire_us ? row.Int8("expire_us", session.expire_us) : row.Null("expire_us");
  change.write_drop_us ? row.Int8("drop_us", StoredDropUs(session)) : row.Null("drop_us");
  change.write_drop_us ? row.Bool("has_timed_items", session.has_timed_items)
                       : row.Null("has_timed_items");
}

void WriteAdvanced(const SessionChange& change, RowWriter& row) {
  if (!change.appends_only) return;
  const SessionRow& session = change.row;
  WriteKey(change.key, row);
  row.Int8("revision", session.revision);
  row.Int8("previous_revision", change.expected_revision);
  row.Int8("next_position", session.next_position);
  row.Int8("active_count", session.active_count);
  row.Int8("active_tokens", session.active_tokens);
  row.Int8("message_bytes", session.message_bytes);
  row.Int8("update_us", session.update_us);
  row.Bits("commit_tag", session.commit_tag);
}

}  // namespace memoryd
