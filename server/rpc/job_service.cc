#include "server/rpc/job_service.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/model/job.h"
#include "core/model/session.h"
#include "core/storage/store.h"
#include "server/ops/model_usage.h"
#include "server/rpc/run_unary.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/write_call.h"
#include "server/wire/convert.h"
#include "server/wire/field_checks.h"
#include "server/wire/method.h"
#include "server/wire/page_token.h"
#include "server/wire/rpc_call.h"
#include "server/wire/timestamp.h"

namespace memoryd {
namespace {

constexpr std::size_t kMaxJobId = 128;

template <typename Request>
using Call = std::shared_ptr<ParsedCall<Request>>;

v1::JobState ToProto(JobState state) {
  switch (state) {
    case JobState::kOpen:
      return v1::JOB_STATE_OPEN;
    case JobState::kDone:
      return v1::JOB_STATE_DONE;
    case JobState::kFailed:
      return v1::JOB_STATE_FAILED;
    case JobState::kCancelled:
      return v1::JOB_STATE_CANCELLED;
  }
  return v1::JOB_STATE_UNSPECIFIED;
}

absl::StatusOr<std::optional<JobState>> FromProto(v1::JobState state) {
  switch (state) {
    case v1::JOB_STATE_UNSPECIFIED:
      return std::nullopt;
    case v1::JOB_STATE_OPEN:
      return JobState::kOpen;
    case v1::JOB_STATE_DONE:
      return JobState::kDone;
    case v1::JOB_STATE_FAILED:
      return JobState::kFailed;
    case v1::JOB_STATE_CANCELLED:
      return JobState::kCancelled;
    default:
      return InvalidField("state", "is not a known value");
  }
}

void Fill(const Job& job, v1::Job& proto) {
  proto.set_job_id(JobId(job.key));
  proto.set_block(job.key.block);
  proto.set_state(ToProto(job.state));
  proto.set_begin_position(job.begin);
  proto.set_end_position(job.end);
  proto.set_attempts(job.attempts);
  proto.set_last_error(job.last_error);
  *proto.mutable_usage() = ToProto(job.usage);
  SetTime(proto.mutable_create_time(), job.create_us);
  SetTime(proto.mutable_update_time(), job.update_us);
  if (job.state == JobState::kOpen) SetTime(proto.mutable_due_time(), job.due_us);
}

// The job that a request names.
template <typename Request>
absl::StatusOr<JobKey> KeyOf(const ParsedCall<Request>& call) {
  MEMORYD_RETURN_IF_ERROR(CheckSessionId(call.request().session_id()));
  MEMORYD_RETURN_IF_ERROR(CheckId("job_id", call.request().job_id(), kMaxJobId));
  auto key = ParseJobId({call.tenant(), call.request().session_id()}, call.request().job_id());
  if (!key.has_value()) return InvalidField("job_id", "is not an id that this server gave");
  return *std::move(key);
}

template <typename Response, typename Request>
auto ReplyTo(const Call<Request>& call) {
  return [call](absl::StatusOr<Job> job) {
    if (!job.ok()) {
      call->Fail(job.status());
      return;
    }
    Response reply;
    Fill(*job, *reply.mutable_job());
    call->Succeed(ReplyFor(*call, reply.SerializeAsString()));
  };
}

}  // namespace

void JobService::AddTo(RpcMethods& methods) {
  methods.Add(Method::kListJobs, this, &JobService::ListJobs);
  methods.Add(Method::kGetJob, this, &JobService::GetJob);
  methods.Add(Method::kRetryJob, this, &JobService::RetryJob);
  methods.Add(Method::kCancelJob, this, &JobService::CancelJob);
  methods.Add(Method::kGetUsage, this, &JobService::GetUsage);
}

void JobService::ListJobs(RpcCallPtr rpc) {
  RunUnary<v1::ListJobsRequest>(
      environment_, Method::kListJobs, std::move(rpc),
      [this](const Call<v1::ListJobsRequest>& call) -> absl::Status {
        const v1::ListJobsRequest& request = call->request();
        MEMORYD_RETURN_IF_ERROR(CheckSessionId(request.session_id()));
        MEMORYD_ASSIGN_OR_RETURN(const std::int64_t size, PageSize(request.page_size()));
        JobFilter filter;
        MEMORYD_ASSIGN_OR_RETURN(filter.state, FromProto(request.state()));
        const SessionKey key{call->tenant(), request.session_id()};
        std::string scope = fmt::format("ListJobs/{}/{}/{}{}", static_cast<int>(request.state()),
                                        key.tenant.size(), key.tenant, key.session);
        if (!request.page_token().empty()) {
          MEMORYD_ASSIGN_OR_RETURN(const std::string after,
                                   DecodeListToken(scope, request.page_token()));
          const auto job = ParseJobId(key, after);
          if (!job.has_value()) return InvalidField("page_token", "is not a token of this list");
          filter.after_block = job->block;
          filter.after_number = job->number;
        }
        // One more than the page tells whether there is a next one.
        filter.max_jobs = size + 1;
        engine_.job_calls().List(
            key, std::move(filter), EndOf(call),
            [call, scope = std::move(scope), size](absl::StatusOr<std::vector<Job>> jobs) {
              if (!jobs.ok()) {
                call->Fail(jobs.status());
                return;
              }
              v1::ListJobsResponse reply;
              if (static_cast<std::int64_t>(jobs->size()) > size) {
                jobs->pop_back();
                reply.set_next_page_token(EncodeListToken(scope, JobId(jobs->back().key)));
              }
              for (const Job& job : *jobs) Fill(job, *reply.add_jobs());
              call->Succeed(reply.SerializeAsString());
            });
        return absl::OkStatus();
      });
}

void JobService::GetJob(RpcCallPtr rpc) {
  RunUnary<v1::GetJobRequest>(environment_, Method::kGetJob, std::move(rpc),
                              [this](const Call<v1::GetJobRequest>& call) -> absl::Status {
                                MEMORYD_ASSIGN_OR_RETURN(JobKey key, KeyOf(*call));
                                engine_.job_calls().Get(std::move(key), EndOf(call),
                                                        ReplyTo<v1::GetJobResponse>(call));
                                return absl::OkStatus();
                              });
}

void JobService::RetryJob(RpcCallPtr rpc) {
  RunUnary<v1::RetryJobRequest>(environment_, Method::kRetryJob, std::move(rpc),
                                [this](const Call<v1::RetryJobRequest>& call) -> absl::Status {
                                  MEMORYD_ASSIGN_OR_RETURN(JobKey key, KeyOf(*call));
                                  engine_.job_calls().Retry(std::move(key), call->caller().subject,
                                                            call->deadline(),
                                                            ReplyTo<v1::RetryJobResponse>(call));
                                  return absl::OkStatus();
                                });
}

void JobService::CancelJob(RpcCallPtr rpc) {
  RunUnary<v1::CancelJobRequest>(environment_, Method::kCancelJob, std::move(rpc),
                                 [this](const Call<v1::CancelJobRequest>& call) -> absl::Status {
                                   MEMORYD_ASSIGN_OR_RETURN(JobKey key, KeyOf(*call));
                                   engine_.job_calls().Cancel(
                                       std::move(key), call->caller().subject, call->deadline(),
                                       ReplyTo<v1::CancelJobResponse>(call));
                                   return absl::OkStatus();
                                 });
}

void JobService::GetUsage(RpcCallPtr rpc) {
  RunUnary<v1::GetUsageRequest>(environment_, Method::kGetUsage, std::move(rpc),
                                [this](const Call<v1::GetUsageRequest>& call) -> absl::Status {
                                  v1::GetUsageResponse reply;
                                  const ModelUsage::OfTenant found = usage_.Of(call->tenant());
                                  *reply.mutable_usage() = ToProto(found.total);
                                  *reply.mutable_today() = ToProto(found.today);
                                  reply.set_tokens_per_day(found.budget.tokens);
                                  reply.set_calls_per_day(found.budget.calls);
                                  SetTime(reply.mutable_start_time(), start_us_);
                                  call->Succeed(reply.SerializeAsString());
                                  return absl::OkStatus();
                                });
}

}  // namespace memoryd
