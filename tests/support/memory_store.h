// A store for one test.
#ifndef MEMORYD_TESTS_SUPPORT_MEMORY_STORE_H_
#define MEMORYD_TESTS_SUPPORT_MEMORY_STORE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/storage/sqlite/sqlite_store.h"
#include "core/storage/store.h"

namespace memoryd {

// An empty SQLite store in memory, with its schema.
inline absl::StatusOr<std::unique_ptr<Store>> OpenMemoryStore() {
  StoreOptions options;
  options.url = "sqlite::memory:";
  MEMORYD_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, OpenSqliteStore(options));
  MEMORYD_RETURN_IF_ERROR(store->Migrate());
  return store;
}

}  // namespace memoryd

#endif  // MEMORYD_TESTS_SUPPORT_MEMORY_STORE_H_
