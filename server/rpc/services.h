// The services of a server, and the table of methods by which calls reach them.
#ifndef MEMORYD_SERVER_RPC_SERVICES_H_
#define MEMORYD_SERVER_RPC_SERVICES_H_

#include "core/engine/engine.h"
#include "core/workers/worker_registry.h"
#include "server/ops/model_usage.h"
#include "server/rpc/block_service.h"
#include "server/rpc/health_service.h"
#include "server/rpc/item_service.h"
#include "server/rpc/job_service.h"
#include "server/rpc/memory_service.h"
#include "server/rpc/reflection_service.h"
#include "server/rpc/server_service.h"
#include "server/rpc/session_service.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/watch_service.h"
#include "server/rpc/worker_service.h"
#include "server/wire/rpc_call.h"

namespace memoryd {

// What is pointed to outlives the services.
struct ServicesOptions {
  Engine* engine = nullptr;
  WorkerRegistry* workers = nullptr;
  ModelUsage* model_usage = nullptr;
  // Version, start and size of requests are those of all services.
  ServerFacts facts;
  // Whether to serve reflection, and for the right admin alone.
  bool wants_reflection = false;
  bool guards_reflection = false;
};

// All that a server answers. Outlives the listeners that its tables are given to. A service is a
// member here, and a line in the constructor adds it to methods(). Any thread.
class Services {
 public:
  Services(const ServicesOptions& options, const CallEnvironment& environment);
  Services(const Services&) = delete;
  Services& operator=(const Services&) = delete;

  // Every RPC of memoryd.v1, health, and reflection where that is wanted.
  const RpcMethods& methods() const { return methods_; }
  // Health alone, for the address of its own.
  const RpcMethods& health_methods() const { return health_methods_; }

  HealthService& health() { return health_; }
  WorkerService& worker_service() { return workers_; }
  WatchService& watch_service() { return watches_; }

 private:
  // Whether a caller may ask reflection.
  absl::Status AdmitToReflection(const RpcCall& rpc) const;

  const CallEnvironment environment_;
  const bool guards_reflection_;
  MemoryService memory_;
  SessionService sessions_;
  WatchService watches_;
  JobService jobs_;
  BlockService blocks_;
  ItemService items_;
  ServerService server_;
  WorkerService workers_;
  HealthService health_;
  ReflectionService reflection_;
  RpcMethods health_methods_;
  RpcMethods methods_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_SERVICES_H_
