#include "core/storage/postgres/sqlstate.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/base/error_cause.h"

namespace memoryd {
namespace {

struct Mapping {
  std::string_view prefix;
  absl::StatusCode code;
  std::string_view message;
};

// Stands for StoreUnavailable().
constexpr std::string_view kUnreachable;

// The first prefix that fits counts. ABORTED is for callers whose expectation did not hold, not for
// calls that the server gave up: those changed nothing and may be repeated as they are.
constexpr Mapping kMappings[] = {
    {"08", absl::StatusCode::kUnavailable, kUnreachable},
    {"22", absl::StatusCode::kInvalidArgument, "the store refuses a value of the request"},
    {kSqlStateReadOnly, absl::StatusCode::kUnavailable, "the store takes no writes"},
    {"28", absl::StatusCode::kFailedPrecondition, "the store refuses the configured user"},
    {"3D", absl::StatusCode::kFailedPrecondition, "the store's database does not exist"},
    {"40", absl::StatusCode::kUnavailable, "the store aborted the call, try again"},
    {"42501", absl::StatusCode::kFailedPrecondition, "the store's user lacks a privilege"},
    {"42P01", absl::StatusCode::kFailedPrecondition, "the store has no schema, migrate it"},
    {"53300", absl::StatusCode::kUnavailable, "the store has no connection left"},
    {"53", absl::StatusCode::kResourceExhausted, "the store is full"},
    {"54", absl::StatusCode::kResourceExhausted, "the change is too large for the store"},
    {kSqlStateLockTimeout, absl::StatusCode::kUnavailable,
     "somebody holds a lock in the store, try again"},
    {"57014", absl::StatusCode::kUnavailable, "the store took too long, try again"},
    {"57P", absl::StatusCode::kUnavailable, kUnreachable},
};

// Classes whose messages name what the operator has set up, and no values.
constexpr std::string_view kOfTheStore[] = {"08", "25", "28", "3D", "40", "42",
                                            "53", "54", "55", "57", "58", "XX"};

absl::Status CallersStatus(std::string_view sqlstate) {
  if (sqlstate.empty()) return StoreUnavailable();
  for (const Mapping& mapping : kMappings) {
    if (sqlstate.starts_with(mapping.prefix)) {
      if (mapping.message == kUnreachable) return StoreUnavailable();
      return absl::Status(mapping.code, std::string(mapping.message));
    }
  }
  return absl::InternalError("the store failed unexpectedly: " + std::string(sqlstate));
}

}  // namespace

absl::Status StatusForSqlState(std::string_view sqlstate, std::string_view said) {
  return WithServersCause(CallersStatus(sqlstate), sqlstate, said);
}

absl::Status WithServersCause(absl::Status status, std::string_view sqlstate,
                              std::string_view said) {
  // Of several hosts libpq tells line by line.
  if (sqlstate.empty()) return WithCause(std::move(status), kSqlStateConnectionLost, said);
  const bool is_told =
      std::any_of(std::begin(kOfTheStore), std::end(kOfTheStore),
                  [sqlstate](std::string_view of) { return sqlstate.starts_with(of); });
  if (!is_told) said = {};
  // What follows the first line may quote rows.
  return WithCause(std::move(status), sqlstate, said.substr(0, said.find('\n')));
}

bool IsWorthRetrying(std::string_view sqlstate) {
  return IsLostToOthers(sqlstate) || sqlstate == "57014";
}

bool IsLostToOthers(std::string_view sqlstate) {
  return sqlstate == "40001" || sqlstate == "40P01" || sqlstate == kSqlStateLockTimeout;
}

bool IsOfOneChange(std::string_view sqlstate) {
  // Of a value, of a row met twice by one statement, of a constraint.
  return sqlstate.starts_with("22") || sqlstate.starts_with("21") || sqlstate.starts_with("23");
}

bool SpoilsAllConnections(std::string_view sqlstate) {
  return sqlstate == kSqlStateReadOnly || sqlstate.starts_with("57P0");
}

}  // namespace memoryd
