#include "core/storage/postgres/postgres_url.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/storage/store_url.h"

namespace memoryd {
namespace {

constexpr std::string_view kScheme = "postgresql";
constexpr std::string_view kAlias = "postgres";

// https://docs.sqlalchemy.org/en/20/dialects/postgresql.html
constexpr std::array<std::string_view, 7> kDrivers = {
    "asyncpg", "pg8000", "psycopg", "psycopg2", "psycopg2cffi", "psycopg_async", "pygresql"};

}  // namespace

absl::StatusOr<StoreUrl> ParsePostgresUrl(std::string_view url) {
  const std::string_view scheme = SchemeOf(url);
  const std::string_view name = WithoutDriver(scheme);
  if (name != kScheme && name != kAlias) {
    return absl::InvalidArgumentError("is not of a PostgreSQL store");
  }
  MEMORYD_RETURN_IF_ERROR(CheckDriver(scheme, kDrivers, "postgresql://…"));
  const std::string_view rest = url.substr(scheme.size() + 1);
  // Not what libpq takes as well, `host=… password=…`.
  if (!rest.starts_with("//")) {
    return absl::InvalidArgumentError(fmt::format(
        "must have two slashes behind {}: write postgresql://USER@HOST/DATABASE", scheme));
  }
  return StoreUrl{kScheme, fmt::format("{}:{}", kScheme, rest)};
}

}  // namespace memoryd
