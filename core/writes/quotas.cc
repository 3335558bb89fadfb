#include "core/writes/quotas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/histogram.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "core/calls/engine_stats.h"
#include "core/calls/executor.h"
#include "core/storage/item_store.h"
#include "core/storage/store.h"

namespace memoryd {
namespace {

// What a Set replaces is there until it is committed, so room is taken for what grows alone.
TenantUsage Growing(const TenantUsage& growth) {
  return {std::max<std::int64_t>(0, growth.sessions), std::max<std::int64_t>(0, growth.messages),
          std::max<std::int64_t>(0, growth.bytes)};
}

void Add(TenantUsage& usage, const TenantUsage& other, std::int64_t sign) {
  usage.sessions += sign * other.sessions;
  usage.messages += sign * other.messages;
  usage.bytes += sign * other.bytes;
}

}  // namespace

Quotas::Quotas(Store* store, QuotaOf quota_of, Executor* executor, EngineStats* stats)
    : store_(store), quota_of_(std::move(quota_of)), executor_(executor), stats_(stats) {}

Quotas::Shard& Quotas::ShardOf(const std::string& tenant) {
  return shards_[absl::HashOf(tenant) % shards_.size()];
}

Quotas::Tenant& Quotas::Find(Shard& shard, const std::string& tenant) {
  Tenant& found = shard.tenants[tenant];
  // Asked each time: it may change while the server runs.
  const Quota quota = quota_of_(tenant);
  // What is stored was not counted without one.
  if (quota.none() || found.quota.none()) found.known = quota.none();
  found.quota = quota;
  return found;
}

bool Quotas::Knows(const std::string& tenant) {
  Shard& shard = ShardOf(tenant);
  MutexLock lock(shard.mutex);
  return Find(shard, tenant).known;
}

void Quotas::Read(const std::string& tenant, Waiter done) {
  Shard& shard = ShardOf(tenant);
  {
    MutexLock lock(shard.mutex);
    Tenant& found = Find(shard, tenant);
    if (!found.known) {
      found.waiting.push_back(std::move(done));
      if (found.reading) return;
      found.reading = true;
      executor_->Submit(tenant, [this, tenant] { ReadNow(tenant); });
      return;
    }
  }
  done(absl::OkStatus());
}

absl::StatusOr<TenantUsage> Quotas::ReadUsage(const std::string& tenant) {
  MEMORYD_ASSIGN_OR_RETURN(TenantUsage usage, store_->ReadUsage(tenant));
  MEMORYD_ASSIGN_OR_RETURN(const ItemUsage items, store_->Items().ReadItemUsage(tenant));
  usage.messages += items.items;
  usage.bytes += items.bytes;
  return usage;
}

void Quotas::ReadNow(const std::string& tenant) {
  absl::StatusOr<TenantUsage> usage = absl::InternalError("nothing was read");
  try {
    usage = ReadUsage(tenant);
  } catch (...) {
    Increment(stats_->exceptions);
    usage = CaughtException();
  }
  Shard& shard = ShardOf(tenant);
  std::vector<Waiter> waiting;
  {
    MutexLock lock(shard.mutex);
    Tenant& found = Find(shard, tenant);
    found.reading = false;
    if (usage.ok()) {
      found.known = true;
      found.written = false;
      found.stored = *usage;
    }
    waiting.swap(found.waiting);
  }
  for (const Waiter& waiter : waiting) waiter(usage.status());
}

absl::Status Quotas::Reserve(const std::string& tenant, const TenantUsage& growth,
                             TenantUsage& reserved) {
  const TenantUsage growing = Growing(growth);
  if (growing == TenantUsage()) return absl::OkStatus();
  Shard& shard = ShardOf(tenant);
  MutexLock lock(shard.mutex);
  Tenant& found = Find(shard, tenant);
  const Quota& quota = found.quota;
  if (quota.none()) return absl::OkStatus();
  found.written = true;
  struct Checked {
    std::string_view name;
    std::int64_t limit;
    std::int64_t used;
    std::int64_t growing;
  };
  const TenantUsage& stored = found.stored;
  const TenantUsage& held = found.reserved;
  const Checked checks[] = {
      {"sessions", quota.sessions, stored.sessions + held.sessions, growing.sessions},
      {"messages", quota.messages, stored.messages + held.messages, growing.messages},
      {"bytes", quota.bytes, stored.bytes + held.bytes, growing.bytes},
  };
  for (const Checked& check : checks) {
    if (check.limit == 0 || check.growing == 0 || check.used + check.growing <= check.limit) {
      continue;
    }
    return Error(absl::StatusCode::kResourceExhausted, "QUOTA_EXCEEDED",
                 fmt::format("the tenant may store {} {} and stores {}; nothing was stored, delete "
                             "or reset sessions first",
                             check.limit, check.name, check.used),
                 {{"quota", std::string(check.name)},
                  {"limit", std::to_string(check.limit)},
                  {"used", std::to_string(check.used)}});
  }
  Add(found.reserved, growing, 1);
  Add(reserved, growing, 1);
  return absl::OkStatus();
}

void Quotas::CountRefusal(const absl::Status& refusal) {
  for (const auto& [key, value] : ErrorDetails(refusal)) {
    if (key != "quota") continue;
    Increment(value == "sessions"   ? stats_->refused_sessions
              : value == "messages" ? stats_->refused_messages
                                    : stats_->refused_stored_bytes);
  }
}

void Quotas::Release(const std::string& tenant, const TenantUsage& growth, TenantUsage& reserved) {
  // Nothing was taken where there was no quota then.
  if (reserved == TenantUsage()) return;
  const TenantUsage growing = Growing(growth);
  Shard& shard = ShardOf(tenant);
  MutexLock lock(shard.mutex);
  Tenant& found = Find(shard, tenant);
  Add(found.reserved, growing, -1);
  Add(reserved, growing, -1);
}

void Quotas::Settle(const std::string& tenant, const TenantUsage& reserved, CommitOutcome outcome,
                    const TenantUsage& change) {
  Shard& shard = ShardOf(tenant);
  MutexLock lock(shard.mutex);
  Tenant& found = Find(shard, tenant);
  Add(found.reserved, reserved, -1);
  if (found.quota.none()) return;
  found.written = true;
  if (outcome == CommitOutcome::kCommitted) Add(found.stored, change, 1);
  // It may count or not: only the store can tell.
  if (outcome == CommitOutcome::kUnknown) found.known = false;
}

void Quotas::Refresh() {
  for (Shard& shard : shards_) {
    std::vector<std::string> written;
    {
      MutexLock lock(shard.mutex);
      for (auto& [name, tenant] : shard.tenants) {
        if (!tenant.known || !tenant.written || tenant.reading) continue;
        tenant.reading = true;
        written.push_back(name);
      }
    }
    for (const std::string& tenant : written) ReadNow(tenant);
  }
}

}  // namespace memoryd
