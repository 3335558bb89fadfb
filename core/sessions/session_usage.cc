#include "core/sessions/session_usage.h"

#include <atomic>
#include <cstddef>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/llm/model.h"
#include "core/model/job.h"
#include "core/model/session.h"

namespace memoryd {
namespace {

// Sessions that are asked and never written; beyond so many, a commit is made for each.
constexpr std::size_t kMaxSessions = 4096;

}  // namespace

void SessionUsage::Add(const SessionKey& key, const Usage& usage) {
  if (usage == Usage()) return;
  MutexLock lock(mutex_);
  sessions_[key].waiting += usage;
  size_.store(sessions_.size(), std::memory_order_relaxed);
}

Usage SessionUsage::Of(const SessionKey& key) const {
  if (size() == 0) return {};
  MutexLock lock(mutex_);
  const auto found = sessions_.find(key);
  if (found == sessions_.end()) return {};
  Usage usage = found->second.waiting;
  return usage += found->second.taken;
}

Usage SessionUsage::Take(const SessionKey& key) {
  if (size() == 0) return {};
  MutexLock lock(mutex_);
  const auto found = sessions_.find(key);
  if (found == sessions_.end()) return {};
  found->second.taken = std::exchange(found->second.waiting, {});
  return found->second.taken;
}

void SessionUsage::Settle(const SessionKey& key, bool stored) {
  MutexLock lock(mutex_);
  const auto found = sessions_.find(key);
  if (found == sessions_.end()) return;
  const Usage taken = std::exchange(found->second.taken, {});
  if (!stored) found->second.waiting += taken;
  if (found->second.waiting == Usage()) sessions_.erase(found);
  size_.store(sessions_.size(), std::memory_order_relaxed);
}

std::vector<SessionKey> SessionUsage::Sessions() const {
  MutexLock lock(mutex_);
  std::vector<SessionKey> keys;
  keys.reserve(sessions_.size());
  for (const auto& [key, usage] : sessions_) keys.push_back(key);
  return keys;
}

void CountedModels::Answered(const ModelCaller& caller, const Usage& usage) {
  models_->Answered(caller, usage);
  const SessionKey key{caller.tenant, caller.session};
  usage_.Add(key, usage);
  if (usage_.size() > kMaxSessions) store_now_(key);
}

}  // namespace memoryd
