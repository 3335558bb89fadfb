#include "core/workers/worker_registry.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "core/base/mutex.h"
#include "core/blocks/block.h"
#include "core/blocks/worker_blocks.h"
#include "core/llm/model.h"
#include "core/model/job.h"
#include "core/workers/worker_call.h"
#include "core/workers/worker_models.h"

namespace memoryd {
namespace {

// The watcher looks at least so often, so that a deadline infinitely far is none.
constexpr std::chrono::hours kLongestWait(1);
// Of a call: itself, and what is sent.
constexpr std::int64_t kCopies = 2;

absl::Status Elsewhere() {
  return Error(absl::StatusCode::kUnavailable, "WORKER_ELSEWHERE",
               "no worker of this name is attached to this server");
}

absl::Status Gone() {
  return Error(absl::StatusCode::kUnavailable, "WORKER_GONE",
               "the worker went before it answered; whether it did what it was asked is not known");
}

absl::Status Lacks(const WorkerRequest& request) {
  constexpr auto kCode = absl::StatusCode::kFailedPrecondition;
  if (std::holds_alternative<WorkerComplete>(request)) {
    return Error(kCode, "WORKER_LACKS_MODEL", "the worker serves no model of this name");
  }
  if (std::holds_alternative<WorkerEmbed>(request)) {
    return Error(kCode, "WORKER_LACKS_EMBEDDER", "the worker serves no embedder of this name");
  }
  return Error(kCode, "WORKER_LACKS_BLOCK", "the worker serves no block of this name");
}

}  // namespace

WorkerRegistry::Fit WorkerRegistry::Worker::FitFor(const WorkerCall& call) const {
  if (const auto* const complete = std::get_if<WorkerComplete>(&call.request)) {
    return models.contains(complete->model) ? Fit::kServes : Fit::kLacks;
  }
  if (const auto* const embed = std::get_if<WorkerEmbed>(&call.request)) {
    return embedders.contains(embed->embedder) ? Fit::kServes : Fit::kLacks;
  }
  const auto found = blocks.find(call.block);
  if (found == blocks.end()) return Fit::kLacks;
  const bool needless =
      (std::holds_alternative<WorkerPut>(call.request) && !found->second.takes_messages) ||
      (std::holds_alternative<WorkerTruncate>(call.request) && !found->second.truncates);
  return needless ? Fit::kNeedless : Fit::kServes;
}

void WorkerRegistry::Effects::Run() {
  for (const std::shared_ptr<WorkerLink>& link : flush) link->Flush();
  for (auto& [finish, reply] : finished) finish(std::move(reply));
}

WorkerRegistry::WorkerRegistry(WorkerRegistryOptions options)
    : options_(options), watcher_([this] { Watch(); }) {}

WorkerRegistry::~WorkerRegistry() {
  Effects effects;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    while (!calls_.empty()) End(calls_.begin()->first, Gone(), effects);
  }
  wake_.NotifyAll();
  watcher_.join();
  effects.Run();
}

std::int64_t WorkerRegistry::Attach(const std::string& tenant, WorkerOffer offer,
                                    std::shared_ptr<WorkerLink> link) {
  auto worker = std::make_unique<Worker>();
  worker->pool = {tenant, std::move(offer.name)};
  for (WorkerBlockOffer& block : offer.blocks) {
    std::string name = block.name;
    worker->blocks.emplace(std::move(name), std::move(block));
  }
  for (std::string& model : offer.models) worker->models.insert(std::move(model));
  for (std::string& embedder : offer.embedders) worker->embedders.insert(std::move(embedder));
  worker->max_calls = static_cast<std::size_t>(std::max(1, offer.max_concurrent_calls));
  worker->link = std::move(link);

  Effects effects;
  std::int64_t id = 0;
  {
    MutexLock lock(mutex_);
    id = worker->id = ++last_id_;
    Pool& pool = pools_[worker->pool];
    pool.workers.push_back(worker.get());
    workers_.emplace(id, std::move(worker));
    Pump(pool, effects);
  }
  effects.Run();
  if (on_attach_) on_attach_();
  return id;
}

void WorkerRegistry::Detach(std::int64_t worker) {
  Effects effects;
  // Released outside the lock.
  std::unique_ptr<Worker> gone;
  {
    MutexLock lock(mutex_);
    const auto found = workers_.find(worker);
    if (found == workers_.end()) return;
    gone = std::move(found->second);
    workers_.erase(found);
    for (const std::int64_t id : gone->calls) End(id, Gone(), effects);
    const auto pool = pools_.find(gone->pool);
    std::erase(pool->second.workers, gone.get());
    const std::list<std::int64_t> waiting = pool->second.waiting;
    for (const std::int64_t id : waiting) {
      // Those that nobody who is left can answer.
      const absl::StatusOr<Fit> fit = FitOf(gone->pool, *calls_.at(id).call);
      if (!fit.ok() || *fit != Fit::kServes) End(id, Gone(), effects);
    }
    if (pool->second.workers.empty()) pools_.erase(pool);
  }
  effects.Run();
}

void WorkerRegistry::Answer(std::int64_t worker, std::int64_t call_id,
                            absl::StatusOr<WorkerReply> reply) {
  Effects effects;
  {
    MutexLock lock(mutex_);
    const auto found = workers_.find(worker);
    if (found == workers_.end() || found->second->calls.erase(call_id) == 0) {
      stats_.IgnoredResult();
      return;
    }
    if (calls_.contains(call_id)) {
      End(call_id, std::move(reply), effects);
    } else {
      stats_.IgnoredResult();
    }
    Pump(pools_.at(found->second->pool), effects);
  }
  effects.Run();
}

void WorkerRegistry::Put(const WorkerBlockName& block, FeedRequest request, Done<FeedResult> done) {
  WorkerReply needless;
  needless.result = WorkerPutReply();
  WorkerCall call{request.session.key.session,
                  block.block,
                  request.job_id,
                  request.deadline,
                  WorkerPut{request.state.state, std::move(request.messages), block.options_json,
                            request.attempt},
                  request.session.trace,
                  std::move(request.memory)};
  Start({request.session.key.tenant, block.worker}, std::move(call), std::move(needless),
        [done = std::move(done), usage = std::move(request.usage),
         before = std::move(request.state.state)](absl::StatusOr<WorkerReply> reply) mutable {
          absl::StatusOr<WorkerPutReply> put = Expect<WorkerPutReply>(reply);
          if (!put.ok()) return done(std::move(put).status());
          if (put->state.has_value() && put->state->size() > kMaxBlockState) {
            return done(Error(absl::StatusCode::kResourceExhausted, "STATE_TOO_LARGE",
                              "the worker returned more than 1 MiB of state"));
          }
          if (usage != nullptr) usage->Add(reply->usage);
          FeedResult result;
          result.state = std::move(put->state).value_or(std::move(before));
          done(std::move(result));
        });
}

void WorkerRegistry::Get(const WorkerBlockName& block, RenderRequest request,
                         Done<BlockContent> done) {
  WorkerCall call{request.session.key.session,
                  block.block,
                  "",
                  request.deadline,
                  WorkerGet{request.state == nullptr ? "" : request.state->state,
                            std::move(request.messages), block.options_json},
                  request.session.trace};
  Start({request.session.key.tenant, block.worker}, std::move(call), {},
        [done = std::move(done),
         usage = std::move(request.usage)](absl::StatusOr<WorkerReply> reply) {
          absl::StatusOr<BlockContent> said = Expect<BlockContent>(reply);
          if (said.ok() && usage != nullptr) usage->Add(reply->usage);
          done(std::move(said));
        });
}

void WorkerRegistry::Truncate(const WorkerBlockName& block, const BlockSession& session,
                              BlockContent content, std::int64_t tokens, BlockDeadline deadline,
                              Done<BlockContent> done) {
  WorkerReply needless;
  needless.result = BlockContent();
  WorkerCall call{session.key.session,
                  block.block,
                  "",
                  deadline,
                  WorkerTruncate{std::move(content), tokens, block.options_json},
                  session.trace};
  Start({session.key.tenant, block.worker}, std::move(call), std::move(needless),
        [done = std::move(done)](absl::StatusOr<WorkerReply> reply) {
          done(Expect<BlockContent>(reply));
        });
}

absl::StatusOr<std::shared_ptr<ChatModel>> WorkerRegistry::FindChatModel(std::string_view tenant,
                                                                         std::string_view worker,
                                                                         std::string_view model) {
  if (worker.empty()) return absl::NotFoundError("no worker is named");
  WorkerCall call;
  call.request = WorkerComplete{std::string(model), {}};
  const WorkerPoolKey pool{std::string(tenant), std::string(worker)};
  MutexLock lock(mutex_);
  const auto fit = FitOf(pool, call);
  if (!fit.ok()) return fit.status();
  return MakeWorkerChatModel(this, pool, std::string(model));
}

absl::StatusOr<std::shared_ptr<Embedder>> WorkerRegistry::FindEmbedder(std::string_view tenant,
                                                                       std::string_view worker,
                                                                       std::string_view embedder) {
  if (worker.empty()) return absl::NotFoundError("no worker is named");
  WorkerCall call;
  call.request = WorkerEmbed{std::string(embedder), {}, EmbedPurpose::kText};
  const WorkerPoolKey pool{std::string(tenant), std::string(worker)};
  MutexLock lock(mutex_);
  const auto fit = FitOf(pool, call);
  if (!fit.ok()) return fit.status();
  return MakeWorkerEmbedder(this, pool, std::string(embedder));
}

std::size_t WorkerRegistry::attached() const {
  MutexLock lock(mutex_);
  return workers_.size();
}

std::size_t WorkerRegistry::waiting() const {
  MutexLock lock(mutex_);
  return waiting_;
}

std::size_t WorkerRegistry::open_calls() const {
  MutexLock lock(mutex_);
  return calls_.size();
}

void WorkerRegistry::Ask(const WorkerPoolKey& pool, WorkerCall call, Finish finish) {
  Start(pool, std::move(call), {}, std::move(finish));
}

void WorkerRegistry::Start(const WorkerPoolKey& pool, WorkerCall call, WorkerReply needless,
                           Finish finish) {
  const std::size_t kind = call.request.index();
  Call open;
  open.bytes = ByteSize(call);
  if (options_.memory != nullptr && call.memory.bytes() == 0) {
    auto memory = options_.memory->Take(pool.tenant, MemoryUse::kJobs,
                                        kCopies * static_cast<std::int64_t>(open.bytes));
    if (!memory.ok()) {
      stats_.Ended(kind, memory.status().code(), {});
      return finish(memory.status());
    }
    call.memory = *std::move(memory);
  }
  open.pool = pool;
  open.start = Clock::now();
  open.call = std::make_shared<const WorkerCall>(std::move(call));
  open.finish = std::move(finish);
  Effects effects;
  {
    MutexLock lock(mutex_);
    const absl::StatusOr<Fit> fit = FitOf(pool, *open.call);
    if (fit.ok() && *fit == Fit::kNeedless) {
      effects.finished.emplace_back(std::move(open.finish), std::move(needless));
    } else {
      absl::Status status = fit.ok() ? Place(open, effects) : fit.status();
      if (!status.ok()) {
        stats_.Ended(kind, status.code(), {});
        effects.finished.emplace_back(std::move(open.finish), std::move(status));
      }
    }
  }
  effects.Run();
}

absl::StatusOr<WorkerRegistry::Fit> WorkerRegistry::FitOf(const WorkerPoolKey& pool,
                                                          const WorkerCall& call) const {
  const auto found = pools_.find(pool);
  if (stopping_ || found == pools_.end() || found->second.workers.empty()) return Elsewhere();
  Fit best = Fit::kLacks;
  for (const Worker* const worker : found->second.workers) {
    best = std::max(best, worker->FitFor(call));
  }
  if (best == Fit::kLacks) return Lacks(call.request);
  return best;
}

absl::Status WorkerRegistry::Place(Call& call, Effects& effects) {
  if (call.bytes > options_.max_call_bytes) {
    return Error(absl::StatusCode::kResourceExhausted, "WORKER_CALL_TOO_LARGE",
                 "what is to be sent to the worker is too large");
  }
  if (call.call->deadline <= Clock::now()) {
    return Error(absl::StatusCode::kDeadlineExceeded, "WORKER_TIMEOUT",
                 "no time was left for the worker to answer");
  }
  Pool& pool = pools_.at(call.pool);
  Worker* const worker = Choose(pool, *call.call);
  if (worker == nullptr && (pool.waiting.size() >= options_.max_waiting_calls ||
                            pool.waiting_bytes + call.bytes > options_.max_waiting_bytes)) {
    return Error(absl::StatusCode::kResourceExhausted, "WORKER_BUSY",
                 "too many calls wait for the worker");
  }
  const std::int64_t id = ++last_id_;
  const auto deadline = deadlines_.emplace(call.call->deadline, id).first;
  Call& placed = calls_.emplace(id, std::move(call)).first->second;
  if (worker != nullptr) {
    Dispatch(id, placed, *worker, effects);
  } else {
    pool.waiting.push_back(id);
    pool.waiting_bytes += placed.bytes;
    ++waiting_;
  }
  if (deadline == deadlines_.begin()) wake_.NotifyAll();
  return absl::OkStatus();
}

WorkerRegistry::Worker* WorkerRegistry::Choose(const Pool& pool, const WorkerCall& call) {
  Worker* best = nullptr;
  for (Worker* const worker : pool.workers) {
    if (worker->calls.size() >= worker->max_calls || worker->FitFor(call) != Fit::kServes) continue;
    if (best == nullptr || std::pair(worker->calls.size(), worker->last_used) <
                               std::pair(best->calls.size(), best->last_used)) {
      best = worker;
    }
  }
  return best;
}

void WorkerRegistry::Dispatch(std::int64_t id, Call& call, Worker& worker, Effects& effects) {
  call.worker = worker.id;
  worker.calls.insert(id);
  worker.last_used = ++uses_;
  worker.link->Send(id, call.call);
  effects.flush.push_back(worker.link);
}

void WorkerRegistry::Pump(Pool& pool, Effects& effects) {
  for (auto next = pool.waiting.begin(); next != pool.waiting.end();) {
    const std::int64_t id = *next++;
    Call& call = calls_.at(id);
    Worker* const worker = Choose(pool, *call.call);
    if (worker == nullptr) {
      // What waits behind may be for a worker that has room.
      const bool room = std::any_of(pool.workers.begin(), pool.workers.end(),
                                    [](const Worker* w) { return w->calls.size() < w->max_calls; });
      if (!room) return;
      continue;
    }
    Unqueue(pool, id, call);
    Dispatch(id, call, *worker, effects);
  }
}

void WorkerRegistry::Unqueue(Pool& pool, std::int64_t id, const Call& call) {
  if (const auto found = std::find(pool.waiting.begin(), pool.waiting.end(), id);
      found != pool.waiting.end()) {
    pool.waiting.erase(found);
    pool.waiting_bytes -= call.bytes;
    --waiting_;
  }
}

void WorkerRegistry::End(std::int64_t id, absl::StatusOr<WorkerReply> reply, Effects& effects) {
  auto ended = calls_.extract(id);
  // Given up before.
  if (ended.empty()) return;
  Call& call = ended.mapped();
  deadlines_.erase({call.call->deadline, id});
  if (const auto pool = pools_.find(call.pool); call.worker == 0 && pool != pools_.end()) {
    Unqueue(pool->second, id, call);
  }
  stats_.Ended(call.call->request.index(), reply.status().code(), Clock::now() - call.start);
  effects.finished.emplace_back(std::move(call.finish), std::move(reply));
}

void WorkerRegistry::ExpireUntil(Clock::time_point time, Effects& effects) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= time) {
    const std::int64_t id = deadlines_.begin()->second;
    const std::int64_t at = calls_.at(id).worker;
    const bool sent = at != 0;
    End(id,
        Error(absl::StatusCode::kDeadlineExceeded, "WORKER_TIMEOUT",
              sent ? "the worker did not answer in time"
                   : "no worker of this name had room for the call in time"),
        effects);
    if (!sent) continue;
    Worker& worker = *workers_.at(at);
    effects.flush.push_back(worker.link);
    if (worker.link->Cancel(id)) {
      worker.calls.erase(id);
      Pump(pools_.at(worker.pool), effects);
    }
  }
}

void WorkerRegistry::Watch() {
  for (;;) {
    Effects effects;
    {
      MutexLock lock(mutex_);
      if (stopping_) return;
      const Clock::time_point now = Clock::now();
      if (deadlines_.empty() || deadlines_.begin()->first > now) {
        const Clock::time_point longest = now + kLongestWait;
        wake_.WaitUntil(
            mutex_, deadlines_.empty() ? longest : std::min(longest, deadlines_.begin()->first));
      }
      if (stopping_) return;
      ExpireUntil(Clock::now(), effects);
    }
    effects.Run();
  }
}

}  // namespace memoryd
