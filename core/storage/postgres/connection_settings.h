// How to connect: the URL with what memoryd adds.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_CONNECTION_SETTINGS_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_CONNECTION_SETTINGS_H_

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/storage/postgres/statement_names.h"
#include "core/storage/stores.h"

namespace memoryd {

using Deadline = std::chrono::steady_clock::time_point;

struct ConnectionSettings {
  // libpq's keywords and their values.
  std::vector<std::pair<std::string, std::string>> values;
  // Whether statements are prepared under names; of all connections that have these settings.
  std::shared_ptr<StatementNames> names;

  // The values as one connection string.
  std::string ConnectionString() const;
};

// The URL's own parameters win; added are timeouts, keepalives, the search for a server that takes
// writes, and, unless a transaction pooler stands between, settings of the connection.
// INVALID_ARGUMENT for a URL that libpq does not understand, or takes a part of its password for
// a host or port.
absl::StatusOr<ConnectionSettings> MakeConnectionSettings(const StoreOptions& options);

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_CONNECTION_SETTINGS_H_
