#include "server/rpc/services.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/base/status_macros.h"
#include "server/access/authenticator.h"
#include "server/rpc/server_service.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/worker_service.h"
#include "server/wire/method.h"
#include "server/wire/rpc_call.h"

namespace memoryd {
namespace {

WorkerServiceOptions WorkerOptionsOf(const ServerFacts& facts) {
  WorkerServiceOptions options;
  options.version = facts.version;
  options.max_message_bytes = facts.request_bytes;
  return options;
}

// The names that reflection lists, sorted.
std::vector<std::string> ServiceNames() {
  std::vector<std::string> names = ServicesOfMethods();
  names.emplace_back("grpc.health.v1.Health");
  names.emplace_back("grpc.reflection.v1.ServerReflection");
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

Services::Services(const ServicesOptions& options, const CallEnvironment& environment)
    : environment_(environment),
      guards_reflection_(options.guards_reflection),
      memory_(options.engine, environment),
      sessions_(options.engine, environment),
      watches_(&options.engine->reads(), environment, WatchServiceOptions()),
      jobs_(options.engine, options.model_usage, options.facts.start_us, environment),
      blocks_(options.engine, environment),
      items_(options.engine, options.facts.item_bytes, environment),
      server_(options.facts, environment),
      workers_(options.workers, environment, WorkerOptionsOf(options.facts)),
      reflection_(ServiceNames(), [this](const RpcCall& rpc) { return AdmitToReflection(rpc); }) {
  health_.AddTo(health_methods_);
  health_.AddTo(methods_);
  memory_.AddTo(methods_);
  sessions_.AddTo(methods_);
  watches_.AddTo(methods_);
  jobs_.AddTo(methods_);
  blocks_.AddTo(methods_);
  items_.AddTo(methods_);
  server_.AddTo(methods_);
  workers_.AddTo(methods_);
  if (options.wants_reflection) reflection_.AddTo(methods_);
}

absl::Status Services::AdmitToReflection(const RpcCall& rpc) const {
  if (!guards_reflection_) return absl::OkStatus();
  MEMORYD_ASSIGN_OR_RETURN(const Caller caller, CallerOf(environment_, rpc));
  return CheckRight(caller, Right::kAdmin);
}

}  // namespace memoryd
