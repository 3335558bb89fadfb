// The token count of a block that always says the same.
#ifndef MEMORYD_CORE_BLOCKS_KNOWN_TOKENS_H_
#define MEMORYD_CORE_BLOCKS_KNOWN_TOKENS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/model/session_config.h"
#include "core/tokens/token_counter.h"

namespace memoryd {

// Remembers one count, under the conditions that it depends on beside the block's own content. A
// block has a new one with each change of its session's configuration. Any thread.
class KnownTokens {
 public:
  struct Conditions {
    CountingRules rules;
    std::shared_ptr<const TokenCounter> counter;
    // The names of all blocks: a text that reads as the tag of one is changed before it is counted.
    std::vector<std::string> sections;

    friend bool operator==(const Conditions&, const Conditions&) = default;
  };

  std::optional<std::int64_t> Find(const Conditions& conditions) const {
    const MutexLock lock(mutex_);
    return conditions == conditions_ ? tokens_ : std::nullopt;
  }

  void Keep(Conditions conditions, std::int64_t tokens) {
    const MutexLock lock(mutex_);
    conditions_ = std::move(conditions);
    tokens_ = tokens;
  }

 private:
  mutable Mutex mutex_;
  Conditions conditions_ MEMORYD_GUARDED_BY(mutex_);
  std::optional<std::int64_t> tokens_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_KNOWN_TOKENS_H_
