#include "core/reads/item_reads.h"

#include <gmock/gmock.h>

#include <cstddef>
#include <cstdint>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/field_path.h"
#include "core/base/memory_budget.h"
#include "core/engine/engine.h"
#include "core/items/namespace_config.h"
#include "core/items/namespace_path.h"
#include "core/reads/item_search.h"
#include "core/storage/item_batch.h"
#include "core/storage/item_store.h"
#include "tests/support/engine_fixture.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
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
    const ItemBatch batch{.key = {"tenant", Path(names)}, .writes = {std::move(write)}};
    const auto results = real_->Items().WriteItems({&batch, 1}, ++now_us_);
    ASSERT_EQ(results.front().outcome, ItemBatchOutcome::kWritten) << results.front().status;
  }

  // An item of the namespace ["a"] that expires after `ttl_us`.
  void PutTimed(const std::string& key, std::int64_t ttl_us) {
    ItemBatch batch{{"tenant", Path({"a"})}};
    ItemWrite& write = batch.writes.emplace_back();
    write.key = key;
    write.content.emplace().value = R"({"n":1})";
    write.ttl_us = ttl_us;
    const auto results = real_->Items().WriteItems({&batch, 1}, ++now_us_);
    ASSERT_EQ(results.front().outcome, ItemBatchOutcome::kWritten) << results.front().status;
  }
  // Many items of the namespace ["a"], with the numbers from `begin` to `end` as fields.
  void PutNumbers(int begin, int end) {
    ItemBatch batch{{"tenant", Path({"a"})}};
    for (int i = begin; i < end; ++i) {
      ItemWrite& write = batch.writes.emplace_back();
      write.key = NumberKey(i);
      write.content.emplace().value = R"({"n":)" + std::to_string(i % 3) + "}";
    }
    const auto results = real_->Items().WriteItems({&batch, 1}, ++now_us_);
    ASSERT_EQ(results.front().outcome, ItemBatchOutcome::kWritten) << results.front().status;
  }
  static std::string NumberKey(int i) { return std::to_string(100'000 + i); }
  // When the store says that an item of ["a"] expires; -1: there is none.
  std::int64_t StoredExpiry(const std::string& key) {
    const ItemKey asked{{"tenant", Path({"a"})}, key};
    const auto items = real_->Items().ReadItems({&asked, 1}, 0, false, 1 << 20);
    EXPECT_TRUE(items.ok()) << items.status();
    return items.ok() && items->front().has_value() ? items->front()->expire_us : -1;
  }

  absl::StatusOr<ItemsRead> GetItems(std::vector<ItemGet> gets) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<ItemsRead>>>();
    auto future = promise->get_future();
    engine_->item_reads().Get({"tenant"}, std::move(gets), Far(),
                              [promise](absl::StatusOr<ItemsRead> read) {
                                promise->set_value(Detached(std::move(read)));
                              });
    return Await(std::move(future));
  }
  static ItemGet GetOf(const std::string& key, std::optional<bool> refresh_ttl = {}) {
    return {{{"tenant", Path({"a"})}, key}, refresh_ttl};
  }

  static ItemListRequest ListOf(std::int64_t max_items, const std::string& filter = "") {
    ItemListRequest request;
    request.key = {"tenant", Path({"a"})};
    request.range.max_items = max_items;
    request.filter = ItemFilter::Parse(FieldPath(), filter).value();
    return request;
  }
  absl::StatusOr<ItemList> ListItems(ItemListRequest request) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<ItemList>>>();
    auto future = promise->get_future();
    engine_->item_reads().List(std::move(request), Far(), [promise](absl::StatusOr<ItemList> page) {
      promise->set_value(Detached(std::move(page)));
    });
    return Await(std::move(future));
  }
  static void GoOn(const ItemList& page, ItemListRequest& request) {
    request.generation = page.generation;
    request.range.after_key = page.after_key;
    request.range.after_version = page.after_version;
  }
  // The keys of all pages, none of which is larger than asked for.
  std::vector<std::string> AllKeys(ItemListRequest request) {
    std::vector<std::string> keys;
    for (bool more = true; more;) {
      const auto page = ListItems(request);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) return keys;
      EXPECT_LE(std::ssize(page->items), request.range.max_items);
      for (const Item& item : page->items) keys.push_back(item.key);
      GoOn(*page, request);
      more = page->more;
    }
    return keys;
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

// ---- namespaces ----

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

// ---- ttls ----

TEST_F(ItemReadsTest, AReadBeginsTheTtlAgainUnlessItSaysOtherwise) {
  PutTimed("k", 1'000);
  const std::int64_t first = StoredExpiry("k");
  now_us_ += 500;
  const auto kept = GetItems({GetOf("k", false)});
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->items[0]->expire_us, first);
  EXPECT_EQ(StoredExpiry("k"), first);
  // Twice in one read, both with the new time.
  const auto read = GetItems({GetOf("k"), GetOf("k"), GetOf("missing")});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_GE(read->items[0]->expire_us, first + 500);
  EXPECT_EQ(read->items[1]->expire_us, read->items[0]->expire_us);
  EXPECT_EQ(StoredExpiry("k"), read->items[0]->expire_us);
  EXPECT_EQ(read->items[0]->version, kept->items[0]->version);
  EXPECT_FALSE(read->items[2].has_value());
}

TEST_F(ItemReadsTest, AnItemThatHasExpiredIsNotBroughtBackByARead) {
  PutTimed("k", 1'000);
  const std::int64_t first = StoredExpiry("k");
  now_us_ = first;
  const auto read = GetItems({GetOf("k", true)});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE(read->items[0].has_value());
  EXPECT_EQ(StoredExpiry("k"), first);
}

TEST_F(ItemReadsTest, AnItemWithoutATtlGetsNoneByARead) {
  Put({"a"}, "k");
  const auto read = GetItems({GetOf("k", true)});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->items[0]->expire_us, 0);
  EXPECT_EQ(StoredExpiry("k"), 0);
}

TEST_F(ItemReadsTest, ANamespaceDecidesForReadsThatSayNothing) {
  NamespaceConfig config;
  config.refresh_ttl = false;
  const NamespaceChange change{.config = config.Encode()};
  ASSERT_TRUE(*real_->Items().WriteNamespace({"tenant", Path({"a"})}, change, ++now_us_));
  PutTimed("k", 1'000);
  const std::int64_t first = StoredExpiry("k");
  now_us_ += 500;
  EXPECT_EQ(GetItems({GetOf("k")})->items[0]->expire_us, first);
  EXPECT_EQ(StoredExpiry("k"), first);
  EXPECT_GE(GetItems({GetOf("k", true)})->items[0]->expire_us, first + 500);
  EXPECT_GE(StoredExpiry("k"), first + 500);
}

TEST_F(ItemReadsTest, APageBeginsTtlsAgainOnlyWhereItIsAskedTo) {
  PutTimed("k1", 1'000);
  PutTimed("k2", 2'000);
  Put({"a"}, "k3", R"({"n":1})");
  const std::int64_t first = StoredExpiry("k1");
  const std::int64_t second = StoredExpiry("k2");
  now_us_ += 500;
  ItemListRequest request = ListOf(10);
  ASSERT_THAT(ListItems(request)->items, SizeIs(3));
  EXPECT_EQ(StoredExpiry("k1"), first);
  request.refresh_ttl = true;
  request.range.max_items = 1;
  const auto page = ListItems(request);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->items[0].content.value, R"({"n":1})");
  EXPECT_GE(page->items[0].expire_us, first + 500);
  EXPECT_EQ(StoredExpiry("k1"), page->items[0].expire_us);
  // It is not on the page.
  EXPECT_EQ(StoredExpiry("k2"), second);
  request.range.max_items = 10;
  EXPECT_EQ(ListItems(request)->items[2].expire_us, 0);
  EXPECT_GE(StoredExpiry("k2"), second + 500);
}

// ---- pages of items ----

TEST_F(ItemReadsTest, PagesOfAFilterHaveEveryItemThatPassesOnceInEveryOrder) {
  PutNumbers(0, 25);
  std::vector<std::string> passing;
  for (int i = 0; i < 25; i += 3) passing.push_back(NumberKey(i));
  const std::vector<std::string> reversed(passing.rbegin(), passing.rend());
  for (const std::int64_t page_size : {1, 2, 3, 9, 100}) {
    ItemListRequest request = ListOf(page_size, R"({"n":0})");
    EXPECT_EQ(AllKeys(request), passing) << page_size;
    request.range.order = ItemListOrder::kOldestFirst;
    EXPECT_EQ(AllKeys(request), passing) << page_size;
    request.range.order = ItemListOrder::kKeyDescending;
    EXPECT_EQ(AllKeys(request), reversed) << page_size;
    request.range.order = ItemListOrder::kNewestFirst;
    EXPECT_EQ(AllKeys(request), reversed) << page_size;
  }
  EXPECT_THAT(AllKeys(ListOf(100, R"({"n":7})")), IsEmpty());
}

TEST_F(ItemReadsTest, AFilterReadsValuesThatThePageDoesNotHave) {
  PutNumbers(0, 4);
  ItemListRequest request = ListOf(10, R"({"n":1})");
  request.range.with_values = false;
  const auto page = ListItems(request);
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_THAT(page->items, SizeIs(1));
  EXPECT_EQ(page->items[0].key, NumberKey(1));
  EXPECT_EQ(page->items[0].content.value, "");
}

TEST_F(ItemReadsTest, APageOfAFilterEndsAfterTenThousandItemsAndTheNextGoesOnThere) {
  for (int begin = 0; begin < 10'000; begin += 1'000) PutNumbers(begin, begin + 1'000);
  Put({"a"}, "200000", R"({"n":"last"})");
  ItemListRequest request = ListOf(10, R"({"n":"last"})");
  const auto first = ListItems(request);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(first->items, IsEmpty());
  EXPECT_TRUE(first->more);
  EXPECT_EQ(first->after_key, NumberKey(9'999));
  GoOn(*first, request);
  const auto second = ListItems(request);
  ASSERT_TRUE(second.ok()) << second.status();
  ASSERT_THAT(second->items, SizeIs(1));
  EXPECT_EQ(second->items[0].key, "200000");
  EXPECT_FALSE(second->more);
}

TEST_F(ItemReadsTest, APageEndsAtItsBytesButHasAnItem) {
  const std::string large = "\"" + std::string(2'000, 'x') + "\"";
  for (const char* const key : {"k1", "k2", "k3"}) Put({"a"}, key, large);
  ItemListRequest request = ListOf(10);
  request.range.max_bytes = 1'000;
  const auto page = ListItems(request);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_THAT(page->items, SizeIs(1));
  EXPECT_TRUE(page->more);
  EXPECT_THAT(AllKeys(request), ElementsAre("k1", "k2", "k3"));
}

TEST_F(ItemReadsTest, PagesEndWhereTheNamespaceIsAnotherOne) {
  EXPECT_EQ(ListItems(ListOf(1))->generation, 0U);
  PutNumbers(0, 3);
  ItemListRequest request = ListOf(1);
  GoOn(*ListItems(request), request);
  ASSERT_TRUE(real_->Items().DeleteNamespace(request.key, {}, ++now_us_).ok());
  EXPECT_EQ(ErrorReason(ListItems(request).status()), "NAMESPACE_REPLACED");
  PutNumbers(0, 3);
  EXPECT_EQ(ErrorReason(ListItems(request).status()), "NAMESPACE_REPLACED");
  request.generation = 0;
  EXPECT_TRUE(ListItems(request).ok());
}

// ---- limits and memory ----

TEST_F(ItemReadsTest, AReplyAboveItsLimitIsRefused) {
  const std::string large = "\"" + std::string(4 << 20, 'x') + "\"";
  std::vector<ItemGet> gets;
  for (int i = 0; i < 16; ++i) {
    Put({"a"}, NumberKey(i), large);
    gets.push_back(GetOf(NumberKey(i)));
  }
  EXPECT_EQ(ErrorReason(GetItems(gets).status()), "REPLY_TOO_LARGE");
  gets.pop_back();
  EXPECT_TRUE(GetItems(gets).ok());
}

TEST_F(ItemReadsTest, RepliesHoldMemoryAsLongAsTheyAreThere) {
  const auto held = [this] {
    return memory_.HeldByUse()[static_cast<std::size_t>(MemoryUse::kReplies)];
  };
  Put({"a"}, "k", "\"" + std::string(5'000, 'x') + "\"");
  {
    const auto read = GetItems({GetOf("k")});
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_GE(read->memory.bytes(), 5'000);
    EXPECT_EQ(held(), read->memory.bytes());
  }
  EXPECT_EQ(held(), 0);
  const auto page = ListItems(ListOf(10));
  ASSERT_TRUE(page.ok()) << page.status();
  // The items, not the largest page that was thought of.
  EXPECT_GE(page->memory.bytes(), 5'000);
  EXPECT_LT(page->memory.bytes(), 10'000);
  EXPECT_EQ(held(), page->memory.bytes());
}

TEST_F(ItemReadsTest, AReadThatMemoryIsShortForIsRefusedAndChangesNothing) {
  MemoryBudget small(1 << 20);
  EngineOptions options = Options();
  options.memory = &small;
  Start(std::move(options));
  PutTimed("k", 1'000'000);
  Put({"a"}, "large", "\"" + std::string(1 << 20, 'x') + "\"");
  const std::int64_t first = StoredExpiry("k");
  now_us_ += 500;
  EXPECT_EQ(ErrorReason(GetItems({GetOf("k"), GetOf("large")}).status()), "MEMORY_SHORT");
  EXPECT_EQ(StoredExpiry("k"), first);
  EXPECT_EQ(ErrorReason(ListItems(ListOf(1)).status()), "MEMORY_SHORT");
  ItemListRequest request = ListOf(1);
  request.range.max_bytes = 1'000;
  EXPECT_TRUE(ListItems(request).ok());
  EXPECT_TRUE(GetItems({GetOf("k")}).ok());
  engine_.reset();
}

// ---- searches ----

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

// Whichever was written last.
TEST_F(ItemReadsTest, AnItemThatDoesNotTellItsLanguageIsInThatOfMost) {
  for (int i = 0; i < 2; ++i) {
    Put({"a"}, i == 0 ? "told" : "untold", i == 0 ? R"("Ich habe die noch.")" : R"("Bücher")");
    Put({"a"}, i == 0 ? "untold" : "told", i == 0 ? R"("Bücher")" : R"("Ich habe die noch.")");
    EXPECT_THAT(Found({.query = "Buch"}), ElementsAre("untold*", "told"));
  }
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
