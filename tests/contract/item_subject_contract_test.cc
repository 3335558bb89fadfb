// Changes of namespaces that are decided by the namespace's subject.
#include <gmock/gmock.h>

#include <cstddef>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/items/namespace_path.h"
#include "core/storage/item_batch.h"
#include "core/storage/item_store.h"
#include "tests/contract/item_fixture.h"
#include "tests/contract/store_fixture.h"

namespace memoryd {
namespace {

using ::testing::SizeIs;

class ItemSubjectContractTest : public ItemTest {
 protected:
  // Makes the namespace the subject's, whoever has it now. False when others were faster.
  bool Give(const std::string& subject, const NamespaceKey& key = kKey) {
    const std::optional<NamespaceRow> row = Row(key);
    NamespaceChange change{.subject = subject};
    if (row.has_value()) change.expected_config_version = row->config_version;
    const auto written = items().WriteNamespace(key, change, kNow);
    EXPECT_TRUE(written.ok()) << written.status();
    return written.value_or(false);
  }
  static ItemBatch Of(std::string subject, ItemBatch batch) {
    batch.subject = std::move(subject);
    return batch;
  }
  DeletedNamespace DeleteIt(const NamespaceDeletion& deletion) {
    const auto deleted = items().DeleteNamespace(kKey, deletion, kNow);
    EXPECT_TRUE(deleted.ok()) << deleted.status();
    return deleted.value_or(DeletedNamespace());
  }
  // Empty when it is forgotten.
  std::string Kept(const std::string& request_id) {
    const auto records = items().FindItemRequests(kKey, {&request_id, 1});
    EXPECT_TRUE(records.ok() && records->front().has_value());
    return records->front().value_or(ItemRequestRecord()).fingerprint;
  }
};

TEST_P(ItemSubjectContractTest, ADeletionForASubjectLeavesANamespaceOfAnother) {
  ASSERT_TRUE(Give("ada"));
  MustWrite(Batch({Put("a")}, kKey, "r"));
  ASSERT_TRUE(Give("bob"));
  for (const bool forget : {false, true}) {
    const DeletedNamespace left = DeleteIt({.forget = forget, .subject = "ada"});
    EXPECT_FALSE(left.existed);
    EXPECT_TRUE(left.of_other);
  }
  EXPECT_TRUE(Read("a").has_value());
  EXPECT_NE(Kept("r"), "");
  ItemBatch late = Batch({Put("b")});
  late.begun_us = kNow;
  EXPECT_EQ(Write(late).outcome, ItemBatchOutcome::kWritten) << "it was not erased";
  const DeletedNamespace gone = DeleteIt({.forget = true, .subject = "bob"});
  EXPECT_TRUE(gone.existed);
  EXPECT_FALSE(gone.of_other);
  EXPECT_EQ(gone.item_count, 2);
  EXPECT_FALSE(Row().has_value());
  EXPECT_EQ(Kept("r"), "");
}

TEST_P(ItemSubjectContractTest, WhatOneWithoutASubjectHoldsIsAnothersToo) {
  MustWrite(Batch({Put("a")}));
  EXPECT_TRUE(DeleteIt({.subject = "ada"}).of_other);
  EXPECT_TRUE(Read("a").has_value());
}

TEST_P(ItemSubjectContractTest, AnErasureForgetsWhatOneThatIsGoneHasKept) {
  ASSERT_TRUE(Give("ada"));
  MustWrite(Batch({Put("a")}, kKey, "r"));
  EXPECT_TRUE(DeleteIt({}).existed);
  EXPECT_NE(Kept("r"), "");
  const DeletedNamespace nothing = DeleteIt({.forget = true, .subject = "ada"});
  EXPECT_FALSE(nothing.existed);
  EXPECT_FALSE(nothing.of_other);
  EXPECT_EQ(Kept("r"), "");
}

// Either it was given away first, and stays, or it is gone.
TEST_P(ItemSubjectContractTest, ADeletionAndAGiftAreDecidedOneAfterTheOther) {
  int left = 0;
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(Give("ada"));
    MustWrite(Batch({Put("a")}));
    bool given = false;
    std::thread giver([&] { given = Give("bob"); });
    const DeletedNamespace deleted = DeleteIt({.subject = "ada"});
    giver.join();
    const std::optional<NamespaceRow> row = Row();
    EXPECT_NE(deleted.existed, deleted.of_other);
    if (deleted.of_other) {
      ++left;
      EXPECT_TRUE(given);
      EXPECT_TRUE(Read("a").has_value());
    } else if (given) {
      // The giver saw it gone, and made one of its own.
      EXPECT_EQ(row.value_or(NamespaceRow()).item_count, 0);
    } else {
      EXPECT_FALSE(row.has_value());
    }
    DeleteIt({});
  }
  RecordProperty("left", left);
}

TEST_P(ItemSubjectContractTest, ABatchOfASubjectIsWrittenToItsNamespacesAlone) {
  ASSERT_TRUE(Give("ada"));
  const auto version = MustWrite(Batch({Put("a")}, kKey, "r"))[0].version;
  const ItemWrite lost = Expecting(Put("a", "2"), version + 5);
  for (const auto& writes : std::vector<std::vector<ItemWrite>>{
           {Put("a", "2")}, {Delete("a")}, {lost}, {Put("b"), Delete("a")}}) {
    EXPECT_EQ(Write(Of("bob", Batch(writes))).outcome, ItemBatchOutcome::kOtherSubject);
  }
  // Also under a request_id that is taken.
  EXPECT_EQ(Write(Of("bob", Batch({Put("a", "2")}, kKey, "r"))).outcome,
            ItemBatchOutcome::kOtherSubject);
  EXPECT_EQ(Write(Of("bob", Batch({Put("a", "2")}, kKey, "s"))).outcome,
            ItemBatchOutcome::kOtherSubject);
  EXPECT_EQ(Read("a")->version, version);
  MustWrite(Of("ada", Batch({Put("a", "3")}, kKey, "s")));
  MustWrite(Of("ada", Batch({Delete("a")})));
  EXPECT_FALSE(Read("a").has_value());
}

TEST_P(ItemSubjectContractTest, ANamespaceIsMadeWithTheSubjectOfItsBatch) {
  const ItemBatchResult made = Write(Of("ada", Batch({Put("a")})));
  EXPECT_EQ(made.outcome, ItemBatchOutcome::kWritten) << made.status;
  EXPECT_TRUE(made.made_namespace);
  EXPECT_EQ(Row().value_or(NamespaceRow()).subject, "ada");
  EXPECT_THAT(items().ListNamespaces("tenant", {}, "", "ada", 10).value(), SizeIs(1));
  const ItemUsage usage = items().ReadItemUsage("tenant").value();
  EXPECT_EQ(usage.bytes, Row()->item_bytes + CountedBytes(kKey.path, "ada", ""));
  // With nothing to store there is none to make.
  const NamespaceKey other = Key({"other"});
  MustWrite(Of("ada", Batch({Delete("a")}, other)));
  EXPECT_FALSE(Row(other).has_value());
}

TEST_P(ItemSubjectContractTest, ABatchOfAnotherSubjectHurtsNoOther) {
  const NamespaceKey mine = Key({"mine"});
  ASSERT_TRUE(Give("bob"));
  const std::vector<ItemBatch> batches = {Of("ada", Batch({Put("a")})), Batch({Put("b")}),
                                          Of("bob", Batch({Put("c")})),
                                          Of("ada", Batch({Put("d")}, mine, "r"))};
  const auto results = items().WriteItems(batches, kNow);
  EXPECT_EQ(results[0].outcome, ItemBatchOutcome::kOtherSubject);
  for (const std::size_t i : {1U, 2U, 3U}) {
    EXPECT_EQ(results[i].outcome, ItemBatchOutcome::kWritten) << i;
  }
  EXPECT_FALSE(Read("a").has_value());
  EXPECT_EQ(Row(mine).value_or(NamespaceRow()).subject, "ada");
}

TEST_P(ItemSubjectContractTest, OfTwoSubjectsThatMakeANamespaceOneHasIt) {
  std::vector<ItemBatch> batches = {Of("ada", Batch({Put("a")})), Of("bob", Batch({Put("b")})),
                                    Of("ada", Batch({Put("c")}))};
  const auto results = items().WriteItems(batches, kNow);
  const std::string subject = Row().value_or(NamespaceRow()).subject;
  EXPECT_TRUE(subject == "ada" || subject == "bob") << subject;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const bool own = batches[i].subject == subject;
    EXPECT_EQ(results[i].outcome,
              own ? ItemBatchOutcome::kWritten : ItemBatchOutcome::kOtherSubject);
    EXPECT_EQ(Read(batches[i].writes[0].key).has_value(), own);
  }
}

// Whoever is first has it, and nothing of the other is ever in it.
TEST_P(ItemSubjectContractTest, ANamespaceThatSeveralMakeAtOnceIsOfOne) {
  for (int i = 0; i < 30; ++i) {
    const NamespaceKey key = Key({"n", std::to_string(i)});
    std::vector<ItemBatchOutcome> outcomes(2);
    const std::vector<std::string> subjects = {"ada", "bob"};
    std::vector<std::thread> writers;
    for (const std::size_t who : {0U, 1U}) {
      writers.emplace_back([&, who] {
        outcomes[who] = Write(Of(subjects[who], Batch({Put(subjects[who])}, key))).outcome;
      });
    }
    for (std::thread& writer : writers) writer.join();
    const std::string owner = Row(key).value_or(NamespaceRow()).subject;
    for (const std::size_t who : {0U, 1U}) {
      const bool own = subjects[who] == owner;
      EXPECT_EQ(outcomes[who], own ? ItemBatchOutcome::kWritten : ItemBatchOutcome::kOtherSubject);
      EXPECT_EQ(Read(subjects[who], kNow, key).has_value(), own);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, ItemSubjectContractTest, ::testing::ValuesIn(AllStores()),
                         StoreCaseName);

}  // namespace
}  // namespace memoryd
