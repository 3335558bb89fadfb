#include "server/migrated_store.h"

#include <signal.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <ctime>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error_cause.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"
#include "server/config.h"
#include "server/start_watch.h"

namespace memoryd {
namespace {

constexpr std::chrono::seconds kStoreRetry(1);

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> OpenMigratedStore(const Config& config, const sigset_t& stop,
                                                         StartWatch& start) {
  StoreOptions options;
  options.url = config.store;
  options.coherence = config.coherence;
  // One more for large writes, see EngineOptions.
  options.writers = config.committers + (FindStoreKind(config.store)->commits_at_once ? 1 : 0);
  options.readers = config.readers;
  options.timeout_ms = config.store_timeout_ms;
  options.transaction_pooling = config.transaction_pooling;
  options.accept_lost_commits = config.accept_lost_commits;
  options.warn = [](const std::string& line) { spdlog::warn("store: {}", line); };
  for (;;) {
    start.Begin("opening the store");
    absl::StatusOr<std::unique_ptr<Store>> store = OpenStore(options);
    absl::Status status = store.status();
    if (status.ok()) {
      start.Begin("bringing the store's schema up to date");
      status = (*store)->Migrate();
    }
    start.End();
    if (status.ok()) return store;
    if (!absl::IsUnavailable(status)) return status;
    spdlog::warn("waiting for the store: {}", TextForLog(status));
    const timespec wait{std::chrono::seconds(kStoreRetry).count(), 0};
    if (sigtimedwait(&stop, nullptr, &wait) > 0) return absl::CancelledError("stopped");
  }
}

}  // namespace memoryd
