// The rows of sessions in a batch, and the key that all rows of a session have.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_SESSION_ROWS_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_SESSION_ROWS_H_

#include <cstdint>

#include "core/model/session.h"
#include "core/storage/postgres/batch_rows.h"
#include "core/storage/store.h"

namespace memoryd {

inline constexpr BatchColumn kTenant{
    .name = "tenant", .type = ParameterType::kText, .is_key = true};
inline constexpr BatchColumn kSession{
    .name = "session", .type = ParameterType::kText, .is_key = true};
inline constexpr BatchColumn kGeneration{
    .name = "generation", .type = ParameterType::kInt8, .is_key = true};

void WriteKey(const SessionKey& key, RowWriter& row);
void WriteKey(const SessionKey& key, std::uint64_t generation, RowWriter& row);

// A NULL leaves the stored value as it is.
inline constexpr BatchColumn kSessionColumns[] = {
    kTenant,
    kSession,
    {.name = "generation", .type = ParameterType::kInt8},
    {.name = "revision", .type = ParameterType::kInt8},
    {.name = "previous_revision", .type = ParameterType::kInt8, .set = "-{}"},
    {.name = "next_position", .type = ParameterType::kInt8},
    {.name = "floor_position", .type = ParameterType::kInt8},
    {.name = "watermark", .type = ParameterType::kInt8},
    {.name = "pinned", .type = ParameterType::kInt8Array},
    {.name = "active_count", .type = ParameterType::kInt8},
    {.name = "archived_count", .type = ParameterType::kInt8},
    {.name = "active_tokens", .type = ParameterType::kInt8},
    {.name = "content_generation", .type = ParameterType::kInt8},
    {.name = "next_content", .type = ParameterType::kInt8},
    {.name = "content_count", .type = ParameterType::kInt8},
    {.name = "message_bytes", .type = ParameterType::kInt8},
    {.name = "content_bytes", .type = ParameterType::kInt8},
    {.name = "edit_revision", .type = ParameterType::kInt8},
    {.name = "block_generation", .type = ParameterType::kInt8},
    {.name = "create_us", .type = ParameterType::kInt8},
    {.name = "update_us", .type = ParameterType::kInt8},
    {.name = "deleted", .type = ParameterType::kBool},
    {.name = "commit_tag", .type = ParameterType::kInt8},
    {.name = "opening", .type = ParameterType::kInt8},
    {.name = "config", .type = ParameterType::kBytea, .set = "coalesce({}, stored.config)"},
    {.name = "subject", .type = ParameterType::kText, .set = "coalesce({}, stored.subject)"},
    {.name = "expire_us", .type = ParameterType::kInt8, .set = "coalesce({}, stored.expire_us)"},
    {.name = "drop_us", .type = ParameterType::kInt8, .set = "coalesce({}, stored.drop_us)"},
    {.name = "has_timed_items",
     .type = ParameterType::kBool,
     .set = "coalesce({}, stored.has_timed_items)"},
};

// No row for a change that appends only.
void WriteSession(const SessionChange& change, RowWriter& row);

// The columns that IsAppend() names.
inline constexpr BatchColumn kAdvancedColumns[] = {
    kTenant,
    kSession,
    {.name = "revision", .type = ParameterType::kInt8},
    {.name = "previous_revision", .type = ParameterType::kInt8},
    {.name = "next_position", .type = ParameterType::kInt8},
    {.name = "active_count", .type = ParameterType::kInt8},
    {.name = "active_tokens", .type = ParameterType::kInt8},
    {.name = "message_bytes", .type = ParameterType::kInt8},
    {.name = "update_us", .type = ParameterType::kInt8},
    {.name = "commit_tag", .type = ParameterType::kInt8},
};

// A row for a change that appends only.
void WriteAdvanced(const SessionChange& change, RowWriter& row);

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_SESSION_ROWS_H_
