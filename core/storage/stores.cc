#include "core/storage/stores.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/storage/postgres/postgres_store.h"
#include "core/storage/sqlite/sqlite_store.h"
#include "core/storage/store_url.h"

namespace memoryd {
namespace {

constexpr std::array kKinds = {
    StoreKind{kSqliteKind, &OpenSqliteStore, Coherence::kExclusive},
    StoreKind{kPostgresKind, &OpenPostgresStore, Coherence::kShared},
};

}  // namespace

std::span<const StoreKind> StoreKinds() { return kKinds; }

const StoreKind* FindStoreKind(std::string_view url) {
  const absl::StatusOr<StoreUrl> parsed = ParseStoreUrl(url);
  if (!parsed.ok()) return nullptr;
  return std::ranges::find(kKinds, parsed->kind, &StoreKind::scheme);
}

absl::StatusOr<std::unique_ptr<Store>> OpenStore(const StoreOptions& options) {
  const absl::StatusOr<StoreUrl> parsed = ParseStoreUrl(options.url);
  if (!parsed.ok()) return InvalidField("store", std::string(parsed.status().message()));
  return FindStoreKind(options.url)->open(options);
}

}  // namespace memoryd
