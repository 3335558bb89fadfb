#include "server/ops/model_usage.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/base/wall_clock.h"
#include "core/model/job.h"
#include "server/access/tenant_limits.h"

namespace memoryd {
namespace {

constexpr std::int64_t kDayUs = std::int64_t{86'400} * 1'000'000;

bool IsUsedUp(const ModelBudget& budget, const Usage& today) {
  return (budget.tokens > 0 && today.tokens() >= budget.tokens) ||
         (budget.calls > 0 && today.calls >= budget.calls);
}

}  // namespace

ModelUsage::ModelUsage(BudgetOf budget_of, IsNamed is_named, const WallClock* clock)
    : budget_of_(std::move(budget_of)), is_named_(std::move(is_named)), clock_(clock) {}

void ModelUsage::Count(const std::string& tenant, const Usage& usage) {
  const std::int64_t now_us = clock_->NowUs();
  MutexLock lock(mutex_);
  Tenant& found = Find(tenant, now_us);
  found.total += usage;
  found.today += usage;
  found.series->total += usage;
}

absl::Status ModelUsage::MayAsk(const std::string& tenant) {
  const std::int64_t now_us = clock_->NowUs();
  const ModelBudget budget = budget_of_(tenant);
  MutexLock lock(mutex_);
  Tenant& found = Find(tenant, now_us);
  if (!IsUsedUp(budget, found.today)) return absl::OkStatus();
  ++found.series->refused;
  // Rounded up, so that whoever waits so long has waited long enough.
  const std::int64_t wait_ms = ((found.day + 1) * kDayUs - now_us + 999) / 1000;
  const bool tokens = budget.tokens > 0 && found.today.tokens() >= budget.tokens;
  return Error(
      absl::StatusCode::kResourceExhausted, "MODEL_BUDGET",
      fmt::format("models have taken the {} {} that the tenant has for a day; on from midnight UTC",
                  tokens ? budget.tokens : budget.calls, tokens ? "tokens" : "calls"),
      {{std::string(kRetryAfterMs), fmt::format("{}", wait_ms)}});
}

ModelUsage::OfTenant ModelUsage::Of(const std::string& tenant) {
  const std::int64_t now_us = clock_->NowUs();
  MutexLock lock(mutex_);
  const Tenant& found = Find(tenant, now_us);
  return {found.total, found.today, budget_of_(tenant)};
}

std::map<std::string, ModelUsage::Series> ModelUsage::All() const {
  MutexLock lock(mutex_);
  return series_;
}

ModelUsage::Tenant& ModelUsage::Find(const std::string& name, std::int64_t now_us) {
  const auto [found, added] = tenants_.try_emplace(name);
  Tenant& tenant = found->second;
  if (added) {
    const bool is_named = series_.size() < kMaxNames && is_named_(name);
    // Nodes of a map stay where they are.
    tenant.series = &series_[is_named ? name : std::string(kOthers)];
  }
  // Never back: a clock that is set back must not give a day's budget twice.
  if (const std::int64_t today = now_us / kDayUs; today > tenant.day) {
    tenant.day = today;
    tenant.today = {};
  }
  return tenant;
}

}  // namespace memoryd
