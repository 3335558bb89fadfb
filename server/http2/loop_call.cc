#include "server/http2/loop_call.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "core/base/status_macros.h"
#include "server/http2/connection.h"
#include "server/http2/event_loop.h"
#include "server/wire/rpc_call.h"

namespace memoryd {

LoopCall::LoopCall(const Http2Environment& environment, std::shared_ptr<EventLoop> loop,
                   std::shared_ptr<const std::vector<std::string>> certificate_names)
    : environment_(environment),
      budget_(*environment.budget),
      stats_(*environment.stats),
      loop_(std::move(loop)),
      names_(std::move(certificate_names)) {}

LoopCall::~LoopCall() = default;

void LoopCall::SetHandler(std::shared_ptr<RpcHandler> handler) {
  InLoop([this, handler = std::move(handler)]() mutable { handler_.swap(handler); });
}

void LoopCall::Read() {
  InLoop([this] { DoRead(); });
}

void LoopCall::Cancel() {
  InLoop([this] { DoCancel(); });
}

absl::Status LoopCall::CountFor(std::string_view tenant, std::int64_t bytes) {
  tenant_.assign(tenant);
  MEMORYD_ASSIGN_OR_RETURN(hold_, budget_.Take(tenant, MemoryUse::kRequests, bytes));
  charged_ = true;
  return absl::OkStatus();
}

absl::StatusOr<MemoryBudget::Hold> LoopCall::Take(MemoryUse use, std::int64_t bytes) {
  if (!charged_) return MemoryBudget::Hold();
  return budget_.Take(tenant_, use, bytes);
}

void LoopCall::TellEnd(bool cancelled) {
  const bool tells = cancelled && BecomesCancelled();
  const std::shared_ptr<RpcHandler> last = std::exchange(handler_, nullptr);
  if (tells) Tell(last, [](RpcHandler& handler) { handler.OnCancel(); });
  Tell(last, [](RpcHandler& handler) { handler.OnDone(); });
}

}  // namespace memoryd
