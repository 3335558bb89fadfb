#include "core/storage/postgres/statement_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "core/base/sha256.h"
#include "core/storage/postgres/sqlstate.h"

namespace memoryd {

std::string StatementName(std::string_view sql, std::span<const unsigned> types) {
  // No statement holds a NUL.
  std::string text(sql);
  text += '\0';
  fmt::format_to(std::back_inserter(text), "{}", fmt::join(types, ","));
  const Sha256Digest digest = Sha256(text);
  // 16 of the 32 bytes: a name has at most 63 characters.
  return fmt::format("memoryd_{:02x}", fmt::join(digest.begin(), digest.begin() + 16, ""));
}

bool StatementNames::GiveUpAfter(std::string_view sqlstate) {
  if (sqlstate != kSqlStateNoSuchStatement && sqlstate != kSqlStateStatementExists) return false;
  if (used_.exchange(false) && warn_) {
    warn_(fmt::format(
        "prepared statements got lost between memoryd and PostgreSQL (SQLSTATE {}): statements "
        "have no names from now on, and PostgreSQL plans each anew. {}",
        sqlstate,
        pooled_ ? "The pooler does not keep them, as PgBouncer does from 1.21 on with "
                  "max_prepared_statements; transaction_pooling: unnamed is for those that do not"
                : "Is a pooler before it? Then set transaction_pooling"));
  }
  return true;
}

}  // namespace memoryd
