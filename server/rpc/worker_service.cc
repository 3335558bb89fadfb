#include "server/rpc/worker_service.h"

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "core/workers/worker_registry.h"
#include "server/access/authenticator.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/worker_stream.h"
#include "server/wire/method.h"
#include "server/wire/rpc_call.h"

namespace memoryd {
namespace {

absl::Status Draining() {
  return Error(absl::StatusCode::kUnavailable, "DRAINING",
               "the server is going away; attach to another or again");
}

}  // namespace

WorkerService::WorkerService(WorkerRegistry* registry, const CallEnvironment& environment,
                             const WorkerServiceOptions& options)
    : registry_(*registry),
      environment_(environment),
      options_(options),
      watcher_([this] { Watch(); }) {}

WorkerService::~WorkerService() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  watcher_.join();
}

void WorkerService::AddTo(RpcMethods& methods) {
  methods.Add(Method::kAttach, this, &WorkerService::Attach);
}

void WorkerService::Attach(RpcCallPtr rpc) {
  auto stream = std::make_shared<WorkerStream>(this, std::move(rpc));
  stream->Begin(Admit(stream));
}

absl::Status WorkerService::Admit(const std::shared_ptr<WorkerStream>& stream) {
  {
    MutexLock lock(mutex_);
    streams_.emplace(stream.get(), stream);
    if (draining_) {
      environment_.stats->RefusedDraining();
      return Draining();
    }
  }
  MEMORYD_ASSIGN_OR_RETURN(Caller caller, CallerOf(environment_, stream->rpc()));
  MEMORYD_RETURN_IF_ERROR(Authorize(environment_, caller, Method::kAttach));
  std::string& tenant = caller.tenant;
  MEMORYD_RETURN_IF_ERROR(stream->rpc().ChargeTo(tenant));
  MutexLock lock(mutex_);
  std::size_t& count = per_tenant_[tenant];
  if (admitted_ >= options_.max_streams || count >= options_.max_streams_per_tenant) {
    if (count == 0) per_tenant_.erase(tenant);
    return Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_WORKERS",
                 fmt::format("a tenant may have {} workers attached, a server {}",
                             options_.max_streams_per_tenant, options_.max_streams));
  }
  ++count;
  ++admitted_;
  stream->set_tenant(std::move(tenant));
  return absl::OkStatus();
}

void WorkerService::Forget(WorkerStream* stream) {
  // Released outside the lock, should it be the last reference.
  std::shared_ptr<WorkerStream> gone;
  MutexLock lock(mutex_);
  const auto found = streams_.find(stream);
  gone = std::move(found->second);
  streams_.erase(found);
  // Without a tenant it was never admitted.
  if (const auto count = per_tenant_.find(gone->tenant()); count != per_tenant_.end()) {
    --admitted_;
    if (--count->second == 0) per_tenant_.erase(count);
  }
  changed_.NotifyAll();
}

std::vector<std::shared_ptr<WorkerStream>> WorkerService::Streams() const {
  std::vector<std::shared_ptr<WorkerStream>> streams;
  MutexLock lock(mutex_);
  streams.reserve(streams_.size());
  for (const auto& [address, stream] : streams_) streams.push_back(stream);
  return streams;
}

std::size_t WorkerService::stream_count() const {
  MutexLock lock(mutex_);
  return streams_.size();
}

void WorkerService::BeginDrain() {
  {
    MutexLock lock(mutex_);
    draining_ = true;
  }
  v1::AttachResponse message;
  message.mutable_drain();
  for (const auto& stream : Streams()) stream->Tell(message);
}

bool WorkerService::EndStreams(std::chrono::steady_clock::time_point deadline) {
  for (const auto& stream : Streams()) stream->End(Draining());
  MutexLock lock(mutex_);
  while (!streams_.empty() && std::chrono::steady_clock::now() < deadline) {
    changed_.WaitUntil(mutex_, deadline);
  }
  return streams_.empty();
}

void WorkerService::Watch() {
  for (;;) {
    const auto next = std::chrono::steady_clock::now() + options_.look_interval;
    {
      MutexLock lock(mutex_);
      while (!stopping_ && std::chrono::steady_clock::now() < next) {
        changed_.WaitUntil(mutex_, next);
      }
      if (stopping_) return;
    }
    for (const auto& stream : Streams()) stream->Look(std::chrono::steady_clock::now());
  }
}

}  // namespace memoryd
