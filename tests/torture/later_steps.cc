// A schema one version newer than the released one, on which binaries of that can work: columns
// that may keep their defaults, and a table that nobody needs.
#include <array>
#include <span>
#include <string_view>

#include "core/storage/schema_steps.h"

namespace memoryd {
namespace {

constexpr std::array<SchemaStep, 1> kPostgres = {{{R"sql(
ALTER TABLE memoryd_sessions ADD COLUMN later bigint NOT NULL DEFAULT 0;
ALTER TABLE memoryd_messages ADD COLUMN later text;
CREATE TABLE memoryd_later (tenant text COLLATE "C", session text COLLATE "C",
  PRIMARY KEY (tenant, session));
)sql",
                                                   kReleasedSteps}}};

constexpr std::array<SchemaStep, 1> kSqlite = {{{R"sql(
ALTER TABLE memoryd_sessions ADD COLUMN later INTEGER NOT NULL DEFAULT 0;
ALTER TABLE memoryd_messages ADD COLUMN later TEXT;
CREATE TABLE memoryd_later (tenant TEXT, session TEXT, PRIMARY KEY (tenant, session))
  WITHOUT ROWID;
)sql",
                                                 kReleasedSteps}}};

}  // namespace

std::span<const SchemaStep> LaterSteps(std::string_view scheme) {
  if (scheme == "postgresql") return kPostgres;
  if (scheme == "sqlite") return kSqlite;
  return {};
}

}  // namespace memoryd
