#include "core/engine/engine.h"

#include <algorithm>
#include <iterator>

#include "core/base/error.h"
#include "core/engine/compose.h"

namespace memoryd {
namespace {

constexpr std::chrono::seconds kSweepInterval(10);
// A reply of more messages is built by a reader, so that others need not wait for it on the one
// thread that confirms revisions.
constexpr std::size_t kLargeContext = 200;
// Rows per statement: small, so that a sweep never holds up a commit for long.
constexpr std::int64_t kSweepRows = 500;

absl::Status QueueFull() {
  return Error(absl::StatusCode::kResourceExhausted, "QUEUE_FULL",
               "too many calls wait for the store; nothing was started, try again later");
}

// Stores word their troubles in their own way; callers see one reason.
absl::Status Reported(const absl::Status& status) {
  if (absl::IsUnavailable(status) && ErrorReason(status).empty()) return StoreUnavailable();
  return status;
}

}  // namespace

// A read that left the calling thread.
template <typename T>
class Engine::Read : public PendingCall {
 public:
  Read(Engine* engine, Deadline deadline, Done<T> done)
      : PendingCall(deadline), engine_(engine), done_(std::move(done)) {}
  ~Read() override { engine_->Leave(0); }

  void Finish(absl::StatusOr<T> result) {
    if (finished_.exchange(true)) return;
    engine_->pending_.Remove(this);
    if (!result.ok()) result = Reported(result.status());
    done_(std::move(result));
  }
  void Expire() override { Finish(StoreUnavailable()); }

 private:
  Engine* const engine_;
  const Done<T> done_;
  std::atomic<bool> finished_{false};
};

Engine::Engine(Store* store, EngineOptions options)
    : store_(store),
      options_(std::move(options)),
      token_rules_(options_.vocabulary_directory),
      cache_(options_.cache_bytes),
      executor_(options_.readers, static_cast<std::size_t>(options_.max_pending_calls)) {
  if (options_.coherence == Coherence::kShared) freshness_ = std::make_unique<Freshness>(store_);
  for (int i = 0; i < options_.committers; ++i) {
    Committer::Options committer;
    committer.store = store_;
    committer.cache = &cache_;
    committer.token_rules = &token_rules_;
    committer.shared = options_.coherence == Coherence::kShared;
    committer.now_us = options_.now_us;
    committer.random = options_.random;
    committer.reload = [this](std::shared_ptr<Write> write) { Reload(std::move(write)); };
    committer.look_up = [this](std::shared_ptr<Write> write,
                               std::optional<SessionDraft::Decision> otherwise) {
      executor_.Submit([this, write = std::move(write), otherwise = std::move(otherwise)] {
        LookUp(write, otherwise);
      });
    };
    committers_.push_back(std::make_unique<Committer>(std::move(committer)));
  }
  sweeper_ = std::thread([this] { Sweep(); });
}

Engine::~Engine() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  sweeper_.join();
  Drain(Deadline::max());
  committers_.clear();
  freshness_.reset();
}

absl::Status Engine::Admit(std::int64_t bytes) {
  if (!serving_.load(std::memory_order_relaxed)) return StoreUnavailable();
  const std::int64_t calls = pending_calls_.fetch_add(1) + 1;
  const std::int64_t total = pending_bytes_.fetch_add(bytes) + bytes;
  if (calls > options_.max_pending_calls || total > options_.max_pending_bytes) {
    Leave(bytes);
    return QueueFull();
  }
  return absl::OkStatus();
}

void Engine::Leave(std::int64_t bytes) {
  pending_bytes_.fetch_sub(bytes);
  if (pending_calls_.fetch_sub(1) == 1) {
    MutexLock lock(mutex_);
    if (stopping_) changed_.NotifyAll();
  }
}

bool Engine::Drain(Deadline deadline) {
  MutexLock lock(mutex_);
  stopping_ = true;
  while (pending_calls_.load() > 0) {
    if (deadline == Deadline::max()) {
      changed_.Wait(mutex_);
    } else if (!changed_.WaitUntil(mutex_, deadline)) {
      return pending_calls_.load() == 0;
    }
  }
  return true;
}

void Engine::Submit(WriteRequest request, Write::Done done) {
  const auto bytes = static_cast<std::int64_t>(request.byte_size);
  if (absl::Status status = Admit(bytes); !status.ok()) {
    done(std::move(status), {}, false);
    return;
  }
  std::shared_ptr<CachedSession> session = cache_.Acquire(request.key);
  // Lives as long as the write, which may be longer than the call: one that expired keeps its place
  // in a queue until the store moves on.
  struct Admission {
    Admission(Engine* owner, std::int64_t size) : engine(owner), bytes(size) {}
    ~Admission() { engine->Leave(bytes); }
    Admission(const Admission&) = delete;
    Admission& operator=(const Admission&) = delete;

    Engine* const engine;
    const std::int64_t bytes;
    const PendingCall* call = nullptr;
  };
  auto admission = std::make_shared<Admission>(this, bytes);
  auto write = std::make_shared<Write>(std::move(request), session,
                                       [this, admission, done = std::move(done)](
                                           absl::Status status, std::string reply, bool replayed) {
                                         pending_.Remove(admission->call);
                                         done(std::move(status), std::move(reply), replayed);
                                       });
  admission->call = write.get();
  admission.reset();
  pending_.Add(write);
  bool loaded = false;
  {
    MutexLock lock(session->mutex);
    loaded = session->loaded;
  }
  if (loaded) {
    CountTokens(*write);
    Enqueue(std::move(write));
    return;
  }
  WithLoaded(std::move(session), /*anew=*/false, [this, write](const absl::Status& status) {
    if (!status.ok()) {
      write->Finish(status);
      return;
    }
    CountTokens(*write);
    Enqueue(write);
  });
}

// Counts ahead of the committer, which has to count again only when the configuration turns out to
// be another one. Errors are its business too.
void Engine::CountTokens(Write& write) {
  std::shared_ptr<const SessionConfig> config;
  {
    MutexLock lock(write.session->mutex);
    if (!write.session->loaded) return;
    if (write.session->session.exists()) config = write.session->session.config;
  }
  CountingRules rules;
  if (config != nullptr) {
    rules = config->counting;
  } else if (write.request.settings.has_value()) {
    auto resolved = SessionConfig::Resolve(*write.request.settings);
    if (!resolved.ok()) return;
    rules = resolved->counting;
  }
  auto counts = token_rules_.Count(rules, write.request.messages);
  if (!counts.ok()) return;
  write.token_counts = *std::move(counts);
  write.counted_with = std::move(rules);
}

void Engine::Enqueue(std::shared_ptr<Write> write) {
  const std::size_t owner = SessionKeyHash()(write->session->key) % committers_.size();
  committers_[owner]->Enqueue(std::move(write));
}

void Engine::Reload(std::shared_ptr<Write> write) {
  std::shared_ptr<CachedSession> session = write->session;
  WithLoaded(std::move(session), /*anew=*/true, [this, write](const absl::Status& status) {
    if (!status.ok()) {
      write->Finish(status);
      return;
    }
    write->fresh = true;
    Enqueue(write);
  });
}

void Engine::LookUp(const std::shared_ptr<Write>& write,
                    const std::optional<SessionDraft::Decision>& otherwise) {
  const WriteRequest& request = write->request;
  const auto records = store_->FindRequests(request.key, {&request.request_id, 1});
  if (!records.ok()) {
    write->Finish(records.status());
  } else if (const auto& record = records->front(); record.has_value()) {
    if (record->fingerprint == request.fingerprint) {
      write->Finish(absl::OkStatus(), record->reply, /*replayed=*/true);
    } else {
      write->Finish(RequestIdReused());
    }
  } else if (otherwise.has_value()) {
    write->Finish(otherwise->status, otherwise->reply);
  } else {
    Enqueue(write);
  }
}

void Engine::WithLoaded(std::shared_ptr<CachedSession> session, bool anew,
                        CachedSession::Waiter done) {
  {
    MutexLock lock(session->mutex);
    if (anew || !session->loaded) {
      const bool next = anew && session->loading;
      (next ? session->waiting_for_next : session->waiting).push_back(std::move(done));
      if (!session->loading) {
        session->loading = true;
        Load(session);
      }
      return;
    }
  }
  done(absl::OkStatus());
}

void Engine::Load(const std::shared_ptr<CachedSession>& session) {
  executor_.Submit([this, session] {
    std::int64_t basis = -1;
    std::uint64_t forgotten = 0;
    {
      MutexLock lock(session->mutex);
      forgotten = session->forgotten;
      if (session->loaded) basis = session->session.row.revision;
    }
    absl::Status status;
    Session loaded = Session::Absent();
    if (auto stored = store_->LoadSession(session->key); !stored.ok()) {
      status = Reported(stored.status());
    } else if (stored->has_value()) {
      auto read = Session::FromStore(**std::move(stored));
      status = read.status();
      if (read.ok()) loaded = *std::move(read);
    }
    std::vector<CachedSession::Waiter> waiting;
    bool again = false;
    std::size_t bytes = 0;
    {
      MutexLock lock(session->mutex);
      Session& cached = session->session;
      // A commit that ended meanwhile has left something newer than what was read.
      const bool newer = !session->loaded || cached.row.revision == basis ||
                         loaded.row.revision > cached.row.revision;
      // What was read before the session was forgotten proves nothing.
      const bool outdated = session->forgotten != forgotten;
      if (status.ok() && newer && !outdated) {
        loaded.recent_requests = std::move(cached.recent_requests);
        for (const RequestRecord& record : loaded.recent_requests) {
          loaded.content_bytes += memoryd::ByteSize(record);
        }
        cached = std::move(loaded);
        session->loaded = true;
      }
      bytes = cached.ByteSize();
      if (!outdated || !status.ok()) waiting.swap(session->waiting);
      std::move(session->waiting_for_next.begin(), session->waiting_for_next.end(),
                std::back_inserter(session->waiting));
      session->waiting_for_next.clear();
      again = !session->waiting.empty();
      session->loading = again;
    }
    cache_.Recharge(session, bytes);
    if (again) Load(session);
    for (const CachedSession::Waiter& waiter : waiting) waiter(status);
  });
}

void Engine::WithCurrent(std::shared_ptr<CachedSession> session, CachedSession::Waiter done) {
  bool loaded = false;
  {
    MutexLock lock(session->mutex);
    loaded = session->loaded;
  }
  if (freshness_ == nullptr) {
    WithLoaded(std::move(session), /*anew=*/false, std::move(done));
    return;
  }
  if (!loaded) {
    WithLoaded(std::move(session), /*anew=*/true, std::move(done));
    return;
  }
  freshness_->Check(session, [this, session, done = std::move(done)](absl::StatusOr<bool> fresh) {
    if (fresh.ok() && !*fresh) {
      WithLoaded(session, /*anew=*/true, done);
    } else {
      done(fresh.status());
    }
  });
}

template <typename T>
std::shared_ptr<Engine::Read<T>> Engine::StartRead(Deadline deadline, Done<T> done) {
  if (absl::Status status = Admit(0); !status.ok()) {
    done(std::move(status));
    return nullptr;
  }
  auto read = std::make_shared<Read<T>>(this, deadline, std::move(done));
  pending_.Add(read);
  return read;
}

void Engine::Get(const SessionKey& key, Deadline deadline, Done<Context> done) {
  std::shared_ptr<CachedSession> session = cache_.Acquire(key);
  if (freshness_ == nullptr && serving_.load(std::memory_order_relaxed)) {
    std::optional<Context> context;
    {
      MutexLock lock(session->mutex);
      if (session->loaded) context = Compose(session->session);
    }
    if (context.has_value()) {
      done(*std::move(context));
      return;
    }
  }
  const auto read = StartRead<Context>(deadline, std::move(done));
  if (read == nullptr) return;
  WithCurrent(session, [this, session, read](const absl::Status& status) {
    if (!status.ok()) {
      read->Finish(status);
      return;
    }
    bool large = false;
    {
      MutexLock lock(session->mutex);
      large = session->session.active.size() > kLargeContext;
    }
    const auto compose = [session, read] {
      Context context;
      {
        MutexLock lock(session->mutex);
        context = Compose(session->session);
      }
      read->Finish(std::move(context));
    };
    if (large) {
      executor_.Submit(compose);
    } else {
      compose();
    }
  });
}

SessionInfo Engine::InfoOf(CachedSession& session) {
  MutexLock lock(session.mutex);
  return {session.session.row, session.session.config};
}

void Engine::GetSession(const SessionKey& key, Deadline deadline, Done<SessionInfo> done) {
  const auto read = StartRead<SessionInfo>(deadline, std::move(done));
  if (read == nullptr) return;
  std::shared_ptr<CachedSession> session = cache_.Acquire(key);
  WithCurrent(session, [session, read](const absl::Status& status) {
    if (status.ok()) {
      read->Finish(InfoOf(*session));
    } else {
      read->Finish(status);
    }
  });
}

void Engine::ReadPage(PageRequest request, Deadline deadline, Done<Page> done) {
  auto read = StartRead<Page>(deadline, std::move(done));
  if (read == nullptr) return;
  std::shared_ptr<CachedSession> session = cache_.Acquire(request.key);
  ReadRows(std::move(read), std::move(session), std::move(request), /*again=*/false);
}

void Engine::ReadRows(std::shared_ptr<Read<Page>> read, std::shared_ptr<CachedSession> session,
                      PageRequest request, bool again) {
  auto read_rows = [this, session, read, request, again] {
    auto page = memoryd::ReadPage(*store_, InfoOf(*session), request);
    // Was the session reset between the look at its row and the read? Then the second look tells.
    if (page.ok() && page->has_gap && !again) {
      ReadRows(read, session, request, /*again=*/true);
    } else {
      read->Finish(std::move(page));
    }
  };
  WithCurrent(session, [this, read, read_rows = std::move(read_rows)](const absl::Status& status) {
    if (!status.ok()) {
      read->Finish(status);
    } else if (!executor_.TrySubmit(read_rows)) {
      read->Finish(QueueFull());
    }
  });
}

void Engine::ListSessions(std::string tenant, std::string after, std::int64_t max_sessions,
                          Deadline deadline,
                          Done<std::vector<std::pair<std::string, SessionInfo>>> done) {
  using Listed = std::vector<std::pair<std::string, SessionInfo>>;
  const auto read = StartRead<Listed>(deadline, std::move(done));
  if (read == nullptr) return;
  const bool queued = executor_.TrySubmit(
      [this, read, tenant = std::move(tenant), after = std::move(after), max_sessions] {
        auto listed = store_->ListSessions(tenant, after, max_sessions);
        if (!listed.ok()) {
          read->Finish(listed.status());
          return;
        }
        Listed sessions;
        for (ListedSession& entry : *listed) {
          auto session = Session::FromStore({std::move(entry.row), {}});
          if (!session.ok()) {
            read->Finish(session.status());
            return;
          }
          sessions.emplace_back(std::move(entry.session),
                                SessionInfo{std::move(session->row), std::move(session->config)});
        }
        read->Finish(std::move(sessions));
      });
  if (!queued) read->Finish(QueueFull());
}

absl::Status Engine::CheckStore() {
  absl::Status status = store_->Ping();
  if (options_.coherence == Coherence::kExclusive) {
    // Another server may write from the moment the lock is lost: what is cached proves nothing
    // until this server holds it again and has read anew.
    if (!status.ok()) {
      serving_.store(false);
    } else if (!serving_.load()) {
      cache_.Clear();
      serving_.store(true);
    }
  }
  return status;
}

void Engine::Sweep() {
  for (;;) {
    const auto next = std::chrono::steady_clock::now() + kSweepInterval;
    {
      MutexLock lock(mutex_);
      while (!stopping_ && std::chrono::steady_clock::now() < next) {
        changed_.WaitUntil(mutex_, next);
      }
      if (stopping_) return;
    }
    const PurgeLimits limits{
        options_.now_us(),
        std::chrono::duration_cast<std::chrono::microseconds>(options_.keep_requests).count(),
        kSweepRows};
    for (;;) {
      const auto purged = store_->Purge(limits);
      // An error shows in health checks; the next sweep tries again.
      if (!purged.ok() || *purged < kSweepRows) break;
      MutexLock lock(mutex_);
      if (stopping_) return;
    }
  }
}

}  // namespace memoryd
