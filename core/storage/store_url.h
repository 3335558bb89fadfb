// How the URL of a store may be spelt.
#ifndef MEMORYD_CORE_STORAGE_STORE_URL_H_
#define MEMORYD_CORE_STORAGE_STORE_URL_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace memoryd {

inline constexpr std::string_view kSqliteKind = "sqlite";
inline constexpr std::string_view kPostgresKind = "postgresql";
// The path of a SQLite database that is gone with its process.
inline constexpr std::string_view kMemoryPath = ":memory:";

struct StoreUrl {
  // kSqliteKind or kPostgresKind.
  std::string_view kind;
  // SQLite: a path, from the working folder unless it begins with a slash, or kMemoryPath.
  // PostgreSQL: the URI as libpq takes it, which nobody has looked at behind its `postgresql://`.
  std::string place;
  // SQLite: the path that earlier versions took this spelling for, where that is another.
  std::string former_path = {};
};

// SQLite: `sqlite:PATH`, `sqlite::memory:`, and as SQLAlchemy has it `sqlite:///RELATIVE`,
// `sqlite:////ABSOLUTE`, `sqlite:///:memory:`. PostgreSQL: `postgresql://…` or `postgres://…`. Both
// with the name of one of SQLAlchemy's drivers too, as in `postgresql+psycopg://…`. SQLAlchemy
// takes `sqlite://` for a database in memory: refused, since to lose all is seldom meant.
//
// INVALID_ARGUMENT in words that follow the setting's name and say what to write. They hold no
// password.
absl::StatusOr<StoreUrl> ParseStoreUrl(std::string_view url);

// What stands before the first colon, such as `postgresql+psycopg`; empty where that is no scheme.
std::string_view SchemeOf(std::string_view url);

// The scheme without a driver: `postgresql` of `postgresql+psycopg`.
std::string_view WithoutDriver(std::string_view scheme);

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_STORE_URL_H_
