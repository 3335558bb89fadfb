// The RPCs of memoryd.v1.JobService.
#ifndef MEMORYD_SERVER_RPC_JOB_SERVICE_H_
#define MEMORYD_SERVER_RPC_JOB_SERVICE_H_

#include <cstdint>

#include "core/engine/engine.h"
#include "memoryd/v1/job_service.pb.h"
#include "server/ops/model_usage.h"
#include "server/rpc/unary_call.h"

namespace memoryd {

// As MemoryService: nothing waits on the threads of connections.
class JobService final {
 public:
  // `start_us`: since when `usage` counts.
  JobService(Engine* engine, ModelUsage* usage, std::int64_t start_us,
             const CallEnvironment& environment)
      : engine_(*engine), usage_(*usage), start_us_(start_us), environment_(environment) {}

  // The service outlives `methods`.
  void AddTo(RpcMethods& methods);

  void ListJobs(RpcCallPtr rpc);
  void GetJob(RpcCallPtr rpc);
  void RetryJob(RpcCallPtr rpc);
  void CancelJob(RpcCallPtr rpc);
  void GetUsage(RpcCallPtr rpc);

 private:
  Engine& engine_;
  ModelUsage& usage_;
  const std::int64_t start_us_;
  const CallEnvironment environment_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_JOB_SERVICE_H_
