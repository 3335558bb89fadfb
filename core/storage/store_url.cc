#include "core/storage/store_url.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "absl/status/status.h"
#include "core/base/status_macros.h"

namespace memoryd {
namespace {

constexpr std::string_view kPostgresAlias = "postgres";
constexpr std::string_view kHowToWrite =
    "write sqlite:PATH for a file, or postgresql://USER@HOST/DATABASE";
constexpr std::size_t kLongestShown = 100;

// https://docs.sqlalchemy.org/en/20/dialects/sqlite.html. Not pysqlcipher, whose files are
// encrypted.
constexpr std::array<std::string_view, 3> kSqliteDrivers = {"aiosqlite", "pysqlite",
                                                            "pysqlite_numeric"};

// https://docs.sqlalchemy.org/en/20/dialects/postgresql.html
constexpr std::array<std::string_view, 7> kPostgresDrivers = {
    "asyncpg", "pg8000", "psycopg", "psycopg2", "psycopg2cffi", "psycopg_async", "pygresql"};

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

absl::Status Refused(const std::string& message) { return absl::InvalidArgumentError(message); }

// A path and nothing else: what a password may be a part of is not shown.
bool LooksLikePath(std::string_view text) {
  return !text.empty() && text.size() <= kLongestShown && std::ranges::all_of(text, [](char c) {
    return IsLetter(c) || IsDigit(c) || c == '/' || c == '.' || c == '_' || c == '-';
  });
}

absl::Status CheckDriver(std::string_view scheme, std::string_view kind,
                         std::span<const std::string_view> drivers) {
  const std::string_view name = WithoutDriver(scheme);
  if (name.size() == scheme.size()) return absl::OkStatus();
  if (std::ranges::find(drivers, scheme.substr(name.size() + 1)) != drivers.end()) {
    return absl::OkStatus();
  }
  return Refused(fmt::format("begins with {}:, which names no driver that is known here: write {}",
                             scheme.substr(0, kLongestShown),
                             kind == kSqliteKind ? "sqlite:PATH" : "postgresql://…"));
}

// What follows `sqlite://`.
absl::StatusOr<StoreUrl> ParseSqlalchemySqlite(std::string_view scheme, std::string_view rest) {
  const bool was_read = scheme == kSqliteKind;
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
  StoreUrl parsed{kSqliteKind, std::string(rest.substr(1))};
  if (was_read && !rest.starts_with("//")) parsed.former_path = rest;
  return parsed;
}

absl::StatusOr<StoreUrl> ParseSqlite(std::string_view scheme, std::string_view rest) {
  MEMORYD_RETURN_IF_ERROR(CheckDriver(scheme, kSqliteKind, kSqliteDrivers));
  if (rest.starts_with("//")) return ParseSqlalchemySqlite(scheme, rest.substr(2));
  if (scheme != kSqliteKind) {
    return Refused(
        fmt::format("must have slashes behind {0}: as in {0}:///memory.db, or be spelt "
                    "sqlite:PATH",
                    scheme));
  }
  if (rest.empty()) return Refused("must name a file: sqlite:PATH");
  return StoreUrl{kSqliteKind, std::string(rest)};
}

absl::StatusOr<StoreUrl> ParsePostgres(std::string_view scheme, std::string_view rest) {
  MEMORYD_RETURN_IF_ERROR(CheckDriver(scheme, kPostgresKind, kPostgresDrivers));
  // Not what libpq takes as well, `host=… password=…`.
  if (!rest.starts_with("//")) {
    return Refused(fmt::format(
        "must have two slashes behind {}: write postgresql://USER@HOST/DATABASE", scheme));
  }
  return StoreUrl{kPostgresKind, fmt::format("{}:{}", kPostgresKind, rest)};
}

}  // namespace

std::string_view SchemeOf(std::string_view url) {
  const std::size_t colon = url.find(':');
  if (colon == std::string_view::npos) return {};
  const std::string_view scheme = url.substr(0, colon);
  const bool is_scheme =
      !scheme.empty() && IsLetter(scheme.front()) && std::ranges::all_of(scheme, [](char c) {
        return IsLetter(c) || IsDigit(c) || c == '+' || c == '-' || c == '.' || c == '_';
      });
  return is_scheme ? scheme : std::string_view();
}

std::string_view WithoutDriver(std::string_view scheme) {
  return scheme.substr(0, scheme.find('+'));
}

absl::StatusOr<StoreUrl> ParseStoreUrl(std::string_view url) {
  const std::string_view scheme = SchemeOf(url);
  if (scheme.empty()) {
    if (!LooksLikePath(url)) return Refused(fmt::format("has no scheme: {}", kHowToWrite));
    return Refused(fmt::format(
        "has no scheme: write sqlite:{} for this file, or postgresql://USER@HOST/DATABASE", url));
  }
  const std::string_view rest = url.substr(scheme.size() + 1);
  const std::string_view name = WithoutDriver(scheme);
  if (name == kSqliteKind) return ParseSqlite(scheme, rest);
  if (name == kPostgresKind || name == kPostgresAlias) return ParsePostgres(scheme, rest);
  return Refused(fmt::format("begins with {}:, a scheme of no store: {}",
                             scheme.substr(0, kLongestShown), kHowToWrite));
}

}  // namespace memoryd
