#include <gmock/gmock.h>

#include "core/base/error.h"
#include "core/base/field_path.h"
#include "core/reads/item_reads.h"
#include "tests/support/engine_fixture.h"

namespace memoryd {
namespace {

class ItemListTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    Start(Options());
  }

  static NamespaceKey Key() {
    const std::vector<std::string> names = {"n"};
    return {"tenant", NamespacePath::Make(FieldPath(), "namespace", names).value()};
  }
  void Put(const std::string& key) {
    ItemBatch batch{Key()};
    batch.writes.push_back({.key = key, .content = ItemContent()});
    batch.writes.back().content->value = "1";
    ASSERT_EQ(real_->Items().WriteItems({&batch, 1}, 1'000'000).front().outcome,
              ItemBatchOutcome::kWritten);
  }
  absl::StatusOr<ItemList> List(const ItemListRequest& request) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<ItemList>>>();
    auto future = promise->get_future();
    engine_->item_reads().List(request, Far(), [promise](absl::StatusOr<ItemList> page) {
      promise->set_value(Detached(std::move(page)));
    });
    return Await(std::move(future));
  }
};

TEST_F(ItemListTest, ADeletionDuringAPageIsNotTakenForTheEnd) {
  for (const char* key : {"a", "b", "c"}) Put(key);
  ItemListRequest request;
  request.key = Key();
  request.range.max_items = 2;
  const auto first = List(request);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(first->more);
  request.generation = first->generation;
  request.range.after_key = first->after_key;
  store_->Items().BeforeNextList(
      [this] { EXPECT_TRUE(real_->Items().DeleteNamespace(Key(), {}, 1).ok()); });
  EXPECT_EQ(ErrorReason(List(request).status()), "NAMESPACE_REPLACED");
}

TEST_F(ItemListTest, AnEmptyLastPageEndsTheList) {
  for (const char* key : {"a", "b"}) Put(key);
  ItemListRequest request;
  request.key = Key();
  request.range.max_items = 2;
  request.generation = List(request)->generation;
  request.range.after_key = "b";
  const auto last = List(request);
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_FALSE(last->more);
}

}  // namespace
}  // namespace memoryd
