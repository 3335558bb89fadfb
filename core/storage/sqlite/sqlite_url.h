// How the URL of a SQLite store may be spelt.
#ifndef MEMORYD_CORE_STORAGE_SQLITE_SQLITE_URL_H_
#define MEMORYD_CORE_STORAGE_SQLITE_SQLITE_URL_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "core/storage/store_url.h"

namespace memoryd {

// The path of a database that is gone with its process.
inline constexpr std::string_view kMemoryPath = ":memory:";

// `sqlite:PATH`, `sqlite::memory:`, and as SQLAlchemy has it `sqlite:///RELATIVE`,
// `sqlite:////ABSOLUTE`, `sqlite:///:memory:`; also with the name of one of its drivers, as in
// `sqlite+aiosqlite:///…`. The place is a path, from the working folder unless it begins with a
// slash, or kMemoryPath. SQLAlchemy takes `sqlite://` for a database in memory: refused, since to
// lose all is seldom meant.
//
// INVALID_ARGUMENT in words that follow the setting's name and say what to write.
absl::StatusOr<StoreUrl> ParseSqliteUrl(std::string_view url);

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_SQLITE_SQLITE_URL_H_
