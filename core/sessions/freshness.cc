#include "core/sessions/freshness.h"

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/exception.h"
#include "core/base/mutex.h"
#include "core/calls/wake_scope.h"
#include "core/model/session.h"
#include "core/sessions/session.h"
#include "core/sessions/session_cache.h"
#include "core/storage/store.h"

namespace memoryd {
namespace {

// Keys per look-up: bounds the statement, not the throughput.
constexpr std::size_t kMaxKeys = 512;

// A session without a row and a tombstone are both version 0 for a reader.
SessionVersion VersionOf(const Session& session) {
  if (!session.exists()) return {};
  return {session.row.generation, session.row.revision};
}

}  // namespace

Freshness::Freshness(Store* store) : store_(store) {}

void Freshness::Check(std::shared_ptr<CachedSession> session, Done done) {
  SessionVersion asked_at;
  {
    MutexLock lock(session->mutex);
    asked_at = VersionOf(session->session);
  }
  bool was_empty = false;
  {
    MutexLock lock(mutex_);
    was_empty = queue_.empty();
    queue_.push_back({std::move(session), asked_at, std::move(done)});
  }
  if (was_empty) worker_.Wake();
}

void Freshness::AnswerQueued() {
  for (;;) {
    std::vector<Question> questions;
    {
      MutexLock lock(mutex_);
      if (queue_.empty()) return;
      questions.swap(queue_);
    }
    try {
      Answer(questions);
    } catch (...) {
      const absl::Status status = CaughtException();
      for (Question& question : questions) {
        if (question.done) question.done(status);
      }
    }
  }
}

void Freshness::Answer(std::vector<Question>& questions) {
  std::size_t next = 0;
  while (next < questions.size()) {
    const std::size_t begin = next;
    std::vector<SessionKey> keys;
    std::unordered_map<const CachedSession*, std::size_t> index;
    for (; next < questions.size() && keys.size() < kMaxKeys; ++next) {
      const CachedSession* session = questions[next].session.get();
      if (index.emplace(session, keys.size()).second) keys.push_back(session->key);
    }
    const auto versions = store_->Revisions(keys);
    const WakeScope replies;
    for (std::size_t i = begin; i < next; ++i) {
      Question& question = questions[i];
      if (!versions.ok()) {
        std::exchange(question.done, nullptr)(versions.status());
        continue;
      }
      const SessionVersion stored =
          (*versions)[index.at(question.session.get())].value_or(SessionVersion());
      bool fresh = false;
      {
        MutexLock lock(question.session->mutex);
        const SessionVersion cached = VersionOf(question.session->session);
        const bool unchanged = cached.generation == question.asked_at.generation &&
                               cached.revision == question.asked_at.revision;
        // A cached session that moved on meanwhile did so by a commit of ours: if the stored
        // revision is lower, the cached one is newer. Nothing stored proves nothing: the session
        // may have been deleted after that commit.
        fresh = question.session->loaded &&
                ((cached.generation == stored.generation && cached.revision == stored.revision) ||
                 (!unchanged && stored.revision > 0 && cached.revision > stored.revision));
      }
      std::exchange(question.done, nullptr)(fresh);
    }
  }
}

}  // namespace memoryd
