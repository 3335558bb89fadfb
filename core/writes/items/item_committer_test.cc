#include "core/writes/items/item_committer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/calls/call_end.h"
#include "core/calls/engine_stats.h"
#include "core/items/item.h"
#include "core/items/namespace_path.h"
#include "core/storage/item_batch.h"
#include "core/storage/item_store.h"
#include "core/storage/sqlite/sqlite_store.h"
#include "core/storage/stores.h"
#include "core/writes/items/item_call.h"
#include "tests/support/fake_clock.h"

namespace memoryd {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr std::int64_t kNow = 1'000;

// A store in memory, whose writes a test holds up, counts and makes throw.
class GatedItems final : public ItemStore {
 public:
  explicit GatedItems(ItemStore& store) : store_(store) {}

  // The next write waits, and tells when it does, until Open().
  void Close() MEMORYD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    closed_ = true;
  }
  void AwaitWriter() MEMORYD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (!waiting_) changed_.Wait(mutex_);
  }
  void Open() MEMORYD_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      closed_ = false;
    }
    changed_.NotifyAll();
  }
  void ThrowNext() { throw_next_ = true; }
  // The keys of each write.
  std::vector<std::vector<std::string>> writes() MEMORYD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return writes_;
  }

  std::vector<ItemBatchResult> WriteItems(std::span<const ItemBatch> batches,
                                          std::int64_t now_us) override {
    {
      MutexLock lock(mutex_);
      std::vector<std::string>& keys = writes_.emplace_back();
      for (const ItemBatch& batch : batches) keys.push_back(batch.writes.front().key);
      waiting_ = closed_;
      changed_.NotifyAll();
      while (closed_) changed_.Wait(mutex_);
      waiting_ = false;
    }
    if (throw_next_.exchange(false)) throw std::runtime_error("thrown");
    return store_.WriteItems(batches, now_us);
  }
  absl::StatusOr<std::vector<std::optional<Item>>> ReadItems(std::span<const ItemKey> keys,
                                                             std::int64_t now_us, bool with_vectors,
                                                             std::int64_t max_bytes) override {
    return store_.ReadItems(keys, now_us, with_vectors, max_bytes);
  }
  absl::StatusOr<ItemPage> ListItems(const NamespaceKey& key, std::uint64_t generation,
                                     const ItemRange& range, std::int64_t now_us) override {
    return store_.ListItems(key, generation, range, now_us);
  }
  absl::StatusOr<std::vector<std::optional<NamespaceRow>>> FindNamespaces(
      std::span<const NamespaceKey> keys) override {
    return store_.FindNamespaces(keys);
  }
  absl::StatusOr<std::vector<ListedNamespace>> ListNamespaces(std::string_view tenant,
                                                              const NamespacePath& prefix,
                                                              std::string_view after,
                                                              std::string_view subject,
                                                              std::int64_t most) override {
    return store_.ListNamespaces(tenant, prefix, after, subject, most);
  }
  absl::StatusOr<bool> WriteNamespace(const NamespaceKey& key, const NamespaceChange& change,
                                      std::int64_t now_us) override {
    return store_.WriteNamespace(key, change, now_us);
  }
  absl::StatusOr<DeletedNamespace> DeleteNamespace(const NamespaceKey& key,
                                                   const NamespaceDeletion& deletion,
                                                   std::int64_t now_us) override {
    return store_.DeleteNamespace(key, deletion, now_us);
  }
  absl::StatusOr<std::optional<StagedNamespace>> StageNamespace(const NamespaceKey& key,
                                                                std::int64_t now_us) override {
    return store_.StageNamespace(key, now_us);
  }
  absl::StatusOr<bool> StageItems(const StagedNamespace& staged, std::span<const Item> items,
                                  std::int64_t now_us) override {
    return store_.StageItems(staged, items, now_us);
  }
  absl::StatusOr<bool> PublishNamespace(const StagedNamespace& staged,
                                        const NamespaceRow& row) override {
    return store_.PublishNamespace(staged, row);
  }
  absl::Status DropNamespace(const StagedNamespace& staged) override {
    return store_.DropNamespace(staged);
  }
  absl::StatusOr<std::vector<std::optional<ItemRequestRecord>>> FindItemRequests(
      const NamespaceKey& key, std::span<const std::string> request_ids) override {
    return store_.FindItemRequests(key, request_ids);
  }
  absl::Status TouchItems(std::span<const ItemTouch> touches) override {
    return store_.TouchItems(touches);
  }
  absl::StatusOr<ItemUsage> ReadItemUsage(std::string_view tenant) override {
    return store_.ReadItemUsage(tenant);
  }
  absl::StatusOr<std::int64_t> PurgeItems(std::int64_t now_us, std::int64_t keep_us,
                                          std::int64_t max_rows) override {
    return store_.PurgeItems(now_us, keep_us, max_rows);
  }

 private:
  ItemStore& store_;
  std::atomic<bool> throw_next_{false};
  Mutex mutex_;
  CondVar changed_;
  bool closed_ MEMORYD_GUARDED_BY(mutex_) = false;
  bool waiting_ MEMORYD_GUARDED_BY(mutex_) = false;
  std::vector<std::vector<std::string>> writes_ MEMORYD_GUARDED_BY(mutex_);
};

class Cancelled final : public CallWatch {
 public:
  bool IsCancelled() const override { return true; }
};

// Answers at once, on the committer's thread.
class Records final : public RecordedItems {
 public:
  explicit Records(ItemStore& store) : store_(store) {}
  void LookUp(std::shared_ptr<ItemCall> call) override {
    const auto records = store_.FindItemRequests(call->batch.key, {&call->batch.request_id, 1});
    call->Finish(ReplyOf(records->front().value(), call->batch));
  }

 private:
  ItemStore& store_;
};

NamespaceKey Key(const std::string& tenant) {
  const std::vector<std::string> names = {"n"};
  return {tenant, NamespacePath::Make(FieldPath(), "namespace", names).value()};
}

class ItemCommitterTest : public ::testing::Test {
 protected:
  using Reply = absl::StatusOr<ItemsWritten>;

  void SetUp() override {
    StoreOptions options;
    options.url = "sqlite::memory:";
    auto store = OpenSqliteStore(options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    ASSERT_TRUE(store_->Migrate().ok());
    items_ = std::make_unique<GatedItems>(store_->Items());
    records_ = std::make_unique<Records>(store_->Items());
    committer_ = std::make_unique<ItemCommitter>(ItemCommitter::Options{
        .store = items_.get(), .stats = &stats_, .recorded = records_.get(), .clock = &clock_});
  }

  static ItemBatch Put(const std::string& key, const std::string& value = "1",
                       const std::string& tenant = "tenant") {
    ItemWrite write{.key = key, .content = ItemContent()};
    write.content->value = value;
    return {.key = Key(tenant), .writes = {write}};
  }
  std::future<Reply> Enqueue(ItemBatch batch, CallEnd end = In(60)) {
    auto promise = std::make_shared<std::promise<Reply>>();
    committer_->Enqueue(std::make_shared<ItemCall>(
        std::move(batch), 100, std::move(end),
        [promise](Reply reply) { promise->set_value(std::move(reply)); }));
    return promise->get_future();
  }
  static std::chrono::steady_clock::time_point In(int seconds) {
    return std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  }
  // A call that never ends fails the test rather than hanging it.
  static Reply Await(std::future<Reply> future) {
    if (future.wait_for(std::chrono::seconds(60)) != std::future_status::ready) {
      ADD_FAILURE() << "a call did not end";
      std::abort();
    }
    return future.get();
  }
  std::string Value(const std::string& key) {
    const ItemKey item{Key("tenant"), key};
    const auto read = store_->Items().ReadItems({&item, 1}, kNow, false, 1'000);
    return read.value().front().has_value() ? read->front()->content.value : "";
  }

  EngineStats stats_;
  std::unique_ptr<Store> store_;
  const FakeClock clock_{[] { return kNow; }};
  std::unique_ptr<GatedItems> items_;
  std::unique_ptr<Records> records_;
  std::unique_ptr<ItemCommitter> committer_;
};

TEST_F(ItemCommitterTest, CallsOfAllTenantsThatWaitAreWrittenTogether) {
  items_->Close();
  auto first = Enqueue(Put("first"));
  items_->AwaitWriter();
  std::vector<std::future<Reply>> others;
  for (const char* tenant : {"a", "b", "a", "c"}) {
    others.push_back(Enqueue(Put("k" + std::to_string(others.size()), "1", tenant)));
  }
  items_->Open();
  EXPECT_TRUE(Await(std::move(first)).ok());
  for (auto& other : others) EXPECT_TRUE(Await(std::move(other)).ok());
  ASSERT_THAT(items_->writes(), SizeIs(2));
  EXPECT_THAT(items_->writes()[1], SizeIs(4));
}

TEST_F(ItemCommitterTest, WhatIsGatheredIsWrittenWhenAnyGatheringEnds) {
  EXPECT_TRUE(Await(Enqueue(Put("first"))).ok());
  const ItemCommitter::Gathering longer(*committer_);
  std::vector<std::future<Reply>> calls;
  {
    const ItemCommitter::Gathering gathering(*committer_);
    for (const char* key : {"a", "b", "c"}) calls.push_back(Enqueue(Put(key)));
  }
  for (auto& call : calls) EXPECT_TRUE(Await(std::move(call)).ok());
}

TEST_F(ItemCommitterTest, OfTwoWritesOfAKeyTheEarlierIsCommittedFirst) {
  items_->Close();
  auto first = Enqueue(Put("first"));
  items_->AwaitWriter();
  std::vector<std::future<Reply>> others;
  for (const auto& [key, value] : {std::pair("k", "1"), std::pair("j", "1"), std::pair("k", "2"),
                                   std::pair("k", "3"), std::pair("i", "1")}) {
    others.push_back(Enqueue(Put(key, value)));
  }
  items_->Open();
  EXPECT_TRUE(Await(std::move(first)).ok());
  for (auto& other : others) EXPECT_TRUE(Await(std::move(other)).ok());
  EXPECT_EQ(Value("k"), "3");
  EXPECT_THAT(items_->writes(), ElementsAre(ElementsAre("first"), ElementsAre("k", "j", "i"),
                                            ElementsAre("k"), ElementsAre("k")));
}

TEST_F(ItemCommitterTest, ARefusalNamesTheWriteAndWhatIsStored) {
  const std::int64_t version = Await(Enqueue(Put("k"))).value().writes.front().version;
  ItemBatch batch = Put("j");
  batch.writes.push_back(Put("k").writes.front());
  batch.writes.back().expected_version = 0;
  const absl::Status status = Await(Enqueue(batch)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ErrorReason(status), "VERSION_MISMATCH");
  EXPECT_THAT(ErrorDetails(status), Contains(Pair("operation", "1")));
  EXPECT_THAT(ErrorDetails(status), Contains(Pair("version", std::to_string(version))));
  EXPECT_EQ(Value("j"), "");
}

TEST_F(ItemCommitterTest, ARepeatedRequestGetsTheFirstAnswer) {
  ItemBatch batch = Put("k");
  batch.writes.push_back({.key = "none"});
  batch.request_id = "r";
  batch.fingerprint = std::string(32, 'f');
  const ItemsWritten first = Await(Enqueue(batch)).value();
  EXPECT_FALSE(first.replayed);
  const ItemsWritten again = Await(Enqueue(batch)).value();
  EXPECT_TRUE(again.replayed);
  EXPECT_EQ(again.writes, first.writes);
  EXPECT_EQ(again.update_us, first.update_us);
  batch.fingerprint = std::string(32, 'g');
  EXPECT_EQ(ErrorReason(Await(Enqueue(batch)).status()), "REQUEST_ID_REUSED");
}

TEST_F(ItemCommitterTest, ACallThatHasEndedStoresNothing) {
  const absl::Status late = Await(Enqueue(Put("k"), In(-1))).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  const absl::Status gone =
      Await(Enqueue(Put("k"), CallEnd(In(60), std::make_shared<Cancelled>()))).status();
  EXPECT_EQ(gone.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(Value("k"), "");
  EXPECT_THAT(items_->writes(), SizeIs(0));
}

TEST_F(ItemCommitterTest, AnExceptionLeavesTheOutcomeUnknownAndTheCommitterAtWork) {
  items_->ThrowNext();
  EXPECT_EQ(ErrorReason(Await(Enqueue(Put("k"))).status()), "OUTCOME_UNKNOWN");
  EXPECT_TRUE(Await(Enqueue(Put("k"))).ok());
}

TEST_F(ItemCommitterTest, WhatIsQueuedIsCommittedBeforeTheEnd) {
  items_->Close();
  auto first = Enqueue(Put("first"));
  items_->AwaitWriter();
  auto last = Enqueue(Put("last"));
  items_->Open();
  committer_.reset();
  EXPECT_TRUE(Await(std::move(first)).ok());
  EXPECT_TRUE(Await(std::move(last)).ok());
  EXPECT_EQ(Value("last"), "1");
}

}  // namespace
}  // namespace memoryd
