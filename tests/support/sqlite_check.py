"""What is wrong with a SQLite store."""

from __future__ import annotations

import sqlite3

# As kCheckValues in core/storage/sqlite/value.cc.
_VALUES = """
WITH named (id) AS (SELECT body FROM memoryd_messages WHERE typeof(body) = 'integer'
  UNION ALL SELECT tool_ids FROM memoryd_messages WHERE typeof(tool_ids) = 'integer'
  UNION ALL SELECT config FROM memoryd_sessions WHERE typeof(config) = 'integer'
  UNION ALL SELECT state FROM memoryd_blocks WHERE typeof(state) = 'integer'
  UNION ALL SELECT reply FROM memoryd_requests WHERE typeof(reply) = 'integer')
SELECT 'value ' || id || ' belongs to no row' FROM memoryd_values
  WHERE id NOT IN (SELECT id FROM named)
UNION ALL SELECT 'value ' || id || ' is missing' FROM named AS n
  WHERE NOT EXISTS (SELECT 1 FROM memoryd_values AS v WHERE v.id = n.id)
UNION ALL SELECT 'value ' || id || ' belongs to ' || count(*) || ' rows' FROM named
  GROUP BY id HAVING count(*) > 1
"""
# As kCheckItemValues.
_ITEM_VALUES = """
SELECT 'item value ' || id || ' belongs to no row' FROM memoryd_item_values
  WHERE id NOT IN (SELECT id FROM memoryd_items WHERE value IS NULL)
UNION ALL SELECT 'item value ' || id || ' is missing' FROM memoryd_items AS i
  WHERE value IS NULL
  AND NOT EXISTS (SELECT 1 FROM memoryd_item_values AS v WHERE v.id = i.id)
"""


def sqlite_damage(database: sqlite3.Connection) -> list[str]:
    """What SQLite finds, and the large values that don't fit their rows."""
    rows = [row[0] for row in database.execute("PRAGMA integrity_check")]
    if rows != ["ok"]:
        return rows
    damage = []
    for table, check in (("memoryd_values", _VALUES), ("memoryd_item_values", _ITEM_VALUES)):
        # A test of the disk alone has tables of its own, and an older schema no items.
        if database.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (table,)).fetchall():
            damage += [row[0] for row in database.execute(check)]
    return damage
