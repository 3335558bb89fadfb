#include "server/rpc/health_service.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/mutex.h"
#include "grpc/health/v1/health.pb.h"
#include "server/rpc/parse_request.h"
#include "server/wire/rpc_call.h"

namespace memoryd {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

HealthCheckResponse::ServingStatus StatusOf(std::optional<bool> serving) {
  if (!serving.has_value()) return HealthCheckResponse::SERVICE_UNKNOWN;
  return *serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

std::string ReplyOf(HealthCheckResponse::ServingStatus status) {
  HealthCheckResponse response;
  response.set_status(status);
  return response.SerializeAsString();
}

class Checked final : public RpcHandler, public std::enable_shared_from_this<Checked> {
 public:
  Checked(HealthService* service, RpcCallPtr rpc) : service_(*service), rpc_(std::move(rpc)) {}

  void OnMessage(std::string_view bytes) override {
    HealthCheckRequest request;
    if (const auto hold = ParseRequest(*rpc_, bytes, request); !hold.ok()) {
      rpc_->Finish(hold.status(), {});
      return;
    }
    const std::optional<bool> serving = service_.IsServing(request.service());
    if (serving.has_value()) {
      rpc_->SendLast(ReplyOf(StatusOf(serving)), {});
    } else {
      rpc_->Finish(absl::NotFoundError("the server has no such service"), {});
    }
  }

  void OnReadEnd(const absl::Status& status) override {
    rpc_->Finish(
        status.ok() ? absl::InvalidArgumentError("the call ended without a request") : status, {});
  }

 private:
  HealthService& service_;
  const RpcCallPtr rpc_;
};

}  // namespace

// Tells its caller the latest status, one at a time: one who does not read hears only the last.
class HealthService::Watcher final : public RpcHandler,
                                     public std::enable_shared_from_this<Watcher> {
 public:
  Watcher(HealthService* service, RpcCallPtr rpc) : service_(*service), rpc_(std::move(rpc)) {}

  void OnMessage(std::string_view bytes) override {
    HealthCheckRequest request;
    if (const auto hold = ParseRequest(*rpc_, bytes, request); !hold.ok()) {
      rpc_->Finish(hold.status(), {});
      return;
    }
    {
      MutexLock lock(mutex_);
      if (done_) return;
      name_ = request.service();
      watching_ = true;
      // Under the lock, so that OnDone() removes what is added.
      service_.Add(shared_from_this());
    }
    Tell();
  }

  void OnReadEnd(const absl::Status& status) override {
    rpc_->Finish(
        status.ok() ? absl::InvalidArgumentError("the call ended without a request") : status, {});
  }

  void OnSent() override {
    {
      MutexLock lock(mutex_);
      sending_ = false;
    }
    Tell();
  }

  void OnDone() override {
    {
      MutexLock lock(mutex_);
      done_ = true;
    }
    service_.Remove(shared_from_this());
  }

  void Tell() {
    std::string name;
    {
      MutexLock lock(mutex_);
      if (!watching_ || sending_) return;
      name = name_;
    }
    const HealthCheckResponse::ServingStatus status = StatusOf(service_.IsServing(name));
    {
      MutexLock lock(mutex_);
      if (sending_ || told_ == status) return;
      told_ = status;
      sending_ = true;
    }
    rpc_->Send(ReplyOf(status), {});
  }

 private:
  HealthService& service_;
  const RpcCallPtr rpc_;
  Mutex mutex_;
  std::string name_ MEMORYD_GUARDED_BY(mutex_);
  bool watching_ MEMORYD_GUARDED_BY(mutex_) = false;
  bool sending_ MEMORYD_GUARDED_BY(mutex_) = false;
  bool done_ MEMORYD_GUARDED_BY(mutex_) = false;
  std::optional<HealthCheckResponse::ServingStatus> told_ MEMORYD_GUARDED_BY(mutex_);
};

void HealthService::AddTo(RpcMethods& methods) {
  methods.Add("/grpc.health.v1.Health/Check", [this](RpcCallPtr rpc) { Check(std::move(rpc)); });
  methods.Add("/grpc.health.v1.Health/Watch", [this](RpcCallPtr rpc) { Watch(std::move(rpc)); });
}

void HealthService::SetServing(const std::string& service, bool serving) {
  std::vector<std::shared_ptr<Watcher>> watchers;
  {
    MutexLock lock(mutex_);
    serving_[service] = serving;
    watchers.assign(watchers_.begin(), watchers_.end());
  }
  for (const auto& watcher : watchers) watcher->Tell();
}

std::optional<bool> HealthService::IsServing(std::string_view service) const {
  MutexLock lock(mutex_);
  const auto found = serving_.find(service);
  if (found == serving_.end()) return std::nullopt;
  return found->second;
}

void HealthService::Check(RpcCallPtr rpc) {
  rpc->SetHandler(std::make_shared<Checked>(this, rpc));
  rpc->Read();
}

void HealthService::Watch(RpcCallPtr rpc) {
  rpc->SetHandler(std::make_shared<Watcher>(this, rpc));
  rpc->Read();
}

void HealthService::Add(const std::shared_ptr<Watcher>& watcher) {
  MutexLock lock(mutex_);
  watchers_.insert(watcher);
}

void HealthService::Remove(const std::shared_ptr<Watcher>& watcher) {
  MutexLock lock(mutex_);
  watchers_.erase(watcher);
}

}  // namespace memoryd
