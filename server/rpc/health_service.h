// The RPCs of grpc.health.v1.Health.
#ifndef MEMORYD_SERVER_RPC_HEALTH_SERVICE_H_
#define MEMORYD_SERVER_RPC_HEALTH_SERVICE_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "core/base/mutex.h"
#include "server/wire/rpc_call.h"

namespace memoryd {

// Open to everybody. Any thread.
class HealthService {
 public:
  // The service outlives `methods`.
  void AddTo(RpcMethods& methods);

  // Of a service by its full name, or of the server with "". Watchers hear of it. A service that
  // was never set is unknown.
  void SetServing(const std::string& service, bool serving) MEMORYD_EXCLUDES(mutex_);

  // nullopt for an unknown service.
  std::optional<bool> IsServing(std::string_view service) const MEMORYD_EXCLUDES(mutex_);

  void Check(RpcCallPtr rpc);
  void Watch(RpcCallPtr rpc);

 private:
  class Watcher;

  void Add(const std::shared_ptr<Watcher>& watcher) MEMORYD_EXCLUDES(mutex_);
  void Remove(const std::shared_ptr<Watcher>& watcher) MEMORYD_EXCLUDES(mutex_);

  mutable Mutex mutex_;
  std::map<std::string, bool, std::less<>> serving_ MEMORYD_GUARDED_BY(mutex_);
  std::set<std::shared_ptr<Watcher>> watchers_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_HEALTH_SERVICE_H_
