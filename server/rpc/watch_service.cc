#include "server/rpc/watch_service.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/mutex.h"
#include "core/model/session.h"
#include "core/reads/session_reads.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/watch_stream.h"
#include "server/wire/method.h"
#include "server/wire/rpc_call.h"

namespace memoryd {
namespace {

// Bounds the statement.
constexpr std::size_t kMaxKeys = 512;

absl::Status Draining() {
  return Error(absl::StatusCode::kUnavailable, "DRAINING",
               "the server is going away; go on with the last revision at another, or try again");
}

}  // namespace

WatchService::WatchService(SessionReads* reads, const CallEnvironment& environment,
                           const WatchServiceOptions& options)
    : reads_(*reads), environment_(environment), options_(options), thread_([this] { Run(); }) {}

WatchService::~WatchService() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void WatchService::AddTo(RpcMethods& methods) {
  methods.Add(Method::kWatchSession, this, &WatchService::WatchSession);
}

void WatchService::WatchSession(RpcCallPtr rpc) {
  const auto stream = std::make_shared<WatchStream>(
      this, WatchStream::Parts{&reads_, environment_, options_.quiet_time}, rpc);
  // Its events come when this function has returned.
  rpc->SetHandler(stream);
  absl::Status admitted;
  try {
    admitted = stream->Admit();
    if (admitted.ok()) admitted = Add(stream);
  } catch (...) {
    admitted = CaughtException();
  }
  if (admitted.ok()) {
    rpc->Read();
  } else {
    stream->End(admitted);
  }
}

absl::Status WatchService::Add(const std::shared_ptr<WatchStream>& stream) {
  {
    MutexLock lock(mutex_);
    if (draining_) {
      environment_.stats->RefusedDraining();
      return Draining();
    }
    if (streams_.size() >= options_.max_streams) {
      return Error(absl::StatusCode::kResourceExhausted, "SERVER_BUSY",
                   "too many sessions are watched; nothing was started, try again later");
    }
    streams_.emplace(stream.get(), stream);
  }
  changed_.NotifyAll();
  return absl::OkStatus();
}

void WatchService::Forget(WatchStream* stream) {
  // Released outside the lock, should it be the last reference.
  std::shared_ptr<WatchStream> gone;
  MutexLock lock(mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;  // One that was refused.
  gone = std::move(found->second);
  streams_.erase(found);
}

std::vector<std::shared_ptr<WatchStream>> WatchService::Streams() const {
  std::vector<std::shared_ptr<WatchStream>> streams;
  MutexLock lock(mutex_);
  streams.reserve(streams_.size());
  for (const auto& [address, stream] : streams_) streams.push_back(stream);
  return streams;
}

std::size_t WatchService::stream_count() const {
  MutexLock lock(mutex_);
  return streams_.size();
}

void WatchService::Drain() {
  {
    MutexLock lock(mutex_);
    draining_ = true;
  }
  for (const auto& stream : Streams()) stream->End(Draining());
}

void WatchService::Run() {
  const std::chrono::milliseconds interval =
      reads_.shared() ? options_.shared_look_interval : options_.look_interval;
  for (;;) {
    {
      MutexLock lock(mutex_);
      while (!stopping_ && streams_.empty()) changed_.Wait(mutex_);
      const auto next = std::chrono::steady_clock::now() + interval;
      while (!stopping_ && std::chrono::steady_clock::now() < next) {
        changed_.WaitUntil(mutex_, next);
      }
      if (stopping_) return;
    }
    try {
      LookAtAll();
    } catch (...) {
      // For want of memory; the next look may have it.
      spdlog::warn("a look for news of watched sessions: {}",
                   std::string(CaughtException().message()));
    }
  }
}

void WatchService::LookAtAll() {
  std::map<SessionKey, std::vector<std::shared_ptr<WatchStream>>> watched;
  for (auto& stream : Streams()) {
    if (const std::optional<SessionKey> key = stream->Watched(); key.has_value()) {
      watched[*key].push_back(std::move(stream));
    }
  }
  const auto now = std::chrono::steady_clock::now();
  std::vector<SessionKey> keys;
  for (auto next = watched.begin(); next != watched.end();) {
    keys.clear();
    const auto first = next;
    for (; next != watched.end() && keys.size() < kMaxKeys; ++next) keys.push_back(next->first);
    const auto versions = reads_.Versions(keys);
    std::size_t i = 0;
    for (auto at = first; at != next; ++at, ++i) {
      for (const auto& stream : at->second) {
        if (versions.ok()) {
          stream->Tick((*versions)[i], now);
        } else {
          stream->End(versions.status());
        }
      }
    }
  }
}

}  // namespace memoryd
