// What models have taken for sessions, until it is stored with them.
#ifndef MEMORYD_CORE_SESSIONS_SESSION_USAGE_H_
#define MEMORYD_CORE_SESSIONS_SESSION_USAGE_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/llm/model.h"
#include "core/model/job.h"
#include "core/model/session.h"

namespace memoryd {

// Every commit to a session takes along what models have taken for it since the one before: what an
// answer cost is stored with what the job made of it, and a Get or Query waits for no store. Any
// thread.
class SessionUsage {
 public:
  void Add(const SessionKey& key, const Usage& usage) MEMORYD_EXCLUDES(mutex_);
  // What is not known to be stored.
  Usage Of(const SessionKey& key) const MEMORYD_EXCLUDES(mutex_);

  // What the session's next commit stores. A session has one commit under way at most, and each
  // Take() that returns something is followed by a Settle().
  Usage Take(const SessionKey& key) MEMORYD_EXCLUDES(mutex_);
  // What Take() has returned is stored, or may be; or it is not, and waits for the next commit.
  void Settle(const SessionKey& key, bool stored) MEMORYD_EXCLUDES(mutex_);

  // Sessions of which something is not known to be stored.
  std::vector<SessionKey> Sessions() const MEMORYD_EXCLUDES(mutex_);
  std::size_t size() const { return size_.load(std::memory_order_relaxed); }

 private:
  struct Unstored {
    Usage waiting;
    Usage taken;
  };

  mutable Mutex mutex_;
  std::unordered_map<SessionKey, Unstored, SessionKeyHash> sessions_ MEMORYD_GUARDED_BY(mutex_);
  std::atomic<std::size_t> size_{0};  // Of sessions_: most commits find it empty.
};

// Models whose answers are counted for the sessions that asked. `models` may be null where nobody
// looks for any.
class CountedModels final : public ModelDirectory {
 public:
  // `store_now` is called, on any thread, with a session of which too much waits for a commit.
  CountedModels(ModelDirectory* models, SessionUsage* usage,
                std::function<void(const SessionKey&)> store_now)
      : models_(models), usage_(*usage), store_now_(std::move(store_now)) {}

  absl::StatusOr<std::shared_ptr<ChatModel>> FindChatModel(std::string_view tenant,
                                                           std::string_view worker,
                                                           std::string_view model) override {
    return models_->FindChatModel(tenant, worker, model);
  }
  absl::StatusOr<std::shared_ptr<Embedder>> FindEmbedder(std::string_view tenant,
                                                         std::string_view worker,
                                                         std::string_view embedder) override {
    return models_->FindEmbedder(tenant, worker, embedder);
  }
  absl::Status MayAsk(const ModelCaller& caller) override { return models_->MayAsk(caller); }
  void Answered(const ModelCaller& caller, const Usage& usage) override;

 private:
  ModelDirectory* const models_;
  SessionUsage& usage_;
  const std::function<void(const SessionKey&)> store_now_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_SESSIONS_SESSION_USAGE_H_
