#include "core/storage/stores.h"

#include <array>

#include "core/base/error.h"
#include "core/storage/postgres/postgres_store.h"
#include "core/storage/sqlite/sqlite_store.h"

namespace memoryd {
namespace {

constexpr std::array kKinds = {
    StoreKind{"sqlite", &OpenSqliteStore, Coherence::kExclusive},
    StoreKind{"postgresql", &OpenPostgresStore, Coherence::kShared},
};

}  // namespace

std::span<const StoreKind> StoreKinds() { return kKinds; }

const StoreKind* FindStoreKind(std::string_view url) {
  const std::string_view scheme = url.substr(0, url.find(':'));
  for (const StoreKind& kind : kKinds) {
    if (kind.scheme == scheme) return &kind;
  }
  return nullptr;
}

absl::StatusOr<std::unique_ptr<Store>> OpenStore(const StoreOptions& options) {
  const StoreKind* kind = FindStoreKind(options.url);
  if (kind == nullptr) {
    return InvalidField("store", "must begin with sqlite: or postgresql://");
  }
  return kind->open(options);
}

}  // namespace memoryd
