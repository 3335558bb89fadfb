#include "core/reads/context_reader.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/histogram.h"
#include "core/base/mutex.h"
#include "core/calls/call_end.h"
#include "core/calls/calls.h"
#include "core/calls/executor.h"
#include "core/model/session.h"
#include "core/model/trace_context.h"
#include "core/reads/block_context.h"
#include "core/reads/compose.h"
#include "core/reads/context.h"
#include "core/reads/explain.h"
#include "core/sessions/session.h"
#include "core/sessions/session_cache.h"
#include "core/sessions/session_errors.h"

namespace memoryd {
namespace {

// A reply of more is built by a reader, so that others need not wait for it on the one thread that
// confirms revisions, or on that of their connection.
constexpr std::size_t kLargeContext = 200;
constexpr std::int64_t kLargeContextBytes = 256 << 10;

Context ComposeOf(const Session& session, const Session& live, bool explain) {
  Context context = Compose(live);
  if (explain && live.exists()) {
    context.explanation =
        std::make_shared<const Explanation>(Explain(session, live, context.messages));
  }
  return context;
}

bool IsLarge(CachedSession& session) {
  MutexLock lock(session.mutex);
  return session.session.active.size() > kLargeContext ||
         session.session.active_bytes > kLargeContextBytes ||
         !session.session.config->blocks.empty();
}

}  // namespace

std::optional<Context> ContextReader::AtHand(CachedSession& session, bool explain) {
  if (options_.reader->shared() || !options_.calls->serving()) return std::nullopt;
  MutexLock lock(session.mutex);
  if (!session.loaded || !session.session.whole || !session.session.config->blocks.empty() ||
      session.session.active_bytes > kLargeContextBytes) {
    return std::nullopt;
  }
  Context context = ComposeLive(session.session, explain);
  options_.touches->NoteRead(session.key, session.session.row, *session.session.config);
  return context;
}

void ContextReader::Get(const SessionKey& key, ContextQuestion question, CallEnd end,
                        std::function<void(absl::StatusOr<Context>)> done, TracePtr trace) {
  std::shared_ptr<CachedSession> session = options_.reader->Acquire(key);
  if (std::optional<Context> context = AtHand(*session, question.explain); context.has_value()) {
    Increment(options_.calls->stats().cache_hits);
    done(*std::move(context));
    return;
  }
  const auto read = options_.calls->Begin<Context>(key.tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  options_.reader->WithCurrent(
      session, read,
      [this, session, question = std::move(question), trace = std::move(trace), read] {
        const auto compose = [this, session, question, trace, read] {
          if (read->HasEnded()) return;
          options_.calls->Guarded(read, [&] { ComposeContext(session, question, trace, read); });
        };
        if (IsLarge(*session)) {
          options_.calls->RunAdmitted(session->key.tenant, compose);
        } else {
          compose();
        }
      });
}

void ContextReader::ComposeContext(const std::shared_ptr<CachedSession>& session,
                                   const ContextQuestion& question, const TracePtr& trace,
                                   const std::shared_ptr<ReadCall<Context>>& read) {
  std::optional<Context> plain;
  BlockContextRequest request;
  absl::Status status;
  {
    MutexLock lock(session->mutex);
    options_.touches->NoteRead(session->key, session->session.row, *session->session.config);
    if (!session->session.whole) {
      status = SessionTooLarge(session->session.active_bytes);
    } else if (!session->session.exists() || session->session.config->blocks.empty()) {
      plain = ComposeLive(session->session, question.explain);
    } else {
      request.session = session->session;
      // Kept by the cache alone.
      request.session.recent_requests.Clear();
      if (request.session.row.has_timed_items) {
        if (question.explain) request.stored = std::make_shared<const Session>(request.session);
        HideExpired(request.session, options_.clock->NowUs());
      }
    }
  }
  if (!status.ok()) {
    read->Finish(std::move(status));
    return;
  }
  if (plain.has_value()) {
    read->Finish(*std::move(plain));
    return;
  }
  auto blocks = options_.blocks->Of(*session, request.session.config);
  auto counter = options_.token_rules->CounterOf(request.session.config->counting);
  if (!blocks.ok() || !counter.ok()) {
    read->Finish(blocks.ok() ? counter.status() : blocks.status());
    return;
  }
  request.key = session->key;
  request.blocks = *std::move(blocks);
  request.input = question.input;
  request.explain = question.explain;
  request.trace = trace;
  request.now_us = options_.clock->NowUs();
  request.block_timeout = options_.block_timeout;
  request.deadline = read->deadline();
  request.bodies = options_.bodies;
  request.counter = *std::move(counter);
  request.run = [this, session](Executor::Task task) {
    options_.calls->RunAdmitted(session->key.tenant, std::move(task));
  };
  BuildBlockContext(std::move(request),
                    [read](absl::StatusOr<Context> context) { read->Finish(std::move(context)); });
}

Context ContextReader::ComposeLive(const Session& session, bool explain) const {
  if (!session.row.has_timed_items) return ComposeOf(session, session, explain);
  const std::int64_t now_us = options_.clock->NowUs();
  if (!HasExpired(session, now_us)) return ComposeOf(session, session, explain);
  Session live = session;
  HideExpired(live, now_us);
  return ComposeOf(session, live, explain);
}

}  // namespace memoryd
