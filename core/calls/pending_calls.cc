#include "core/calls/pending_calls.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/mutex.h"

namespace memoryd {
namespace {

constexpr std::chrono::milliseconds kTick(50);
// A reply sent this long before the deadline still arrives in time.
constexpr std::chrono::milliseconds kMargin(120);
// A call of little time keeps at least three quarters of it.
constexpr int kMarginShare = 4;

}  // namespace

PendingCall::PendingCall(std::chrono::steady_clock::time_point deadline)
    : deadline_(deadline),
      expires_at_(deadline - std::clamp<std::chrono::steady_clock::duration>(
                                 (deadline - std::chrono::steady_clock::now()) / kMarginShare,
                                 std::chrono::steady_clock::duration::zero(), kMargin)) {}

PendingCalls::PendingCalls() : thread_([this] { Watch(); }) {}

PendingCalls::~PendingCalls() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  thread_.join();
}

PendingCalls::Shard& PendingCalls::ShardOf(const PendingCall* call) {
  return shards_[(reinterpret_cast<std::uintptr_t>(call) >> 6) % shards_.size()];
}

void PendingCalls::Add(const std::shared_ptr<PendingCall>& call) {
  Shard& shard = ShardOf(call.get());
  MutexLock lock(shard.mutex);
  shard.calls.emplace(call.get(), call);
}

void PendingCalls::Remove(const PendingCall* call) {
  Shard& shard = ShardOf(call);
  // Released outside the lock, should it be the last reference.
  std::shared_ptr<PendingCall> removed;
  MutexLock lock(shard.mutex);
  if (const auto found = shard.calls.find(call); found != shard.calls.end()) {
    removed = std::move(found->second);
    shard.calls.erase(found);
  }
}

void PendingCalls::ExpireAll() { ExpireUntil(std::chrono::steady_clock::time_point::max()); }

void PendingCalls::ExpireUntil(std::chrono::steady_clock::time_point time) {
  std::vector<std::shared_ptr<PendingCall>> expired;
  for (Shard& shard : shards_) {
    MutexLock lock(shard.mutex);
    for (const auto& [address, call] : shard.calls) {
      if (call->expires_at() <= time) expired.push_back(call);
    }
  }
  for (const auto& call : expired) {
    Remove(call.get());
    try {
      call->Expire();
    } catch (...) {
      // Its reply could not be made; the others get theirs.
      continue;
    }
  }
}

void PendingCalls::Watch() {
  for (;;) {
    const auto now = std::chrono::steady_clock::now();
    {
      MutexLock lock(mutex_);
      if (!stopping_) wake_.WaitUntil(mutex_, now + kTick);
      if (stopping_) return;
    }
    ExpireUntil(std::chrono::steady_clock::now());
  }
}

}  // namespace memoryd
