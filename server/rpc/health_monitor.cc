#include "server/rpc/health_monitor.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <string>

#include "core/base/exception.h"
#include "core/base/mutex.h"
#include "core/engine/engine.h"
#include "core/storage/observed_store.h"
#include "core/storage/store.h"
#include "server/ops/memory_watch.h"
#include "server/rpc/health_service.h"
#include "server/wire/method.h"

namespace memoryd {
namespace {

constexpr std::chrono::seconds kAskInterval(1);
constexpr std::chrono::seconds kGoodFor(3);
constexpr std::chrono::milliseconds kReportInterval(250);
constexpr std::chrono::seconds kDescribeInterval(30);

}  // namespace

HealthMonitor::HealthMonitor(Engine* engine, ObservedStore* store, MemoryWatch* memory,
                             HealthService* health)
    : engine_(engine), store_(store), memory_(memory), health_(health) {
  health_->SetServing("liveness", true);
  // Once before anybody is told that the server listens, so that its first answer is the true one.
  const bool good = engine_->CheckStore().ok();
  {
    MutexLock lock(mutex_);
    answered_ = good;
    last_good_ = std::chrono::steady_clock::now();
  }
  SetServing(good);
  if (good) Describe();
  asker_ = std::thread([this] { Ask(); });
  reporter_ = std::thread([this] { Report(); });
}

HealthMonitor::~HealthMonitor() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  asker_.join();
  reporter_.join();
}

void HealthMonitor::BeginDrain() {
  MutexLock lock(mutex_);
  draining_ = true;
  SetServing(false);
}

void HealthMonitor::SetServing(bool serving) {
  health_->SetServing("", serving);
  for (const std::string& service : ServicesOfMethods()) health_->SetServing(service, serving);
}

void HealthMonitor::Ask() {
  for (;;) {
    const auto next = std::chrono::steady_clock::now() + kAskInterval;
    absl::Status status;
    try {
      status = engine_->CheckStore();
      if (status.ok() && next - described_ >= kDescribeInterval) Describe();
    } catch (...) {
      status = CaughtException();
    }
    MutexLock lock(mutex_);
    answered_ = true;
    if (status.ok()) {
      last_good_ = std::chrono::steady_clock::now();
      wake_.NotifyAll();
    }
    while (!stopping_ && std::chrono::steady_clock::now() < next) wake_.WaitUntil(mutex_, next);
    if (stopping_) return;
  }
}

void HealthMonitor::Describe() {
  const auto info = store_->Describe();
  if (!info.ok()) return;
  described_ = std::chrono::steady_clock::now();
  if (durability_ == info->durability) return;
  durability_ = info->durability;
  switch (info->durability) {
    case Durability::kNone:
      spdlog::warn("durability NONE: the store may lose what was acknowledged when it crashes");
      break;
    case Durability::kLocal:
      spdlog::info(
          "durability LOCAL: what is acknowledged survives a crash, not the loss of the store's "
          "machine");
      break;
    case Durability::kReplicated:
      spdlog::info("durability REPLICATED: a standby has what is acknowledged");
      break;
  }
}

void HealthMonitor::Report() {
  bool serving = false;
  for (;;) {
    memory_->Look();
    MutexLock lock(mutex_);
    if (stopping_) return;
    const auto now = std::chrono::steady_clock::now();
    const bool good = answered_ && now - last_good_ < kGoodFor && !draining_;
    if (good != serving) {
      serving = good;
      SetServing(serving);
      if (!draining_) {
        if (serving) {
          spdlog::info("the store answers: serving");
        } else {
          spdlog::warn("the store does not answer: not serving");
        }
      }
    }
    wake_.WaitUntil(mutex_, now + kReportInterval);
  }
}

}  // namespace memoryd
