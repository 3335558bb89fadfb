#include "core/lifecycle/namespace_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/calls/call_end.h"
#include "core/items/item.h"
#include "core/storage/item_store.h"
#include "core/storage/store.h"

namespace memoryd {
namespace {

// Of each write.
constexpr std::chrono::seconds kWriteTime(30);
// What is stored at once.
constexpr std::size_t kPieceItems = 500;
constexpr std::int64_t kPieceBytes = std::int64_t{4} << 20;

CallEnd End() { return {std::chrono::steady_clock::now() + kWriteTime, nullptr}; }

absl::Status Exists() {
  return Error(absl::StatusCode::kAlreadyExists, "NAMESPACE_EXISTS",
               "begin.namespace: there is such a namespace already; delete it first",
               {{"field", "begin.namespace"}});
}

absl::Status Replaced() {
  return Error(
      absl::StatusCode::kAborted, "NAMESPACE_REPLACED",
      "begin.namespace: another call made or deleted such a namespace during the import, or "
      "the import waited for too long; nothing was made, try again");
}

}  // namespace

void NamespaceImport::Run(TenantUsage growth, std::function<absl::Status()> work, Done done) {
  const std::string& tenant = request_.key.tenant;
  const auto call = options_.calls->Begin<Nothing>(
      tenant, End(),
      [done = std::move(done)](const absl::StatusOr<Nothing>& ended) { done(ended.status()); });
  if (call == nullptr) return;
  options_.quota->Reserve(
      tenant, growth,
      [self = shared_from_this(), call, tenant,
       work = std::move(work)](const absl::StatusOr<ItemQuota::Room>& room) {
        if (!room.ok()) {
          call->Fail(room.status());
          return;
        }
        // What is staged is no part of what the tenant has stored.
        self->options_.quota->Settle(tenant, *room, CommitOutcome::kFailed, {});
        self->options_.calls->Run(tenant, call, [call, work] {
          // One that was answered writes no more.
          if (!call->BeginWrite()) return;
          const absl::Status status = work();
          call->Finish(status.ok() ? absl::StatusOr<Nothing>(Nothing()) : status);
        });
      });
}

void NamespaceImport::Begin(Done done) {
  growth_.bytes =
      CountedBytes(request_.key.path, request_.config.subject, request_.config.Encode());
  Run(
      growth_,
      [self = shared_from_this()]() -> absl::Status {
        const std::int64_t now_us = self->options_.clock->NowUs();
        MEMORYD_ASSIGN_OR_RETURN(std::optional<StagedNamespace> staged,
                                 self->options_.store->StageNamespace(self->request_.key, now_us));
        if (!staged.has_value()) return Exists();
        self->staged_ = *std::move(staged);
        self->row_.version = self->staged_.first_version;
        self->row_.create_us = self->request_.create_us > 0 ? self->request_.create_us : now_us;
        self->row_.update_us = self->row_.create_us;
        self->row_.ttl_us = self->request_.config.ttl_us;
        self->row_.subject = self->request_.config.subject;
        self->row_.config = self->request_.config.Encode();
        return absl::OkStatus();
      },
      std::move(done));
}

absl::StatusOr<std::vector<Item>> NamespaceImport::Take(std::vector<Item> items) {
  const std::int64_t now_us = options_.clock->NowUs();
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::int64_t size = std::ssize(items[i].content.vector);
    if (size == 0) continue;
    if (row_.vector_size == 0) row_.vector_size = size;
    if (row_.vector_size == size) continue;
    return Error(absl::StatusCode::kInvalidArgument, "VECTOR_SIZE",
                 fmt::format("items[{}].vector: must have {} numbers, as all of its namespace", i,
                             row_.vector_size),
                 {{"vector_size", std::to_string(row_.vector_size)}});
  }
  // Of each key the last; views of keys that do not move meanwhile.
  std::unordered_set<std::string_view> keys;
  std::vector<bool> is_last(items.size());
  for (std::size_t i = items.size(); i-- > 0;) is_last[i] = keys.insert(items[i].key).second;
  std::vector<Item> taken;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!is_last[i] || !IsLive(items[i].expire_us, now_us)) continue;
    Item& item = taken.emplace_back(std::move(items[i]));
    item.version = ++row_.version;
    row_.update_us = std::max(row_.update_us, item.update_us);
  }
  return taken;
}

absl::Status NamespaceImport::Stage(const std::vector<Item>& items) {
  for (std::size_t begin = 0; begin < items.size();) {
    std::size_t end = begin;
    for (std::int64_t bytes = 0; end < items.size() && end - begin < kPieceItems; ++end) {
      bytes += CountedBytes(items[end].key, items[end].content);
      if (end > begin && bytes > kPieceBytes) break;
    }
    const std::span<const Item> piece(&items[begin], end - begin);
    MEMORYD_ASSIGN_OR_RETURN(const bool stored,
                             options_.store->StageItems(staged_, piece, options_.clock->NowUs()));
    if (!stored) return Replaced();
    begin = end;
  }
  return absl::OkStatus();
}

void NamespaceImport::Add(ImportedNamespaceItems items, Done done) {
  item_count_ += std::ssize(items.items);
  auto taken = Take(std::move(items.items));
  if (!taken.ok()) {
    done(taken.status());
    return;
  }
  growth_.messages += std::ssize(*taken);
  for (const Item& item : *taken) growth_.bytes += CountedBytes(item.key, item.content);
  auto kept = std::make_shared<const std::vector<Item>>(*std::move(taken));
  Run(
      growth_,
      [self = shared_from_this(), kept, keep_alive = std::move(items.keep_alive)] {
        return self->Stage(*kept);
      },
      std::move(done));
}

absl::StatusOr<NamespaceRow> NamespaceImport::PublishNow() {
  const NamespaceKey& key = request_.key;
  MEMORYD_ASSIGN_OR_RETURN(const ItemQuota::Room room,
                           options_.quota->ReserveNow(key.tenant, growth_));
  const absl::StatusOr<bool> published = options_.store->PublishNamespace(staged_, row_);
  CommitOutcome outcome = CommitOutcome::kFailed;
  if (published.ok() && *published) outcome = CommitOutcome::kCommitted;
  if (absl::IsUnavailable(published.status())) outcome = CommitOutcome::kUnknown;
  options_.quota->Settle(key.tenant, room, outcome, growth_);
  // A key may have come twice, and what expired since is counted too.
  options_.quota->SetOvercounted(key.tenant);
  if (!published.ok()) return published.status();
  MEMORYD_ASSIGN_OR_RETURN(const auto rows, options_.store->FindNamespaces({&key, 1}));
  if (!*published) return rows.front().has_value() ? Exists() : Replaced();
  // Deleted since, as anything may be.
  return rows.front().value_or(row_);
}

void NamespaceImport::Publish(std::int64_t item_count,
                              std::function<void(absl::StatusOr<NamespaceRow>)> done) {
  if (item_count != item_count_) {
    done(InvalidField("end.item_count", fmt::format("there were {} items", item_count_)));
    return;
  }
  auto row = std::make_shared<NamespaceRow>();
  Run(
      growth_,
      [self = shared_from_this(), row]() -> absl::Status {
        MEMORYD_ASSIGN_OR_RETURN(*row, self->PublishNow());
        return absl::OkStatus();
      },
      [row, done = std::move(done)](const absl::Status& status) {
        if (status.ok()) {
          done(*row);
        } else {
          done(status);
        }
      });
}

void NamespaceImport::Drop() {
  options_.calls->RunAdmitted(request_.key.tenant, [self = shared_from_this()] {
    // The purge finds what is left.
    self->options_.store->DropNamespace(self->staged_).IgnoreError();
  });
}

}  // namespace memoryd
