// Keeps gRPC's health service true.
#ifndef MEMORYD_SERVER_HEALTH_MONITOR_H_
#define MEMORYD_SERVER_HEALTH_MONITOR_H_

#include <grpcpp/health_check_service_interface.h>

#include <chrono>
#include <thread>

#include "core/base/mutex.h"
#include "core/engine/engine.h"

namespace memoryd {

// Asks the store once a second. "" and the services are SERVING while the last good answer is
// younger than three seconds, however long the store takes to fail; `liveness` is always SERVING,
// so that a store's outage restarts no server.
class HealthMonitor {
 public:
  HealthMonitor(Engine* engine, grpc::HealthCheckServiceInterface* health);
  ~HealthMonitor();
  HealthMonitor(const HealthMonitor&) = delete;
  HealthMonitor& operator=(const HealthMonitor&) = delete;

  // NOT_SERVING from now on.
  void BeginDrain() MEMORYD_EXCLUDES(mutex_);

 private:
  void Ask() MEMORYD_EXCLUDES(mutex_);
  void Report() MEMORYD_EXCLUDES(mutex_);
  void SetServing(bool serving);

  Engine* const engine_;
  grpc::HealthCheckServiceInterface* const health_;
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

#endif  // MEMORYD_SERVER_HEALTH_MONITOR_H_
