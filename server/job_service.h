// The RPCs of memoryd.v1.JobService.
#ifndef MEMORYD_SERVER_JOB_SERVICE_H_
#define MEMORYD_SERVER_JOB_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>

#include "core/engine/engine.h"
#include "memoryd/v1/job_service.grpc.pb.h"
#include "server/model_usage.h"
#include "server/unary_call.h"

namespace memoryd {

using RawJobService = v1::JobService::WithRawCallbackMethod_ListJobs<
    v1::JobService::WithRawCallbackMethod_GetJob<v1::JobService::WithRawCallbackMethod_RetryJob<
        v1::JobService::WithRawCallbackMethod_CancelJob<
            v1::JobService::WithRawCallbackMethod_GetUsage<v1::JobService::Service>>>>>;

// As MemoryService: nothing waits on gRPC's threads.
class JobService final : public RawJobService {
 public:
  // `start_us`: since when `usage` counts.
  JobService(Engine* engine, ModelUsage* usage, std::int64_t start_us,
             const CallEnvironment& environment)
      : engine_(*engine), usage_(*usage), start_us_(start_us), environment_(environment) {}

  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;

  grpc::ServerUnaryReactor* ListJobs(Context*, const Bytes*, Bytes*) override;
  grpc::ServerUnaryReactor* GetJob(Context*, const Bytes*, Bytes*) override;
  grpc::ServerUnaryReactor* RetryJob(Context*, const Bytes*, Bytes*) override;
  grpc::ServerUnaryReactor* CancelJob(Context*, const Bytes*, Bytes*) override;
  grpc::ServerUnaryReactor* GetUsage(Context*, const Bytes*, Bytes*) override;

 private:
  Engine& engine_;
  ModelUsage& usage_;
  const std::int64_t start_us_;
  const CallEnvironment environment_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_JOB_SERVICE_H_
