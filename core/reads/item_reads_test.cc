#include "core/reads/item_reads.h"

#include <gmock/gmock.h>

#include "core/base/field_path.h"
#include "tests/support/engine_fixture.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using Names = std::vector<std::string>;

NamespacePath Path(const Names& names) {
  return NamespacePath::Make(FieldPath(), "namespace", names).value();
}

class ItemReadsTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    Start(Options());
  }

  void Put(const Names& names, const std::string& key, const std::string& json = "1",
           std::vector<float> vector = {}, std::optional<std::string> searched = {}) {
    ItemWrite write;
    write.key = key;
    write.content.emplace().value = json;
    write.content->vector = std::move(vector);
    write.content->search = std::move(searched);
    const ItemBatch batch{{"tenant", Path(names)}, {std::move(write)}};
    const auto results = real_->Items().WriteItems({&batch, 1}, ++now_us_);
    ASSERT_EQ(results.front().outcome, ItemBatchOutcome::kWritten) << results.front().status;
  }

  absl::StatusOr<ItemsFound> Search(ItemSearchRequest request) {
    request.tenant = "tenant";
    auto promise = std::make_shared<std::promise<absl::StatusOr<ItemsFound>>>();
    auto future = promise->get_future();
    engine_->item_reads().Search(std::move(request), Far(),
                                 [promise](absl::StatusOr<ItemsFound> found) {
                                   promise->set_value(Detached(std::move(found)));
                                 });
    return Await(std::move(future));
  }
  // Keys, with a `*` behind those that have a score.
  std::vector<std::string> Found(ItemSearchRequest request) {
    std::vector<std::string> keys;
    const auto found = Search(std::move(request));
    EXPECT_TRUE(found.ok()) << found.status();
    if (!found.ok()) return keys;
    for (const FoundStoredItem& one : found->items) {
      keys.push_back(one.item.key + (one.score.has_value() ? "*" : ""));
      if (one.score.has_value()) {
        EXPECT_NE(*one.score, 0) << one.item.key;
      }
    }
    return keys;
  }

  absl::StatusOr<NamespaceList> ListPage(NamespaceListRequest request) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<NamespaceList>>>();
    auto future = promise->get_future();
    engine_->item_reads().ListNamespaces(std::move(request), Far(),
                                         [promise](absl::StatusOr<NamespaceList> page) {
                                           promise->set_value(Detached(std::move(page)));
                                         });
    return Await(std::move(future));
  }
  // The stored paths of all pages.
  std::vector<NamespacePath> ListAll(std::size_t max_depth, std::int64_t page_size) {
    std::vector<NamespacePath> paths;
    NamespaceListRequest request{.tenant = "tenant", .max_depth = max_depth};
    request.max_namespaces = page_size;
    for (bool more = true; more;) {
      auto page = ListPage(request);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) return paths;
      for (const ListedNamespace& listed : page->namespaces) paths.push_back(listed.path);
      request.after = page->after;
      more = page->more;
    }
    return paths;
  }
};

TEST_F(ItemReadsTest, APathThatIsShorterThanTheDepthHidesNothingBelowIt) {
  for (const Names& path :
       std::vector<Names>{{"b"}, {"b", "*", "a"}, {"b", "*", "a", "z"}, {"b", "b"}, {"c", "d"}}) {
    Put(path, "k");
  }
  for (const std::int64_t page_size : {1, 2, 100}) {
    EXPECT_THAT(ListAll(3, page_size), ElementsAre(Path({"b"}), Path({"b", "*", "a"}),
                                                   Path({"b", "b"}), Path({"c", "d"})));
    EXPECT_THAT(ListAll(2, page_size),
                ElementsAre(Path({"b"}), Path({"b", "*"}), Path({"b", "b"}), Path({"c", "d"})));
    EXPECT_THAT(ListAll(1, page_size), ElementsAre(Path({"b"}), Path({"c"})));
    EXPECT_THAT(ListAll(0, page_size),
                ElementsAre(Path({"b"}), Path({"b", "*", "a"}), Path({"b", "*", "a", "z"}),
                            Path({"b", "b"}), Path({"c", "d"})));
  }
}

TEST_F(ItemReadsTest, WhatDoesNotAnswerAQueryComesLastWithoutAScore) {
  Put({"a"}, "fish", R"("a fish")");
  Put({"a"}, "bear", R"("a bear")");
  Put({"b"}, "number", "7");
  Put({"b"}, "hidden", R"("another bear")", {}, "[]");
  std::string birds;
  for (int i = 0; i < 2'000; ++i) birds += "bird ";
  Put({"b"}, "long", "\"" + birds + "bears\"");
  EXPECT_THAT(Found({.query = "bear"}), ElementsAre("bear*", "long*", "hidden", "number", "fish"));
  EXPECT_THAT(Found({.query = "bear", .limit = 2, .offset = 1}), ElementsAre("long*", "hidden"));
  EXPECT_THAT(Found({.query = "bear", .limit = 2, .offset = 4}), ElementsAre("fish"));
  EXPECT_THAT(Found({.query = "zebra", .limit = 2}), ElementsAre("long", "hidden"));
  // A query without a word.
  EXPECT_THAT(Found({.query = "?!", .limit = 1}), ElementsAre("long"));
  EXPECT_THAT(Found({.limit = 1}), ElementsAre("long"));
}

TEST_F(ItemReadsTest, AVectorAloneChoosesAndBesideAQueryItRanks) {
  Put({"a"}, "both", R"("green bear")", {1, 0});
  Put({"a"}, "vector", R"("fish")", {2, 0});
  Put({"a"}, "words", R"("green bear")", {-1, 0});
  Put({"a"}, "neither", R"("fish")", {0, 1});
  Put({"b"}, "plain", R"("green")");
  ItemSearchRequest alone{.vector = {1, 0}};
  EXPECT_THAT(Search(alone)->items, testing::SizeIs(4));
  EXPECT_EQ(Search(alone)->items.back().score, -1);
  ItemSearchRequest blended{.query = "green bear", .vector = {1, 0}};
  EXPECT_THAT(Found(blended), ElementsAre("both*", "words*", "vector*", "plain*", "neither"));
  const auto found = Search(blended);
  EXPECT_EQ(found->items[0].score, 1);
  EXPECT_EQ(found->items[1].score, 0.5);
  EXPECT_EQ(found->items[2].score, 0.5);
  EXPECT_LT(found->items[3].score, 0.5);
  blended.least_cosine = 0.5;
  EXPECT_THAT(Found(blended), ElementsAre("both*", "vector*"));
  // No word of the query is anywhere: the vector has the score.
  EXPECT_THAT(Found({.query = "zebra", .vector = {-1, 0}}),
              ElementsAre("words*", "plain", "neither", "vector", "both"));
  EXPECT_EQ(ErrorReason(Search({.query = "green", .vector = {1, 0, 0}}).status()), "VECTOR_SIZE");
  EXPECT_THAT(Found({.prefix = Path({"b"}), .query = "green", .vector = {1, 0, 0}}),
              ElementsAre("plain*"));
}

}  // namespace
}  // namespace memoryd
