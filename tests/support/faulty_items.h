// A store of items whose faults a test controls.
#ifndef MEMORYD_TESTS_SUPPORT_FAULTY_ITEMS_H_
#define MEMORYD_TESTS_SUPPORT_FAULTY_ITEMS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/storage/item_store.h"

namespace memoryd {

// Passes calls on to a store, but those that are to fail. Any thread may call any method.
class FaultyItems final : public ItemStore {
 public:
  // `status` says what all calls but writes of batches and purges are answered, OK for the truth.
  FaultyItems(ItemStore* store, std::function<absl::Status()> status)
      : store_(*store), status_(std::move(status)) {}

  // What the next batch is answered; asked for twice, the next two. `stored`: it is written
  // nevertheless, as when only the reply was lost.
  void AnswerNext(ItemBatchOutcome outcome, absl::Status status, bool stored = false)
      MEMORYD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    answers_.push_back({{outcome, std::move(status)}, stored});
  }

  // What happens before the next page of items is read.
  void BeforeNextList(std::function<void()> what) MEMORYD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    before_list_ = std::move(what);
  }

  // What happens before items are read by their keys next.
  void BeforeNextRead(std::function<void()> what) MEMORYD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    before_read_ = std::move(what);
  }

  // What happens before a batch or a configuration is written next.
  void BeforeNextWrite(std::function<void()> what) MEMORYD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    before_write_ = std::move(what);
  }

  // What happens before the next namespace is deleted.
  void BeforeNextDeletion(std::function<void()> what) MEMORYD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    before_deletion_ = std::move(what);
  }

  // How many namespaces all lists have read.
  std::int64_t namespaces_listed() const MEMORYD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return namespaces_listed_;
  }

  std::vector<ItemBatchResult> WriteItems(std::span<const ItemBatch> batches,
                                          std::int64_t now_us) override MEMORYD_EXCLUDES(mutex_) {
    RunOnce(&FaultyItems::before_write_);
    std::vector<ItemBatchResult> results;
    // One by one, so that a batch that is answered here hurts no other.
    for (const ItemBatch& batch : batches) {
      const std::optional<Answer> answer = TakeAnswer();
      if (!answer.has_value() || answer->stored) {
        results.push_back(store_.WriteItems({&batch, 1}, now_us).front());
      } else {
        results.emplace_back();
      }
      if (answer.has_value()) results.back() = answer->result;
    }
    return results;
  }
  absl::StatusOr<std::vector<std::optional<Item>>> ReadItems(std::span<const ItemKey> keys,
                                                             std::int64_t now_us, bool with_vectors,
                                                             std::int64_t max_bytes) override {
    if (absl::Status status = status_(); !status.ok()) return status;
    RunOnce(&FaultyItems::before_read_);
    return store_.ReadItems(keys, now_us, with_vectors, max_bytes);
  }
  absl::StatusOr<ItemPage> ListItems(const NamespaceKey& key, std::uint64_t generation,
                                     const ItemRange& range, std::int64_t now_us) override {
    if (absl::Status status = status_(); !status.ok()) return status;
    RunOnce(&FaultyItems::before_list_);
    return store_.ListItems(key, generation, range, now_us);
  }
  absl::StatusOr<std::vector<std::optional<NamespaceRow>>> FindNamespaces(
      std::span<const NamespaceKey> keys) override {
    if (absl::Status status = status_(); !status.ok()) return status;
    return store_.FindNamespaces(keys);
  }
  absl::StatusOr<std::vector<ListedNamespace>> ListNamespaces(
      std::string_view tenant, const NamespacePath& prefix, std::string_view after,
      std::string_view subject, std::int64_t max_namespaces) override MEMORYD_EXCLUDES(mutex_) {
    if (absl::Status status = status_(); !status.ok()) return status;
    auto listed = store_.ListNamespaces(tenant, prefix, after, subject, max_namespaces);
    MutexLock lock(mutex_);
    if (listed.ok()) namespaces_listed_ += std::ssize(*listed);
    return listed;
  }
  absl::StatusOr<bool> WriteNamespace(const NamespaceKey& key, const NamespaceChange& change,
                                      std::int64_t now_us) override {
    if (absl::Status status = status_(); !status.ok()) return status;
    RunOnce(&FaultyItems::before_write_);
    return store_.WriteNamespace(key, change, now_us);
  }
  absl::StatusOr<DeletedNamespace> DeleteNamespace(const NamespaceKey& key,
                                                   const NamespaceDeletion& deletion,
                                                   std::int64_t now_us) override {
    if (absl::Status status = status_(); !status.ok()) return status;
    RunOnce(&FaultyItems::before_deletion_);
    return store_.DeleteNamespace(key, deletion, now_us);
  }
  absl::StatusOr<std::optional<StagedNamespace>> StageNamespace(const NamespaceKey& key,
                                                                std::int64_t now_us) override {
    if (absl::Status status = status_(); !status.ok()) return status;
    return store_.StageNamespace(key, now_us);
  }
  absl::StatusOr<bool> StageItems(const StagedNamespace& staged, std::span<const Item> items,
                                  std::int64_t now_us) override {
    if (absl::Status status = status_(); !status.ok()) return status;
    return store_.StageItems(staged, items, now_us);
  }
  absl::StatusOr<bool> PublishNamespace(const StagedNamespace& staged,
                                        const NamespaceRow& row) override {
    if (absl::Status status = status_(); !status.ok()) return status;
    return store_.PublishNamespace(staged, row);
  }
  absl::Status DropNamespace(const StagedNamespace& staged) override {
    if (absl::Status status = status_(); !status.ok()) return status;
    return store_.DropNamespace(staged);
  }
  absl::StatusOr<std::vector<std::optional<ItemRequestRecord>>> FindItemRequests(
      const NamespaceKey& key, std::span<const std::string> request_ids) override {
    if (absl::Status status = status_(); !status.ok()) return status;
    return store_.FindItemRequests(key, request_ids);
  }
  absl::Status TouchItems(std::span<const ItemTouch> touches) override {
    if (absl::Status status = status_(); !status.ok()) return status;
    return store_.TouchItems(touches);
  }
  absl::StatusOr<ItemUsage> ReadItemUsage(std::string_view tenant) override {
    if (absl::Status status = status_(); !status.ok()) return status;
    return store_.ReadItemUsage(tenant);
  }
  absl::StatusOr<std::int64_t> PurgeItems(std::int64_t now_us, std::int64_t keep_us,
                                          std::int64_t max_rows) override {
    return store_.PurgeItems(now_us, keep_us, max_rows);
  }

 private:
  struct Answer {
    ItemBatchResult result;
    bool stored = false;
  };

  std::optional<Answer> TakeAnswer() MEMORYD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (answers_.empty()) return std::nullopt;
    Answer answer = std::move(answers_.front());
    answers_.pop_front();
    return answer;
  }

  void RunOnce(std::function<void()> FaultyItems::*what) MEMORYD_EXCLUDES(mutex_) {
    std::function<void()> before;
    {
      MutexLock lock(mutex_);
      before = std::exchange(this->*what, nullptr);
    }
    if (before != nullptr) before();
  }

  ItemStore& store_;
  const std::function<absl::Status()> status_;
  mutable Mutex mutex_;
  std::int64_t namespaces_listed_ MEMORYD_GUARDED_BY(mutex_) = 0;
  std::deque<Answer> answers_ MEMORYD_GUARDED_BY(mutex_);
  std::function<void()> before_list_ MEMORYD_GUARDED_BY(mutex_);
  std::function<void()> before_read_ MEMORYD_GUARDED_BY(mutex_);
  std::function<void()> before_write_ MEMORYD_GUARDED_BY(mutex_);
  std::function<void()> before_deletion_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd

#endif  // MEMORYD_TESTS_SUPPORT_FAULTY_ITEMS_H_
