#include "core/storage/stores.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/storage/postgres/postgres_store.h"
#include "core/storage/sqlite/sqlite_store.h"
#include "core/storage/store.h"
#include "core/storage/store_url.h"

namespace memoryd {
namespace {

constexpr std::array kKinds = {
    kSqliteStore,
    kPostgresStore,
};

// `sqlite:memory.db for this file, or postgresql://…` of the URL `memory.db`, which has no scheme.
std::string Examples(std::string_view url) {
  std::string examples;
  for (const StoreKind& kind : kKinds) {
    if (!examples.empty()) examples += ", or ";
    examples += kind.url_is_path && LooksLikePath(url)
                    ? fmt::format("{}:{} for this file", kind.scheme, url)
                    : kind.example;
  }
  return examples;
}

}  // namespace

std::span<const StoreKind> StoreKinds() { return kKinds; }

const StoreKind* FindStoreKind(std::string_view url) {
  const std::string_view name = WithoutDriver(SchemeOf(url));
  const auto* const kind = std::ranges::find_if(kKinds, [name](const StoreKind& candidate) {
    return !name.empty() && (name == candidate.scheme || name == candidate.alias);
  });
  return kind == kKinds.end() ? nullptr : kind;
}

absl::StatusOr<StoreUrl> ParseStoreUrl(std::string_view url) {
  if (const StoreKind* const kind = FindStoreKind(url)) return kind->parse(url);
  const std::string_view scheme = SchemeOf(url);
  if (scheme.empty()) {
    return absl::InvalidArgumentError(fmt::format("has no scheme: write {}", Examples(url)));
  }
  return absl::InvalidArgumentError(fmt::format("begins with {}:, a scheme of no store: write {}",
                                                scheme.substr(0, kLongestShownScheme),
                                                Examples({})));
}

absl::StatusOr<std::unique_ptr<Store>> OpenStore(const StoreOptions& options) {
  if (const StoreKind* const kind = FindStoreKind(options.url)) return kind->open(options);
  return InvalidField("store", std::string(ParseStoreUrl(options.url).status().message()));
}

}  // namespace memoryd
