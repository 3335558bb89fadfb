#include "core/writes/items/item_write_path.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/histogram.h"
#include "core/calls/admission.h"
#include "core/calls/call_end.h"
#include "core/items/item.h"
#include "core/sessions/session_errors.h"
#include "core/storage/item_batch.h"
#include "core/storage/item_store.h"
#include "core/storage/store.h"
#include "core/writes/admit_in_time.h"
#include "core/writes/items/item_call.h"
#include "core/writes/items/item_committer.h"

namespace memoryd {

ItemWritePath::ItemWritePath(Options options)
    : options_(std::move(options)), quota_(options_.quotas, options_.clock) {
  for (int i = 0; i < options_.committers; ++i) {
    ItemCommitter::Options committer;
    committer.store = options_.store;
    committer.stats = &options_.calls->stats();
    committer.recorded = this;
    committer.clock = options_.clock;
    committers_.push_back(std::make_unique<ItemCommitter>(std::move(committer)));
  }
}

ItemWritePath::~ItemWritePath() = default;

ItemCommitter& ItemWritePath::CommitterOf(const std::string& tenant) {
  return *committers_[std::hash<std::string>()(tenant) % committers_.size()];
}

absl::Status ItemWritePath::CheckTime(const std::string& tenant, const CallEnd& end) {
  ItemCommitter& committer = CommitterOf(tenant);
  const auto wait = committer.ExpectedWait();
  if (wait == wait.zero()) return absl::OkStatus();
  absl::Status status = AdmitInTime(
      wait, [&] { return committer.ExpectedWait(tenant); },
      end.deadline - std::chrono::steady_clock::now());
  if (!status.ok()) Increment(options_.calls->stats().refused_late);
  return status;
}

std::shared_ptr<ItemCall> ItemWritePath::Begin(ItemBatch batch, std::size_t byte_size, CallEnd end,
                                               Admission::Place place, ItemCall::Done done) {
  // Lives as long as the call here, which may be longer than the caller's: one that expired keeps
  // its place in a queue until the store moves on.
  struct Admitted {
    Admission::Place place;
    const ItemCall* call = nullptr;
  };
  auto admitted = std::make_shared<Admitted>();
  admitted->place = std::move(place);
  auto call = std::make_shared<ItemCall>(
      std::move(batch), byte_size, std::move(end),
      [this, admitted, done = std::move(done)](absl::StatusOr<ItemsWritten> reply) {
        options_.calls->pending().Remove(admitted->call);
        if (reply.ok() && reply->replayed) Increment(options_.calls->stats().replays);
        done(std::move(reply));
      });
  admitted->call = call.get();
  options_.calls->pending().Add(call);
  return call;
}

void ItemWritePath::Submit(ItemBatch batch, std::size_t byte_size, CallEnd end,
                           ItemCall::Done done) {
  auto place = options_.calls->Admit(batch.key.tenant, static_cast<std::int64_t>(byte_size));
  if (place.ok()) {
    SubmitAdmitted(std::move(batch), byte_size, std::move(end), *std::move(place), std::move(done));
  } else {
    done(place.status());
  }
}

void ItemWritePath::SubmitAdmitted(ItemBatch batch, std::size_t byte_size, CallEnd end,
                                   Admission::Place place, ItemCall::Done done) {
  if (const absl::Status status = CheckTime(batch.key.tenant, end); !status.ok()) {
    done(status);
    return;
  }
  batch.begun_us = std::min(batch.begun_us, options_.clock->NowUs());
  TenantUsage growth;
  for (const ItemWrite& write : batch.writes) {
    if (!write.content.has_value()) continue;
    ++growth.messages;
    growth.bytes += CountedBytes(write.key, *write.content);
  }
  const std::string tenant = batch.key.tenant;
  // Shared, since a function must be one that can be copied.
  auto asked = std::make_shared<Asked>(
      Asked{std::move(batch), byte_size, std::move(end), std::move(place), std::move(done)});
  quota_.Reserve(tenant, growth, [this, asked](const absl::StatusOr<ItemQuota::Room>& room) {
    if (!room.ok()) {
      asked->done(room.status());
      return;
    }
    asked->done = [this, tenant = asked->batch.key.tenant, path = asked->batch.key.path,
                   subject = asked->batch.subject, room = *room,
                   done = std::move(asked->done)](absl::StatusOr<ItemsWritten> reply) {
      Settle(tenant, room, CountedBytes(path, subject, {}), reply);
      done(std::move(reply));
    };
    Enqueue(std::move(*asked));
  });
}

void ItemWritePath::Settle(const std::string& tenant, const ItemQuota::Room& room,
                           std::int64_t namespace_bytes,
                           const absl::StatusOr<ItemsWritten>& reply) {
  CommitOutcome outcome = CommitOutcome::kFailed;
  TenantUsage change = room.growth;
  if (reply.ok() && !reply->replayed) {
    outcome = CommitOutcome::kCommitted;
    // Known only now: a tenant goes over its quota by that, and stores nothing more.
    if (reply->made_namespace) change.bytes += namespace_bytes;
    const auto existed = [](const ItemWriteResult& write) { return write.existed; };
    if (std::any_of(reply->writes.begin(), reply->writes.end(), existed)) {
      quota_.SetOvercounted(tenant);
    }
  } else if (!reply.ok() && absl::IsUnavailable(reply.status())) {
    outcome = CommitOutcome::kUnknown;
  }
  quota_.Settle(tenant, room, outcome, change);
}

void ItemWritePath::Enqueue(Asked asked) {
  ItemCommitter& owner = CommitterOf(asked.batch.key.tenant);
  owner.Enqueue(Begin(std::move(asked.batch), asked.byte_size, std::move(asked.end),
                      std::move(asked.place), std::move(asked.done)));
}

void ItemWritePath::LookUp(std::shared_ptr<ItemCall> call) {
  options_.calls->RunAdmitted(call->batch.key.tenant, [this, call] {
    options_.calls->Guarded(call, [&] { Answer(call); });
  });
}

void ItemWritePath::Answer(const std::shared_ptr<ItemCall>& call) {
  const ItemBatch& batch = call->batch;
  const auto records = options_.store->FindItemRequests(batch.key, {&batch.request_id, 1});
  if (!records.ok()) {
    // An earlier call with this request_id may have stored it.
    call->Finish(absl::IsUnavailable(records.status()) ? OutcomeUnknown() : records.status());
  } else if (const auto& record = records->front(); record.has_value()) {
    call->Finish(ReplyOf(*record, batch));
  } else {
    // It was purged meanwhile.
    CommitterOf(batch.key.tenant).Enqueue(call);
  }
}

}  // namespace memoryd
