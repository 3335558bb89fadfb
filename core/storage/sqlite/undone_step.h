// For tests of upgrades: back to an older schema.
#ifndef MEMORYD_CORE_STORAGE_SQLITE_UNDONE_STEP_H_
#define MEMORYD_CORE_STORAGE_SQLITE_UNDONE_STEP_H_

namespace memoryd::sqlite {

// From schema 12 to 8, in a store without large values.
inline constexpr char kBackToSchema8[] =
    "ALTER TABLE memoryd_sessions DROP COLUMN has_timed_items;"
    "DROP TABLE memoryd_forgotten;"
    "DROP TABLE memoryd_namespaces;"
    "DROP TABLE memoryd_items;"
    "DROP TABLE memoryd_item_values;"
    "DROP TABLE memoryd_item_requests;"
    "DROP TABLE memoryd_item_garbage;"
    "ALTER TABLE memoryd_sessions DROP COLUMN opening;"
    "DROP TRIGGER memoryd_message_deleted;"
    "DROP TRIGGER memoryd_message_replaced;"
    "DROP TRIGGER memoryd_session_deleted;"
    "DROP TRIGGER memoryd_config_replaced;"
    "DROP TRIGGER memoryd_block_deleted;"
    "DROP TRIGGER memoryd_state_replaced;"
    "DROP TRIGGER memoryd_request_deleted;"
    "DROP TRIGGER memoryd_reply_replaced;"
    "DROP TABLE memoryd_values;"
    "DELETE FROM memoryd_schema WHERE version > 8;"
    "PRAGMA user_version = 8;";

}  // namespace memoryd::sqlite

#endif  // MEMORYD_CORE_STORAGE_SQLITE_UNDONE_STEP_H_
