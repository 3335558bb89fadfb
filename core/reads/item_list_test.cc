#include <gmock/gmock.h>

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/field_path.h"
#include "core/items/namespace_match.h"
#include "core/items/namespace_path.h"
#include "core/reads/item_reads.h"
#include "core/storage/item_batch.h"
#include "tests/support/engine_fixture.h"

namespace memoryd {
namespace {

class ItemListTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    Start(Options());
  }

  static NamespaceKey Key(const std::string& name = "n") {
    return {"tenant", NamespacePath::Make(FieldPath(), "namespace", std::vector{name}).value()};
  }
  void Put(const std::string& key, const std::string& name = "n") {
    ItemBatch batch{Key(name)};
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
  NamespaceList ListNamespaces(const NamespaceListRequest& request) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<NamespaceList>>>();
    auto future = promise->get_future();
    engine_->item_reads().ListNamespaces(request, Far(),
                                         [promise](absl::StatusOr<NamespaceList> page) {
                                           promise->set_value(Detached(std::move(page)));
                                         });
    return Await(std::move(future)).value();
  }
};

TEST_F(ItemListTest, APageOfNamespacesReadsWhatItReturns) {
  for (int i = 100; i < 150; ++i) Put("k", std::to_string(i));
  NamespaceListRequest request;
  request.tenant = "tenant";
  request.max_namespaces = 10;
  for (int page = 1; page <= 5; ++page) {
    const NamespaceList found = ListNamespaces(request);
    EXPECT_EQ(found.namespaces.size(), 10);
    EXPECT_EQ(found.more, page < 5);
    // One more says whether there are further ones.
    EXPECT_LE(store_->Items().namespaces_listed(), 11 * page);
    request.after = found.after;
  }
  // A page goes on behind namespaces that the filter leaves out.
  request.after.clear();
  NamespaceMatch last;
  last.end = NamespaceMatch::End::kSuffix;
  last.names = {"149"};
  request.filter = NamespaceFilter::Make("matches", {last}).value();
  const NamespaceList found = ListNamespaces(request);
  EXPECT_EQ(found.namespaces.size(), 1);
  EXPECT_FALSE(found.more);
}

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
