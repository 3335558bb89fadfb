// What WriteItems says when the server's answer, or the question, gets lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error_cause.h"
#include "core/items/item.h"
#include "core/items/namespace_path.h"
#include "core/storage/item_batch.h"
#include "core/storage/item_store.h"
#include "core/storage/postgres/pg_test_support.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"

namespace memoryd {
namespace {

using Fault = TestProxy::Fault;

constexpr std::int64_t kNow = 1'000'000;

// Two servers on one database: `store_` reaches it by a link that fails, `other_` directly.
class ItemSettleTest : public ::testing::Test {
 protected:
  ItemSettleTest() {
    other_ = database_.Open();
    StoreOptions options;
    options.url = database_.Url("127.0.0.1", proxy_.port());
    options.timeout_ms = 4000;
    store_ = database_.Open(options);
    // Connected, and the statements prepared: the next bytes sent are the batch.
    for (const bool kept : {false, true}) {
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(Write(*store_, Put("old", "0", kept ? FreshId() : "")).outcome,
                  ItemBatchOutcome::kWritten);
      }
    }
  }

  static std::string FreshId() { return std::to_string(FreshNumber()); }

  static ItemBatch Put(const std::string& key, const std::string& value,
                       const std::string& request_id) {
    const std::vector<std::string> names = {"n"};
    ItemWrite write{.key = key, .content = ItemContent()};
    write.content->value = value;
    ItemBatch batch{.key = {"t", NamespacePath::Make(FieldPath(), "namespace", names).value()},
                    .writes = {write}};
    batch.request_id = request_id;
    if (!request_id.empty()) batch.fingerprint = std::string(32, 'f');
    return batch;
  }
  static ItemBatchResult Write(Store& store, const ItemBatch& batch) {
    return store.Items().WriteItems({&batch, 1}, kNow).front();
  }
  // Under the link's fault, while `meanwhile` happens.
  ItemBatchResult WriteUnder(
      Fault fault, const ItemBatch& batch, std::function<void()> meanwhile = [] {}) {
    proxy_.Inject(fault, std::move(meanwhile));
    const ItemBatchResult result = Write(*store_, batch);
    EXPECT_TRUE(proxy_.injected());
    return result;
  }
  Item Stored(const std::string& key) {
    const ItemKey item{Put(key, "", "").key, key};
    return other_->Items()
        .ReadItems({&item, 1}, kNow, false, 1'000)
        .value()
        .front()
        .value_or(Item());
  }

  TestDatabase database_;
  TestProxy proxy_{database_.host(), database_.port()};
  std::unique_ptr<Store> other_;
  std::unique_ptr<Store> store_;
};

TEST_F(ItemSettleTest, ALostAnswerIsFoundUnderItsRequestId) {
  const ItemBatchResult result = WriteUnder(Fault::kCutReply, Put("k", "1", "r"));
  ASSERT_EQ(result.outcome, ItemBatchOutcome::kWritten) << result.status;
  EXPECT_EQ(result.writes.front().version, Stored("k").version);
  EXPECT_FALSE(result.writes.front().existed);
}

TEST_F(ItemSettleTest, ALostQuestionIsAskedAgainUnderItsRequestId) {
  const ItemBatchResult result = WriteUnder(Fault::kCutRequest, Put("k", "1", "r"));
  ASSERT_EQ(result.outcome, ItemBatchOutcome::kWritten) << result.status;
  EXPECT_EQ(result.writes.front().version, Stored("k").version);
  EXPECT_EQ(Write(*other_, Put("k", "1", "r")).outcome, ItemBatchOutcome::kRequestIdTaken);
}

TEST_F(ItemSettleTest, ALostPutIsNotPutOverWhatOthersHaveWrittenSince) {
  const ItemBatchResult result = WriteUnder(Fault::kCutReply, Put("k", "1", "r"), [&] {
    EXPECT_EQ(Write(*other_, Put("k", "2", "")).outcome, ItemBatchOutcome::kWritten);
  });
  ASSERT_EQ(result.outcome, ItemBatchOutcome::kWritten) << result.status;
  EXPECT_LT(result.writes.front().version, Stored("k").version);
  EXPECT_EQ(Stored("k").content.value, "2");
}

TEST_F(ItemSettleTest, AConditionThatWasMetByTheLostWriteItselfHolds) {
  ItemBatch batch = Put("k", "1", "r");
  batch.writes.front().expected_version = 0;
  EXPECT_EQ(WriteUnder(Fault::kCutReply, batch).outcome, ItemBatchOutcome::kWritten);
}

TEST_F(ItemSettleTest, WithoutARequestIdTheOutcomeIsUnknown) {
  for (const Fault fault : {Fault::kCutReply, Fault::kCutRequest}) {
    const ItemBatchResult result = WriteUnder(fault, Put("k", "1", ""));
    EXPECT_EQ(result.outcome, ItemBatchOutcome::kUnknown);
    EXPECT_TRUE(absl::IsUnavailable(result.status)) << result.status;
    EXPECT_EQ(CauseOf(result.status).code, "08006");
    // The next one prepares its statement anew.
    for (int i = 0; i < 3; ++i) Write(*store_, Put("old", "0", ""));
  }
}

}  // namespace
}  // namespace memoryd
