#include "core/sessions/shared_config.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/base/mutex.h"
#include "core/blocks/block_traits.h"
#include "core/model/session_config.h"

namespace memoryd {
namespace {

class ConfigTable {
 public:
  std::shared_ptr<const SessionConfig> Get(std::string_view settings_json, SessionConfig config)
      MEMORYD_EXCLUDES(mutex_) {
    const std::size_t hash = std::hash<std::string_view>()(settings_json);
    std::shared_ptr<const SessionConfig> shared = Find(hash, config);
    if (shared != nullptr) return shared;
    // Not under the lock: options may be long.
    ReadTraits(config.blocks, config.counting.profile);
    // Not by make_shared: what only the table knows shall take no memory.
    shared.reset(new SessionConfig(std::move(config)));
    return Keep(hash, std::move(shared));
  }

 private:
  std::shared_ptr<const SessionConfig> Find(std::size_t hash, const SessionConfig& config)
      MEMORYD_EXCLUDES(mutex_) {
    std::shared_ptr<const SessionConfig> shared;
    {
      MutexLock lock(mutex_);
      const auto known = configs_.find(hash);
      if (known != configs_.end()) shared = known->second.lock();
    }
    return shared != nullptr && *shared == config ? shared : nullptr;
  }

  // The one that another thread has kept meanwhile, where it is the same.
  std::shared_ptr<const SessionConfig> Keep(std::size_t hash,
                                            std::shared_ptr<const SessionConfig> made)
      MEMORYD_EXCLUDES(mutex_) {
    std::shared_ptr<const SessionConfig> shared;
    MutexLock lock(mutex_);
    if (configs_.size() >= sweep_at_) {
      std::erase_if(configs_, [](const auto& entry) { return entry.second.expired(); });
      sweep_at_ = std::max(kLeastSweep, 2 * configs_.size());
    }
    std::weak_ptr<const SessionConfig>& known = configs_[hash];
    shared = known.lock();
    if (shared != nullptr && *shared == *made) return shared;
    known = made;
    return made;
  }

  static constexpr std::size_t kLeastSweep = 64;

  Mutex mutex_;
  // By a hash of their settings, which may be megabytes each. The latest of those that share one.
  std::unordered_map<std::size_t, std::weak_ptr<const SessionConfig>> configs_
      MEMORYD_GUARDED_BY(mutex_);
  std::size_t sweep_at_ MEMORYD_GUARDED_BY(mutex_) = kLeastSweep;
};

}  // namespace

std::shared_ptr<const SessionConfig> SharedConfig(std::string_view settings_json,
                                                  SessionConfig config) {
  static auto* const table = new ConfigTable();
  return table->Get(settings_json, std::move(config));
}

}  // namespace memoryd
