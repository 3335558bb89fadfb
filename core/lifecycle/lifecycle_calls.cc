#include "core/lifecycle/lifecycle_calls.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "core/blocks/block_traits.h"
#include "core/calls/calls.h"
#include "core/calls/executor.h"
#include "core/lifecycle/session_fork.h"
#include "core/lifecycle/session_import.h"
#include "core/lifecycle/subject_erase.h"
#include "core/model/session_config.h"
#include "core/model/session_template.h"
#include "core/sessions/session_cache.h"
#include "core/writes/commands/sessions.h"
#include "core/writes/draft/requested_config.h"
#include "core/writes/write.h"

namespace memoryd {

template <typename T>
std::function<void(Executor::Task)> LifecycleCalls::RunFor(const std::shared_ptr<ReadCall<T>>& read,
                                                           const std::string& tenant) {
  return [calls = options_.calls, read, tenant](Executor::Task task) {
    calls->RunAdmitted(tenant,
                       [calls, read, task = std::move(task)] { calls->Guarded(read, task); });
  };
}

void LifecycleCalls::ForkSession(ForkRequest request, Done<ForkReply> done) {
  const auto read =
      options_.calls->Begin<ForkReply>(request.source.tenant, request.deadline, std::move(done));
  if (read == nullptr) return;
  SessionFork::Options fork;
  fork.store = options_.store;
  fork.bodies = options_.bodies;
  fork.run = RunFor(read, request.source.tenant);
  fork.loader = options_.loader;
  fork.writes = options_.writes;
  fork.random = options_.random;
  fork.begin_write = [read] { return read->BeginWrite(); };
  fork.answered = [read] { return read->finished(); };
  fork.done = [read](absl::StatusOr<ForkReply> reply) { read->Finish(std::move(reply)); };
  std::shared_ptr<CachedSession> source = options_.reader->Acquire(request.source);
  std::make_shared<SessionFork>(std::move(fork), std::move(request), std::move(source))->Start();
}

absl::StatusOr<std::shared_ptr<SessionImport>> LifecycleCalls::ImportSession(
    ImportRequest request) {
  if (!request.settings.has_value()) {
    WriteRequest named;
    named.key = request.key;
    named.command = commands::CreateSession{{{}, request.template_name}};
    if (*options_.defaults_of) named.defaults_of = options_.defaults_of;
    MEMORYD_ASSIGN_OR_RETURN(const SessionDefaults defaults, DefaultsFor(named));
    // Of retention it has what it is imported with.
    request.settings = SettingsOfNew(named, {defaults.from, {}});
  } else if (!request.template_name.empty()) {
    request.settings->template_name = request.template_name;
  }
  MEMORYD_ASSIGN_OR_RETURN(SessionConfig config, SessionConfig::Resolve(*request.settings));
  if (request.settings->blocks.has_value()) {
    ReadTraits(*request.settings->blocks, config.counting.profile);
    MEMORYD_RETURN_IF_ERROR(CheckOtherSessions(request.key, *request.settings->blocks));
  }
  MEMORYD_RETURN_IF_ERROR(options_.blocks->Check(*request.settings));
  SessionImport::Options import;
  import.counting = options_.counting;
  import.writes = options_.writes;
  import.random = options_.random;
  return std::make_shared<SessionImport>(std::move(import), std::move(request),
                                         std::make_shared<const SessionConfig>(std::move(config)));
}

void LifecycleCalls::EraseSubject(EraseRequest request, Done<EraseReceipt> done) {
  const auto read =
      options_.calls->Begin<EraseReceipt>(request.tenant, request.deadline, std::move(done));
  if (read == nullptr) return;
  SubjectErase::Options erase;
  erase.store = options_.store;
  erase.run = RunFor(read, request.tenant);
  erase.writes = options_.writes;
  erase.begin_write = [read] { return read->BeginWrite(); };
  erase.clock = options_.clock;
  erase.forget = [this](const SessionKey& key) { Forget(key); };
  erase.done = [read](absl::StatusOr<EraseReceipt> receipt) { read->Finish(std::move(receipt)); };
  std::make_shared<SubjectErase>(std::move(erase), std::move(request))->Start();
}

void LifecycleCalls::Forget(const SessionKey& key) {
  options_.search->Forget(key);
  options_.entries->Forget(key);
  const std::shared_ptr<CachedSession> session = options_.reader->Acquire(key);
  MutexLock lock(session->mutex);
  session->blocks.reset();
  session->blocks_of.reset();
}

}  // namespace memoryd
