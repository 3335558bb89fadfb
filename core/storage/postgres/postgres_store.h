// The store over PostgreSQL 14 or newer.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_POSTGRES_STORE_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_POSTGRES_STORE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "core/storage/postgres/postgres_url.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"

namespace memoryd {

// See OpenStore. Besides `writers` and `readers` the store keeps one connection for Revisions and
// Ping and, with exclusive coherence, one that holds the lock. All calls are bounded by
// `timeout_ms`, except that Purge is so step by step, and that opening a connection takes the URL's
// connect_timeout for each host that does not answer, and Migrate a minute more. The writers'
// connections and a reader's are opened at once.
absl::StatusOr<std::unique_ptr<Store>> OpenPostgresStore(const StoreOptions& options);

inline constexpr StoreKind kPostgresStore = {
    .scheme = "postgresql",
    .alias = "postgres",
    .example = "postgresql://USER@HOST/DATABASE",
    .url_is_path = false,
    .parse = &ParsePostgresUrl,
    .open = &OpenPostgresStore,
    .default_coherence = Coherence::kShared,
    .commits_at_once = true,
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_POSTGRES_STORE_H_
