// Keeps the health service true.
#ifndef MEMORYD_SERVER_RPC_HEALTH_MONITOR_H_
#define MEMORYD_SERVER_RPC_HEALTH_MONITOR_H_

#include <chrono>
#include <optional>
#include <thread>

#include "core/base/mutex.h"
#include "core/engine/engine.h"
#include "core/storage/observed_store.h"
#include "server/ops/memory_watch.h"
#include "server/rpc/health_service.h"

namespace memoryd {

// Asks the store once a second. "" and the services are SERVING while the last good answer is
// younger than three seconds, however long the store takes to fail; `liveness` is always SERVING,
// so that a store's outage restarts no server. Every half minute it also asks what the store
// promises, and says so in the log when it is another thing than before.
class HealthMonitor {
 public:
  // `store` is the engine's.
  // `memory` is looked at a few times a second.
  HealthMonitor(Engine* engine, ObservedStore* store, MemoryWatch* memory, HealthService* health);
  ~HealthMonitor();
  HealthMonitor(const HealthMonitor&) = delete;
  HealthMonitor& operator=(const HealthMonitor&) = delete;

  // NOT_SERVING from now on.
  void BeginDrain() MEMORYD_EXCLUDES(mutex_);

 private:
  void Ask() MEMORYD_EXCLUDES(mutex_);
  void Report() MEMORYD_EXCLUDES(mutex_);
  void Describe();
  void SetServing(bool serving);

  Engine* const engine_;
  ObservedStore* const store_;
  MemoryWatch* const memory_;
  HealthService* const health_;
  // Of the asking thread, once there is one.
  std::chrono::steady_clock::time_point described_;
  std::optional<Durability> durability_;
  Mutex mutex_;
  CondVar wake_;
  bool stopping_ MEMORYD_GUARDED_BY(mutex_) = false;
  bool draining_ MEMORYD_GUARDED_BY(mutex_) = false;
  bool answered_ MEMORYD_GUARDED_BY(mutex_) = false;
  std::chrono::steady_clock::time_point last_good_ MEMORYD_GUARDED_BY(mutex_);
  std::thread asker_;
  std::thread reporter_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_HEALTH_MONITOR_H_
