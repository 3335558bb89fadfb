// The workers attached to this server, and the calls made to them.
#ifndef MEMORYD_CORE_WORKERS_WORKER_REGISTRY_H_
#define MEMORYD_CORE_WORKERS_WORKER_REGISTRY_H_

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "core/base/mutex.h"
#include "core/blocks/worker_blocks.h"
#include "core/llm/model.h"
#include "core/workers/worker_call.h"
#include "core/workers/worker_models.h"
#include "core/workers/worker_stats.h"

namespace memoryd {

// The way to a worker. Send() and Cancel() are called under the registry's lock: they must not
// block, call back, or do more than take note; Flush() follows without it. No call is sent after
// Detach().
class WorkerLink {
 public:
  virtual ~WorkerLink() = default;

  virtual void Send(std::int64_t call_id, std::shared_ptr<const WorkerCall> call) = 0;
  // Nobody waits for the call any more. True when it has not been sent yet and will not be; else
  // the worker is told, and is still to answer.
  virtual bool Cancel(std::int64_t call_id) = 0;
  // Lets go what was taken note of. Any thread; must not block.
  virtual void Flush() = 0;
};

struct WorkerRegistryOptions {
  // Of one pool: calls that wait for a worker to have room, and their bytes.
  std::size_t max_waiting_calls = 1024;
  std::size_t max_waiting_bytes = std::size_t{64} << 20;
  // Of one call.
  std::size_t max_call_bytes = std::size_t{32} << 20;
  // Counts calls and refuses those that it has no room for; must outlive the registry. Null: none.
  MemoryBudget* memory = nullptr;
};

// Workers of one tenant and name are a pool. A call goes to the one of them with the fewest calls,
// waits its turn while all are full, and ends once: with the answer, at its deadline, or when the
// last worker that could answer it goes. A call on its way to a worker that goes is not given to
// another: whether the worker did it is not known, so whoever made it decides.
//
// A worker's place is taken until it answers, also when nobody waits any more; so it never has more
// calls than it said, and one that hangs is left alone.
class WorkerRegistry final : public WorkerBlocks, public ModelDirectory, private WorkerCaller {
 public:
  explicit WorkerRegistry(WorkerRegistryOptions options = {});
  // Ends the calls that are left. Links and models must not be used any more.
  ~WorkerRegistry() override;
  WorkerRegistry(const WorkerRegistry&) = delete;
  WorkerRegistry& operator=(const WorkerRegistry&) = delete;

  // `attached` is called whenever a worker has been attached, on the thread that attached it. Set
  // it before the first one.
  void OnAttach(std::function<void()> attached) { on_attach_ = std::move(attached); }

  // From now on calls may come over `link`. The number names the worker below.
  std::int64_t Attach(const std::string& tenant, WorkerOffer offer,
                      std::shared_ptr<WorkerLink> link) MEMORYD_EXCLUDES(mutex_);
  // The worker is gone, and so are its calls. What is not attached is ignored, here and below.
  void Detach(std::int64_t worker) MEMORYD_EXCLUDES(mutex_);
  // What the worker answered. A call that the worker does not have is ignored.
  void Answer(std::int64_t worker, std::int64_t call_id, absl::StatusOr<WorkerReply> reply)
      MEMORYD_EXCLUDES(mutex_);

  // See WorkerBlocks.
  void Put(const WorkerBlockName& block, FeedRequest request, Done<FeedResult> done) override
      MEMORYD_EXCLUDES(mutex_);
  void Get(const WorkerBlockName& block, RenderRequest request, Done<BlockContent> done) override
      MEMORYD_EXCLUDES(mutex_);
  void Truncate(const WorkerBlockName& block, const BlockSession& session, BlockContent content,
                std::int64_t tokens, BlockDeadline deadline, Done<BlockContent> done) override
      MEMORYD_EXCLUDES(mutex_);

  // See ModelDirectory; for workers only: NOT_FOUND where `worker` is empty. FAILED_PRECONDITION
  // `WORKER_LACKS_MODEL`, `WORKER_LACKS_EMBEDDER` when the worker is attached and serves none of
  // the name. What is found asks at each call for the workers that are attached then.
  absl::StatusOr<std::shared_ptr<ChatModel>> FindChatModel(std::string_view tenant,
                                                           std::string_view worker,
                                                           std::string_view model) override
      MEMORYD_EXCLUDES(mutex_);
  absl::StatusOr<std::shared_ptr<Embedder>> FindEmbedder(std::string_view tenant,
                                                         std::string_view worker,
                                                         std::string_view embedder) override
      MEMORYD_EXCLUDES(mutex_);

  const WorkerStats& stats() const { return stats_; }
  std::size_t attached() const MEMORYD_EXCLUDES(mutex_);
  // Calls that wait for a worker to have room, of all pools.
  std::size_t waiting() const MEMORYD_EXCLUDES(mutex_);
  // Calls that have not ended.
  std::size_t open_calls() const MEMORYD_EXCLUDES(mutex_);

 private:
  using Clock = std::chrono::steady_clock;

  // How well a worker can answer a call.
  enum class Fit { kLacks, kNeedless, kServes };

  struct Worker {
    std::int64_t id = 0;
    WorkerPoolKey pool;
    absl::flat_hash_map<std::string, WorkerBlockOffer> blocks;
    absl::flat_hash_set<std::string> models;
    absl::flat_hash_set<std::string> embedders;
    std::size_t max_calls = 1;
    std::shared_ptr<WorkerLink> link;
    // Those it has not answered, also those that nobody waits for.
    absl::flat_hash_set<std::int64_t> calls;
    std::uint64_t last_used = 0;

    Fit FitFor(const WorkerCall& call) const;
  };

  struct Pool {
    std::vector<Worker*> workers;
    std::list<std::int64_t> waiting;
    std::size_t waiting_bytes = 0;
  };

  struct Call {
    std::shared_ptr<const WorkerCall> call;
    std::size_t bytes = 0;
    WorkerPoolKey pool;
    Clock::time_point start;
    std::int64_t worker = 0;  // 0: it waits.
    Finish finish;
  };

  // What is done once the lock is released.
  struct Effects {
    std::vector<std::pair<Finish, absl::StatusOr<WorkerReply>>> finished;
    std::vector<std::shared_ptr<WorkerLink>> flush;
    void Run();
  };

  // WorkerCaller.
  void Ask(const WorkerPoolKey& pool, WorkerCall call, Finish finish) override
      MEMORYD_EXCLUDES(mutex_);
  // Makes the call. `needless` is the reply where the worker's offer says so much.
  void Start(const WorkerPoolKey& pool, WorkerCall call, WorkerReply needless, Finish finish)
      MEMORYD_EXCLUDES(mutex_);
  // Sends the call or lets it wait, and takes it; an error leaves it as it is.
  absl::Status Place(Call& call, Effects& effects) MEMORYD_REQUIRES(mutex_);
  // The worker with room and the fewest calls that serves the call; null for none.
  static Worker* Choose(const Pool& pool, const WorkerCall& call);
  void Dispatch(std::int64_t id, Call& call, Worker& worker, Effects& effects)
      MEMORYD_REQUIRES(mutex_);
  // Gives waiting calls to workers that have room.
  void Pump(Pool& pool, Effects& effects) MEMORYD_REQUIRES(mutex_);
  void End(std::int64_t id, absl::StatusOr<WorkerReply> reply, Effects& effects)
      MEMORYD_REQUIRES(mutex_);
  // Takes a waiting call out of its pool.
  void Unqueue(Pool& pool, std::int64_t id, const Call& call) MEMORYD_REQUIRES(mutex_);
  // An error, or how well the best of the pool serves the call.
  absl::StatusOr<Fit> FitOf(const WorkerPoolKey& pool, const WorkerCall& call) const
      MEMORYD_REQUIRES(mutex_);
  void ExpireUntil(Clock::time_point time, Effects& effects) MEMORYD_REQUIRES(mutex_);
  void Watch() MEMORYD_EXCLUDES(mutex_);

  const WorkerRegistryOptions options_;
  WorkerStats stats_;
  mutable Mutex mutex_;
  CondVar wake_;
  bool stopping_ MEMORYD_GUARDED_BY(mutex_) = false;
  std::int64_t last_id_ MEMORYD_GUARDED_BY(mutex_) = 0;
  std::uint64_t uses_ MEMORYD_GUARDED_BY(mutex_) = 0;
  std::map<WorkerPoolKey, Pool> pools_ MEMORYD_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::int64_t, std::unique_ptr<Worker>> workers_ MEMORYD_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::int64_t, Call> calls_ MEMORYD_GUARDED_BY(mutex_);
  std::set<std::pair<Clock::time_point, std::int64_t>> deadlines_ MEMORYD_GUARDED_BY(mutex_);
  std::size_t waiting_ MEMORYD_GUARDED_BY(mutex_) = 0;
  std::function<void()> on_attach_;
  std::thread watcher_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_WORKERS_WORKER_REGISTRY_H_
