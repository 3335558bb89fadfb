#include "core/storage/sqlite/sqlite_url.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/storage/store_url.h"

namespace memoryd {
namespace {

constexpr std::string_view kScheme = "sqlite";

// https://docs.sqlalchemy.org/en/20/dialects/sqlite.html. Not pysqlcipher, whose files are
// encrypted.
constexpr std::array<std::string_view, 3> kDrivers = {"aiosqlite", "pysqlite", "pysqlite_numeric"};

absl::Status Refused(const std::string& message) { return absl::InvalidArgumentError(message); }

// What follows `sqlite://`.
absl::StatusOr<StoreUrl> ParseSqlalchemy(std::string_view scheme, std::string_view rest) {
  const bool was_read = scheme == kScheme;
  if (rest.empty() || rest == "/") {
    return Refused(fmt::format(
        "names no file: write {0}:///memory.db for one in the working folder, {0}:////PATH for one "
        "anywhere, or sqlite::memory: for a database that is gone with the server",
        scheme));
  }
  if (rest.find('?') != std::string_view::npos) {
    return Refused(
        "has parameters behind a ?, of which a SQLite store takes none: leave them out, or write "
        "sqlite:PATH where the file's name has a ?");
  }
  if (!rest.starts_with('/')) {
    return Refused(fmt::format(
        "has two slashes behind {0}:, so it would name a host: write {0}:///{1} for a path from "
        "the working folder, or {0}:////{1} for one from the root",
        scheme, LooksLikePath(rest) ? rest : "PATH"));
  }
  StoreUrl parsed{kScheme, std::string(rest.substr(1))};
  if (was_read && !rest.starts_with("//")) parsed.former_place = rest;
  return parsed;
}

}  // namespace

absl::StatusOr<StoreUrl> ParseSqliteUrl(std::string_view url) {
  const std::string_view scheme = SchemeOf(url);
  if (WithoutDriver(scheme) != kScheme) return Refused("is not of a SQLite store");
  MEMORYD_RETURN_IF_ERROR(CheckDriver(scheme, kDrivers, "sqlite:PATH"));
  const std::string_view rest = url.substr(scheme.size() + 1);
  if (rest.starts_with("//")) return ParseSqlalchemy(scheme, rest.substr(2));
  if (scheme != kScheme) {
    return Refused(
        fmt::format("must have slashes behind {0}: as in {0}:///memory.db, or be spelt "
                    "sqlite:PATH",
                    scheme));
  }
  if (rest.empty()) return Refused("must name a file: sqlite:PATH");
  return StoreUrl{kScheme, std::string(rest)};
}

}  // namespace memoryd
