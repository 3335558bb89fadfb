// The table of stores: URL scheme -> implementation.
#ifndef MEMORYD_CORE_STORAGE_STORES_H_
#define MEMORYD_CORE_STORAGE_STORES_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/storage/store.h"
#include "core/storage/store_url.h"

namespace memoryd {

// Who may write to the sessions of a store.
enum class Coherence {
  kShared,     // Any number of servers; reads are checked against the store.
  kExclusive,  // This server alone, secured by a lock in the store.
};

// Whether a pooler in transaction mode is between a server and PostgreSQL. Connections have no
// session state then.
enum class Pooling {
  kNone,
  kNamed,    // Statements have names, until the pooler is seen to lose them.
  kUnnamed,  // They have none.
};

struct StoreOptions {
  // As ParseStoreUrl takes it: `sqlite:PATH`, `sqlite::memory:`, `postgresql://…` (libpq's URI,
  // several hosts allowed), or one of SQLAlchemy's spellings of these.
  std::string url;
  Coherence coherence = Coherence::kShared;
  // Commits that may run at the same time, 1 to 17.
  int writers = 2;
  // Reads that may run at the same time, 1 to 64.
  int readers = 4;
  // Bounds every call to the store, in milliseconds.
  int timeout_ms = 5000;
  Pooling transaction_pooling = Pooling::kNone;
  // SQLite: the loss of commits in a damaged log that is accepted, as the refusal to open named it.
  std::string accept_lost_commits = {};
  // Given lines for the operator's log, on any thread, as long as the store lives; may be empty.
  std::function<void(const std::string& line)> warn = {};
};

// Opens without migrating. INVALID_ARGUMENT for a URL of no known scheme; FAILED_PRECONDITION when
// another process holds an exclusive store; UNAVAILABLE when it can't be reached.
absl::StatusOr<std::unique_ptr<Store>> OpenStore(const StoreOptions& options);

// What a store's folder says of it, in a constant of its header.
struct StoreKind {
  // A URL's, without a driver and as it is most often spelt; `alias`, another, may be empty.
  std::string_view scheme;
  std::string_view alias;
  // How to write a URL, for the error of one that names no store.
  std::string_view example;
  // Whether a URL is a path, which holds no password and may be shown.
  bool url_is_path;
  absl::StatusOr<StoreUrl> (*parse)(std::string_view url);
  absl::StatusOr<std::unique_ptr<Store>> (*open)(const StoreOptions& options);
  Coherence default_coherence;
  // Whether a commit does not wait for another that is under way.
  bool commits_at_once;
};

// Every store there is; the contract suite runs over this table.
std::span<const StoreKind> StoreKinds();

// The kind that a URL's scheme names, nullptr for none. Its parse() may still refuse the URL.
const StoreKind* FindStoreKind(std::string_view url);

// INVALID_ARGUMENT in words that follow the setting's name and say what to write. They hold no
// password.
absl::StatusOr<StoreUrl> ParseStoreUrl(std::string_view url);

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_STORES_H_
