// Changes of namespaces that are decided by the namespace's subject.
#include <gmock/gmock.h>

#include <thread>

#include "tests/contract/item_fixture.h"

namespace memoryd {
namespace {

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

INSTANTIATE_TEST_SUITE_P(Stores, ItemSubjectContractTest, ::testing::ValuesIn(AllStores()),
                         StoreCaseName);

}  // namespace
}  // namespace memoryd
