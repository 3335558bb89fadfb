#include "core/engine/engine.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/blocks/block_kinds.h"
#include "core/lifecycle/sweeper.h"
#include "core/model/session.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"
#include "core/writes/quotas.h"
#include "core/writes/write.h"

namespace memoryd {
namespace {

constexpr std::chrono::seconds kStoreUsageTime(5);

}  // namespace

Engine::Engine(Store* store, EngineOptions options)
    : store_(store),
      options_(std::move(options)),
      token_rules_(options_.vocabulary_directory),
      cache_(options_.cache_bytes, options_.memory),
      touches_(store_, &cache_, &stats_, options_.clock),
      models_(options_.models, &session_usage_, [this](const SessionKey& key) { StoreUsage(key); }),
      calls_(options_.max_pending_calls, options_.max_pending_bytes, &readers_, &stats_),
      recall_(store_, options_.bodies, options_.index_bytes, options_.memory,
              options_.word_vectors),
      entries_(
          [this](const SessionKey& key, std::uint64_t generation, std::int64_t begin,
                 std::int64_t end, std::int64_t max_rows, std::int64_t max_bytes) {
            return store_->ReadRange(key, generation, {begin, end}, max_rows, max_bytes);
          },
          options_.vector_bytes, options_.memory),
      blocks_(store_, MakeBlockEnvironment()),
      jobs_(JobOptions()),
      quotas_(options_.quota_of
                  ? std::make_unique<Quotas>(store_, options_.quota_of, &readers_, &stats_)
                  : nullptr),
      readers_(options_.readers, static_cast<std::size_t>(options_.max_pending_calls),
               &stats_.exceptions),
      searchers_(options_.searchers, static_cast<std::size_t>(options_.max_pending_calls),
                 &stats_.exceptions),
      counters_(options_.counters, static_cast<std::size_t>(options_.max_pending_calls),
                &stats_.exceptions, options_.counters_clock),
      counting_(&token_rules_, &counters_, options_.memory, &stats_.exceptions),
      loader_(store_, &cache_, &readers_, &stats_, options_.memory,
              options_.coherence == Coherence::kShared, options_.max_active_bytes),
      reader_(&calls_, &cache_, &loader_),
      attached_(AttachedOptions()),
      search_queue_(&searchers_),
      search_environment_{
          &calls_,        &reader_,   &touches_, &blocks_, &token_rules_,          &recall_,
          &search_queue_, &attached_, &models_,  &writes_, options_.block_timeout, options_.clock},
      contexts_({&calls_, &reader_, &touches_, &blocks_, &token_rules_, options_.bodies,
                 options_.block_timeout, options_.clock}),
      reads_({store_, options_.bodies, options_.memory, &calls_, &reader_, &touches_, &blocks_,
              &session_usage_, options_.clock}),
      job_calls_(store_, &calls_, &reader_, &writes_),
      lifecycle_(LifecycleOptions()),
      writes_(WriteOptions()),
      item_reads_(ItemReadOptions()),
      item_writes_(ItemWriteOptions()),
      namespaces_(NamespaceOptions()),
      expiry_(ExpiryOptions()),
      sweeper_(std::make_unique<Sweeper>(SweeperOptions())) {
  jobs_.StartPolling();
}

Engine::~Engine() {
  calls_.Stop();
  sweeper_.reset();
  // What was read last counts as well.
  if (calls_.serving()) touches_.Flush();
  jobs_.Stop();
  if (calls_.serving()) {
    for (const SessionKey& key : session_usage_.Sessions()) StoreUsage(key);
  }
  Drain(Deadline::max());
  writes_.Stop();
  item_writes_.Stop();
}

BlockEnvironment Engine::MakeBlockEnvironment() {
  BlockEnvironment environment;
  environment.models = &models_;
  environment.workers = options_.workers;
  environment.bodies = options_.bodies;
  environment.entries = &entries_;
  environment.stats = &block_stats_;
  environment.run = [this](std::string_view tenant, Executor::Task task) {
    readers_.Submit(tenant, std::move(task));
  };
  environment.sessions = &attached_;
  return environment;
}

AttachedSessions::Options Engine::AttachedOptions() {
  AttachedSessions::Options attached;
  attached.cache = &cache_;
  attached.loader = &loader_;
  attached.calls = &calls_;
  attached.blocks = &blocks_;
  attached.writes = &writes_;
  attached.encode = options_.hand_on;
  return attached;
}

WritePath::Options Engine::WriteOptions() {
  WritePath::Options writes;
  writes.store = store_;
  writes.bodies = options_.bodies;
  writes.memory = options_.memory;
  writes.calls = &calls_;
  writes.cache = &cache_;
  writes.loader = &loader_;
  writes.reader = &reader_;
  writes.blocks = &blocks_;
  writes.token_rules = &token_rules_;
  writes.counting = &counting_;
  writes.jobs = &jobs_;
  writes.usage = &session_usage_;
  writes.quotas = quotas_.get();
  writes.defaults_of = &options_.defaults_of;
  writes.committers = options_.committers;
  writes.large_writes_apart = options_.large_writes_apart;
  writes.max_active_bytes = options_.max_active_bytes;
  writes.clock = options_.clock;
  writes.random = options_.random;
  return writes;
}

JobRunner::Options Engine::JobOptions() {
  JobRunner::Options jobs;
  jobs.store = store_;
  jobs.cache = &cache_;
  jobs.loader = &loader_;
  jobs.executor = &readers_;
  jobs.pending = &calls_.pending();
  jobs.stats = &stats_;
  jobs.bodies = options_.bodies;
  jobs.memory = options_.memory;
  jobs.blocks = &blocks_;
  jobs.writes = &writes_;
  jobs.max_message_bytes = 2 * std::min(options_.max_active_bytes, kAllActive / 2);
  jobs.clock = options_.clock;
  jobs.random = options_.random;
  jobs.settings = options_.jobs;
  jobs.take_over = options_.coherence == Coherence::kExclusive;
  return jobs;
}

LifecycleCalls::Options Engine::LifecycleOptions() {
  LifecycleCalls::Options lifecycle;
  lifecycle.store = store_;
  lifecycle.bodies = options_.bodies;
  lifecycle.calls = &calls_;
  lifecycle.reader = &reader_;
  lifecycle.loader = &loader_;
  lifecycle.blocks = &blocks_;
  lifecycle.writes = &writes_;
  lifecycle.counting = &counting_;
  lifecycle.defaults_of = &options_.defaults_of;
  lifecycle.search = &recall_.search();
  lifecycle.entries = &entries_;
  lifecycle.random = options_.random;
  lifecycle.clock = options_.clock;
  return lifecycle;
}

ItemReads::Options Engine::ItemReadOptions() {
  ItemReads::Options reads;
  reads.store = &store_->Items();
  reads.memory = options_.memory;
  reads.calls = &calls_;
  reads.searchers = &searchers_;
  reads.word_vectors = options_.word_vectors;
  reads.clock = options_.clock;
  return reads;
}

ItemWritePath::Options Engine::ItemWriteOptions() {
  ItemWritePath::Options writes;
  writes.store = &store_->Items();
  writes.calls = &calls_;
  writes.quotas = quotas_.get();
  writes.committers = options_.committers;
  writes.clock = options_.clock;
  return writes;
}

NamespaceCalls::Options Engine::NamespaceOptions() {
  NamespaceCalls::Options namespaces;
  namespaces.store = &store_->Items();
  namespaces.memory = options_.memory;
  namespaces.calls = &calls_;
  namespaces.writes = &item_writes_;
  namespaces.clock = options_.clock;
  return namespaces;
}

SessionExpiry::Options Engine::ExpiryOptions() {
  SessionExpiry::Options expiry;
  expiry.store = store_;
  expiry.touches = &touches_;
  expiry.stats = &stats_;
  expiry.max_active_bytes = options_.max_active_bytes;
  expiry.writes = &writes_;
  expiry.clock = options_.clock;
  expiry.stopping = [this] { return calls_.stopping(); };
  return expiry;
}

Sweeper::Options Engine::SweeperOptions() {
  Sweeper::Options sweeper;
  sweeper.store = store_;
  sweeper.calls = &calls_;
  sweeper.touches = &touches_;
  sweeper.expiry = &expiry_;
  sweeper.quotas = quotas_.get();
  sweeper.shared = options_.coherence == Coherence::kShared;
  sweeper.interval = options_.sweep_interval;
  sweeper.keep_requests = options_.keep_requests;
  sweeper.clock = options_.clock;
  return sweeper;
}

void Engine::StoreUsage(const SessionKey& key) {
  WriteRequest write;
  write.command = commands::StoreUsage();
  write.key = key;
  write.deadline = std::chrono::steady_clock::now() + kStoreUsageTime;
  // What is not stored waits for another commit.
  Submit(std::move(write), [](const absl::StatusOr<WriteReply>&) {});
}

absl::Status Engine::CheckStore() {
  absl::Status status = store_->Ping();
  if (options_.coherence == Coherence::kExclusive) {
    // Another server may write from the moment the lock is lost: what is cached proves nothing
    // until this server holds it again and has read anew. A store that is only busy is not lost.
    if (!status.ok() && !absl::IsDeadlineExceeded(status)) {
      calls_.SetServing(false);
    } else if (status.ok() && !calls_.serving()) {
      cache_.Clear();
      calls_.SetServing(true);
    }
  }
  return status;
}

}  // namespace memoryd
