#include "core/storage/sqlite/value.h"

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/storage/sqlite/database.h"

namespace memoryd::sqlite {
namespace {

constexpr char kInsertValue[] = "INSERT INTO memoryd_values (value) VALUES (?)";
constexpr char kSelectValue[] = "SELECT value FROM memoryd_values WHERE id = ?";
// Both numbers are of one moment. tests/support/sqlite_check.py asks the same.
constexpr char kCheckValues[] =
    "WITH named (id) AS (SELECT body FROM memoryd_messages WHERE typeof(body) = 'integer'"
    " UNION ALL SELECT tool_ids FROM memoryd_messages WHERE typeof(tool_ids) = 'integer'"
    " UNION ALL SELECT config FROM memoryd_sessions WHERE typeof(config) = 'integer'"
    " UNION ALL SELECT state FROM memoryd_blocks WHERE typeof(state) = 'integer'"
    " UNION ALL SELECT reply FROM memoryd_requests WHERE typeof(reply) = 'integer')"
    " SELECT (SELECT count(*) FROM memoryd_values WHERE id NOT IN (SELECT id FROM named)),"
    " (SELECT count(*) FROM named AS n"
    " WHERE NOT EXISTS (SELECT 1 FROM memoryd_values AS v WHERE v.id = n.id))";
// The same of items, whose values have their ids.
constexpr char kCheckItemValues[] =
    "SELECT (SELECT count(*) FROM memoryd_item_values WHERE id NOT IN"
    " (SELECT id FROM memoryd_items WHERE value IS NULL)),"
    " (SELECT count(*) FROM memoryd_items AS i WHERE value IS NULL"
    " AND NOT EXISTS (SELECT 1 FROM memoryd_item_values AS v WHERE v.id = i.id))";
constexpr char kSelectTable[] = "SELECT 1 FROM sqlite_schema WHERE name = ?";
constexpr char kDeleteValue[] = "DELETE FROM memoryd_values WHERE id = ?";

}  // namespace

int NewValue::Store(Database& db) {
  if (!is_large()) return SQLITE_OK;
  Query query = db.Prepare(kInsertValue);
  query.BindBlob(bytes_);
  const int code = query.Run();
  if (code == SQLITE_OK) id_ = db.last_inserted_id();
  return code;
}

void NewValue::BindTo(Query& query) const {
  if (id_.has_value()) {
    query.Bind(*id_);
  } else {
    query.BindBlob(bytes_);
  }
}

int NewValue::TakeBack(Database& db) const {
  if (!id_.has_value()) return SQLITE_OK;
  Query query = db.Prepare(kDeleteValue);
  query.Bind(*id_);
  return query.Run();
}

absl::StatusOr<std::string> ReadValue(Database& db, const Query& query, int column) {
  if (!query.IsInteger(column)) return query.String(column);
  Query value = db.Prepare(kSelectValue);
  value.Bind(query.Int(column));
  MEMORYD_ASSIGN_OR_RETURN(const bool found, value.Next());
  if (!found) return UnreadableRow();
  return value.String(0);
}

absl::StatusOr<ValueFaults> CheckValues(Database& db) {
  ValueFaults faults;
  // A file of an older schema has one of the tables, or neither.
  for (const auto& [table, check] : {std::pair("memoryd_values", kCheckValues),
                                     std::pair("memoryd_item_values", kCheckItemValues)}) {
    {
      Query known = db.Prepare(kSelectTable);
      MEMORYD_ASSIGN_OR_RETURN(const bool found, known.BindText(table).Next());
      if (!found) continue;
    }
    Query query = db.Prepare(check);
    MEMORYD_RETURN_IF_ERROR(query.Next().status());
    faults.strays += query.Int(0);
    faults.missing += query.Int(1);
  }
  return faults;
}

}  // namespace memoryd::sqlite
