// Namespaces and items.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/items/item.h"
#include "core/items/namespace_path.h"
#include "core/storage/item_batch.h"
#include "core/storage/item_store.h"
#include "tests/contract/item_fixture.h"
#include "tests/contract/store_fixture.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ItemContractTest : public ItemTest {};

TEST_P(ItemContractTest, AnItemIsReadBackInAllItsFields) {
  ItemWrite put = Put("key", R"({"a": 1})");
  put.content->search = R"(["a"])";
  put.content->vector = {0.5F, -1.0F};
  put.content->writer = "token:ada";
  put.content->untrusted = true;
  put.ttl_us = 1'000'000;
  ItemWrite bytes = Put("bytes", std::string("\0\xFF", 2));
  bytes.content->kind = ItemValueKind::kBytes;
  bytes.content->mime_type = "image/png";
  const auto written = MustWrite(Batch({put, bytes}));
  ASSERT_THAT(written, SizeIs(2));
  Item expected{.key = "key",
                .version = written[0].version,
                .create_us = kNow,
                .update_us = kNow,
                .expire_us = kNow + 1'000'000,
                .ttl_us = 1'000'000,
                .content = *put.content};
  EXPECT_EQ(Read("key"), expected);
  EXPECT_EQ(written[0].expire_us, expected.expire_us);
  EXPECT_EQ(Read("bytes")->content, *bytes.content);
}

TEST_P(ItemContractTest, APutReplacesAllButTheTimeOfCreation) {
  ItemWrite first = Put("key", std::string(100'000, ' ') + "1");
  first.content->vector = {1.0F};
  first.ttl_us = 5'000'000;
  const auto before = MustWrite(Batch({first}));
  const auto after = MustWrite(Batch({Put("key", "2")}), kNow + 7);
  EXPECT_TRUE(after[0].existed);
  EXPECT_GT(after[0].version, before[0].version);
  const std::optional<Item> item = Read("key", kNow + 7);
  ASSERT_TRUE(item.has_value());
  EXPECT_EQ(item->content, JsonContent("2"));
  EXPECT_EQ(item->create_us, kNow);
  EXPECT_EQ(item->update_us, kNow + 7);
  EXPECT_EQ(item->expire_us, 0);
}

TEST_P(ItemContractTest, VersionsRiseAlsoWhenAnItemOrItsNamespaceComesAgain) {
  std::int64_t version = 0;
  const auto rises = [&](std::int64_t now_us) {
    const auto written = MustWrite(Batch({Put("key")}), now_us);
    EXPECT_GT(written[0].version, version);
    version = written[0].version;
  };
  rises(kNow);
  rises(kNow);
  MustWrite(Batch({Delete("key")}));
  rises(kNow);
  ASSERT_TRUE(items().DeleteNamespace(kKey, {}, kNow).ok());
  rises(kNow + 1'000);
}

// Its time is that at which it joined the queue.
TEST_P(ItemContractTest, NoVersionComesAgainWhenABatchThatWaitedMakesTheNamespace) {
  const auto first = MustWrite(Batch({Put("a"), Put("b")}), kNow + 5'000);
  ASSERT_TRUE(items().DeleteNamespace(kKey, {}, kNow + 5'000).ok());
  const auto second = MustWrite(Batch({Put("a")}), kNow);
  EXPECT_GT(second[0].version, first[1].version);
  ASSERT_TRUE(items().DeleteNamespace(kKey, {}, kNow).ok());
  EXPECT_TRUE(items().WriteNamespace(kKey, {}, kNow - 5'000).value());
  EXPECT_GT(Row()->version, second[0].version);
  EXPECT_EQ(Row()->config_version, Row()->version);
  Purge(kNow + 100'000);
  EXPECT_GT(MustWrite(Batch({Put("a")}), kNow)[0].version, second[0].version);
}

TEST_P(ItemContractTest, NoCallThatBeganBeforeMakesAnErasedNamespaceAgain) {
  MustWrite(Batch({Put("a")}));
  ASSERT_TRUE(items().DeleteNamespace(kKey, {.forget = true}, kNow + 10).ok());
  ItemBatch late = Batch({Put("b")});
  late.begun_us = kNow + 10;
  EXPECT_EQ(Write(late).outcome, ItemBatchOutcome::kErased);
  NamespaceChange change;
  change.begun_us = kNow + 10;
  EXPECT_FALSE(items().WriteNamespace(kKey, change, kNow + 20).value());
  EXPECT_FALSE(Row().has_value());
  // One of a younger call is not held up by an older one's.
  std::vector<ItemBatch> batches = {late, Batch({Put("c")}), Batch({Put("d")}, Key({"x"}))};
  batches[1].begun_us = batches[2].begun_us = kNow + 11;
  const auto results = items().WriteItems(batches, kNow + 20);
  EXPECT_EQ(results[0].outcome, ItemBatchOutcome::kErased);
  EXPECT_EQ(results[1].outcome, ItemBatchOutcome::kWritten);
  EXPECT_EQ(results[2].outcome, ItemBatchOutcome::kWritten);
  EXPECT_FALSE(Read("b").has_value());
  EXPECT_TRUE(Read("c").has_value());
}

TEST_P(ItemContractTest, AConditionIsDecidedByWhatIsStored) {
  const auto lost = [&](const ItemWrite& write, std::int64_t stored) {
    const ItemBatchResult result = Write(Batch({Put("other"), write}));
    EXPECT_EQ(result.outcome, ItemBatchOutcome::kVersionLost);
    EXPECT_EQ(result.lost, 1U);
    EXPECT_EQ(result.stored, stored);
    EXPECT_FALSE(Read("other").has_value());
  };
  lost(Expecting(Put("key"), 5), 0);
  lost(Expecting(Delete("key"), 5), 0);
  const std::int64_t version = MustWrite(Batch({Expecting(Put("key"), 0)}))[0].version;
  lost(Expecting(Put("key"), 0), version);
  lost(Expecting(Put("key"), version - 1), version);
  lost(Expecting(Delete("key"), version + 1), version);
  const std::int64_t next = MustWrite(Batch({Expecting(Put("key"), version)}))[0].version;
  MustWrite(Batch({Expecting(Delete("key"), next)}));
  EXPECT_FALSE(Read("key").has_value());
}

TEST_P(ItemContractTest, AnExpiredItemDoesNotExist) {
  ItemWrite put = Put("key");
  put.ttl_us = 1'000;
  const std::int64_t version = MustWrite(Batch({put}))[0].version;
  EXPECT_TRUE(Read("key", kNow + 999).has_value());
  EXPECT_FALSE(Read("key", kNow + 1'000).has_value());
  EXPECT_THAT(ListKeys({.max_items = 10}, kNow + 1'000), IsEmpty());
  EXPECT_EQ(Write(Batch({Expecting(Put("key"), version)}), kNow + 1'000).outcome,
            ItemBatchOutcome::kVersionLost);
  const auto again = MustWrite(Batch({Expecting(Put("key"), 0)}), kNow + 2'000);
  EXPECT_FALSE(again[0].existed);
  EXPECT_EQ(Read("key", kNow + 2'000)->create_us, kNow + 2'000);
  EXPECT_EQ(Row()->item_count, 1);
}

TEST_P(ItemContractTest, ABatchThatIsRefusedHurtsNoOther) {
  MustWrite(Batch({Put("key")}));
  const std::vector<ItemBatch> batches = {
      Batch({Put("a"), Expecting(Put("key"), 0)}), Batch({Put("b")}),
      Batch({Put("c")}, Key({"users", "bob"})), Batch({Put("d")}, Key({"users", "ada"}, "other")),
      Batch({Delete("none")}, Key({"nowhere"}))};
  const auto results = items().WriteItems(batches, kNow);
  ASSERT_THAT(results, SizeIs(5));
  EXPECT_EQ(results[0].outcome, ItemBatchOutcome::kVersionLost);
  for (std::size_t i = 1; i < results.size(); ++i) {
    EXPECT_EQ(results[i].outcome, ItemBatchOutcome::kWritten) << i << results[i].status;
  }
  EXPECT_FALSE(results[4].writes[0].existed);
  EXPECT_FALSE(Read("a").has_value());
  EXPECT_TRUE(Read("b").has_value());
  EXPECT_TRUE(Read("c", kNow, Key({"users", "bob"})).has_value());
  EXPECT_TRUE(Read("d", kNow, Key({"users", "ada"}, "other")).has_value());
  EXPECT_FALSE(Row(Key({"nowhere"})).has_value());
}

TEST_P(ItemContractTest, ResultsAreKeptUnderARequestId) {
  const ItemBatch batch = Batch({Put("a"), Delete("none"), Put("b")}, kKey, "r");
  const auto written = MustWrite(batch);
  EXPECT_EQ(Write(batch, kNow + 9).outcome, ItemBatchOutcome::kRequestIdTaken);
  const auto find = [&] {
    const Names ids = {"unknown", "r"};
    const auto records = items().FindItemRequests(kKey, ids);
    EXPECT_TRUE(records.ok()) << records.status();
    EXPECT_FALSE((*records)[0].has_value());
    return (*records)[1];
  };
  auto record = find();
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->fingerprint, batch.fingerprint);
  EXPECT_EQ(record->create_us, kNow);
  EXPECT_EQ(record->writes, written);
  // The same id is another one in another namespace; it outlives its own.
  EXPECT_EQ(Write(Batch({Put("a")}, Key({"x"}), "r")).outcome, ItemBatchOutcome::kWritten);
  ASSERT_TRUE(items().DeleteNamespace(kKey, {}, kNow).ok());
  EXPECT_EQ(Write(batch).outcome, ItemBatchOutcome::kRequestIdTaken);
  ASSERT_TRUE(items().DeleteNamespace(kKey, {.forget = true}, kNow).ok());
  EXPECT_EQ(find()->fingerprint, "");
  EXPECT_EQ(Write(batch).outcome, ItemBatchOutcome::kRequestIdTaken);
  Purge(kNow + 10, 5);
  EXPECT_EQ(Write(batch).outcome, ItemBatchOutcome::kWritten);
}

TEST_P(ItemContractTest, WhatDeletedNothingIsKeptUnderItsRequestId) {
  const ItemBatch batch = Batch({Delete("none")}, Key({"nowhere"}), "r");
  EXPECT_FALSE(MustWrite(batch)[0].existed);
  MustWrite(Batch({Put("none")}, Key({"nowhere"})));
  EXPECT_EQ(Write(batch).outcome, ItemBatchOutcome::kRequestIdTaken);
  EXPECT_TRUE(Read("none", kNow, Key({"nowhere"})).has_value());
}

TEST_P(ItemContractTest, AllVectorsOfANamespaceHaveOneSize) {
  ItemWrite two = Put("two");
  two.content->vector = {1.0F, 2.0F};
  ItemWrite three = Put("three");
  three.content->vector = {1.0F, 2.0F, 3.0F};
  MustWrite(Batch({Put("none")}));
  MustWrite(Batch({two}));
  const ItemBatchResult result = Write(Batch({Put("other"), three}));
  EXPECT_EQ(result.outcome, ItemBatchOutcome::kVectorSize);
  EXPECT_EQ(result.lost, 1U);
  EXPECT_EQ(result.stored, 2);
  EXPECT_EQ(Write(Batch({two, three}, Key({"new"}))).outcome, ItemBatchOutcome::kVectorSize);
  EXPECT_EQ(Row()->vector_size, 2);
  // Vectors that are written together, one by one right or wrong.
  EXPECT_EQ(Write(Batch({two, three})).lost, 1U);
  const std::vector<ItemBatch> batches = {Batch({two}), Batch({three})};
  const std::vector<ItemBatchResult> results = items().WriteItems(batches, kNow);
  EXPECT_EQ(results[0].outcome, ItemBatchOutcome::kWritten);
  EXPECT_EQ(results[1].outcome, ItemBatchOutcome::kVectorSize);
  EXPECT_FALSE(Read("three").has_value());
  const NamespaceKey without = Key({"without"});
  MustWrite(Batch({Put("none")}, without));
  const std::vector<ItemBatch> first = {Batch({two}, without), Batch({three}, without)};
  const std::vector<ItemBatchResult> either = items().WriteItems(first, kNow);
  EXPECT_NE(either[0].outcome, either[1].outcome);
  EXPECT_NE(Read("two", kNow, without).has_value(), Read("three", kNow, without).has_value());
}

// More values than a statement of PostgreSQL has parameters.
TEST_P(ItemContractTest, ALargeBatchIsWrittenWhole) {
  std::vector<ItemWrite> writes;
  writes.reserve(6'000);
  for (int i = 0; i < 6'000; ++i) writes.push_back(Put("key" + std::to_string(i)));
  writes.front().content->vector = {1.0F};
  writes.front().content->untrusted = true;
  writes.back().content->search = R"(["a"])";
  const ItemContent first = *writes.front().content;
  const ItemContent last = *writes.back().content;
  EXPECT_THAT(MustWrite(Batch(writes)), SizeIs(6'000));
  EXPECT_EQ(Row()->item_count, 6'000);
  EXPECT_EQ(Read("key0")->content, first);
  EXPECT_EQ(Read("key5999")->content, last);
  writes.front().expected_version = 1;
  EXPECT_EQ(Write(Batch(writes)).outcome, ItemBatchOutcome::kVersionLost);
}

TEST_P(ItemContractTest, PagesGoInEachOrderFromEitherEnd) {
  for (const char* key : {"b", "d", "a", "c", "ba"}) MustWrite(Batch({Put(key)}));
  MustWrite(Batch({Put("d")}));
  using Order = ItemListOrder;
  for (const std::int64_t size : {1, 2, 10}) {
    EXPECT_THAT(ListKeys({.order = Order::kKey, .max_items = size}),
                ElementsAre("a", "b", "ba", "c", "d"));
    EXPECT_THAT(ListKeys({.order = Order::kKeyDescending, .max_items = size}),
                ElementsAre("d", "c", "ba", "b", "a"));
    EXPECT_THAT(ListKeys({.order = Order::kOldestFirst, .max_items = size}),
                ElementsAre("b", "a", "c", "ba", "d"));
    EXPECT_THAT(ListKeys({.order = Order::kNewestFirst, .max_items = size}),
                ElementsAre("d", "ba", "c", "a", "b"));
    for (const Order order : {Order::kKey, Order::kOldestFirst}) {
      const Names keys =
          ListKeys({.order = order, .begin_key = "b", .end_key = "c", .max_items = size});
      EXPECT_THAT(keys, ElementsAre("b", "ba"));
    }
  }
}

TEST_P(ItemContractTest, APageIsBoundedInBytesButHasAnItem) {
  for (const char* key : {"a", "b", "c"})
    MustWrite(Batch({Put(key, std::string(5'000, ' ') + "1")}));
  const ItemPage page = List({.max_items = 10, .max_bytes = 1'000});
  ASSERT_THAT(page.items, SizeIs(1));
  EXPECT_TRUE(page.more);
  EXPECT_EQ(ListKeys({.max_items = 10, .max_bytes = 11'000}), (Names{"a", "b", "c"}));
  const ItemPage keys = List({.max_items = 10, .max_bytes = 1, .with_values = false});
  EXPECT_THAT(keys.items, SizeIs(3));
  EXPECT_FALSE(keys.more);
  EXPECT_EQ(keys.items[0].content.value, "");
}

TEST_P(ItemContractTest, ReadsAreBoundedInBytes) {
  MustWrite(Batch({Put("a", std::string(5'000, ' ') + "1"), Put("b", "2")}));
  const std::vector<ItemKey> keys = {{kKey, "a"}, {kKey, "none"}, {kKey, "b"}, {kKey, "a"}};
  const auto read = items().ReadItems(keys, kNow, false, 20'000);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE((*read)[0].has_value());
  EXPECT_FALSE((*read)[1].has_value());
  EXPECT_EQ((*read)[2]->content.value, "2");
  EXPECT_EQ((*read)[3], (*read)[0]);
  // An item that is asked for twice counts twice.
  for (const std::int64_t bytes : {3'000, 8'000}) {
    EXPECT_EQ(ErrorReason(items().ReadItems(keys, kNow, false, bytes).status()), "REPLY_TOO_LARGE");
  }
}

TEST_P(ItemContractTest, NamespacesAreListedInOrderByPrefixAndSubject) {
  const std::string longest(256, 'x');
  const std::vector<Names> paths = {{"a"},  {"a", "b"},         {"a", "b", "c"},   {"a!"},
                                    {"ab"}, Names(16, longest), Names(15, longest)};
  for (const Names& path : paths) MustWrite(Batch({Put("k")}, Key(path)));
  MustWrite(Batch({Put("k")}, Key({"a"}, "other")));
  ASSERT_TRUE(items().WriteNamespace(Key({"a", "s"}), {.subject = "ada"}, kNow).value());
  const auto list = [&](const Names& prefix, std::int64_t size, std::string_view subject = "") {
    std::vector<NamespacePath> listed;
    std::string after;
    for (;;) {
      const auto page = items().ListNamespaces("tenant", Path(prefix), after, subject, size);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok() || page->empty()) return listed;
      for (const ListedNamespace& found : *page) listed.push_back(found.path);
      after = listed.back().stored();
    }
  };
  for (const std::int64_t size : {1, 3, 100}) {
    EXPECT_THAT(list({}, size), ElementsAre(Path({"a"}), Path({"a", "b"}), Path({"a", "b", "c"}),
                                            Path({"a", "s"}), Path({"a!"}), Path({"ab"}),
                                            Path(Names(15, longest)), Path(Names(16, longest))));
    EXPECT_THAT(list({"a", "b"}, size), ElementsAre(Path({"a", "b"}), Path({"a", "b", "c"})));
    EXPECT_THAT(list({}, size, "ada"), ElementsAre(Path({"a", "s"})));
    EXPECT_THAT(list({"b"}, size), IsEmpty());
  }
}

TEST_P(ItemContractTest, AListGoesOnBehindAPathOrBehindAllThatBeginWithIt) {
  for (const Names& path : std::vector<Names>{{"b"}, {"b", "*", "a"}, {"b", "b"}, {"b!"}, {"c"}}) {
    MustWrite(Batch({Put("k")}, Key(path)));
  }
  const auto next = [&](const std::string& after) {
    const auto page = items().ListNamespaces("tenant", NamespacePath(), after, "", 1);
    EXPECT_TRUE(page.ok()) << page.status();
    return page.ok() && !page->empty() ? page->front().path : NamespacePath();
  };
  EXPECT_EQ(next(Path({"b"}).stored()), Path({"b", "*", "a"}));
  EXPECT_EQ(next(Path({"b", "*"}).StoredEnd()), Path({"b", "b"}));
  EXPECT_EQ(next(Path({"b"}).StoredEnd()), Path({"b!"}));
  EXPECT_EQ(next(Path({"c"}).StoredEnd()), NamespacePath());
}

TEST_P(ItemContractTest, AConfigurationIsWrittenOnlyOverTheOneThatWasRead) {
  NamespaceChange change{.ttl_us = 1'000, .subject = "ada", .config = "{}"};
  EXPECT_TRUE(items().WriteNamespace(kKey, change, kNow).value());
  EXPECT_FALSE(items().WriteNamespace(kKey, change, kNow).value());
  const std::optional<NamespaceRow> row = Row();
  ASSERT_TRUE(row.has_value());
  EXPECT_EQ(row->subject, "ada");
  EXPECT_EQ(row->config, "{}");
  EXPECT_EQ(MustWrite(Batch({Put("key")}))[0].expire_us, kNow + 1'000);
  ItemWrite forever = Put("forever");
  forever.ttl_us = 0;
  EXPECT_EQ(MustWrite(Batch({forever}))[0].expire_us, 0);
  change = {.expected_config_version = row->config_version};
  EXPECT_TRUE(items().WriteNamespace(kKey, change, kNow).value());
  EXPECT_FALSE(items().WriteNamespace(kKey, change, kNow).value());
  EXPECT_EQ(MustWrite(Batch({Put("key")}))[0].expire_us, 0);
}

TEST_P(ItemContractTest, ADeletedNamespaceIsGoneAtOnceAndItsRowsBehind) {
  MustWrite(Batch({Put("a"), Put("b", std::string(3'000, ' ') + "1")}));
  const std::uint64_t generation = Row()->generation;
  const auto deleted = items().DeleteNamespace(kKey, {}, kNow);
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_TRUE(deleted->existed);
  EXPECT_EQ(deleted->item_count, 2);
  EXPECT_FALSE(items().DeleteNamespace(kKey, {}, kNow)->existed);
  EXPECT_FALSE(Read("a").has_value());
  MustWrite(Batch({Put("c")}));
  EXPECT_THAT(ListKeys({.max_items = 10}), ElementsAre("c"));
  EXPECT_THAT(items().ListItems(kKey, generation, {.max_items = 10}, kNow)->items, IsEmpty());
  EXPECT_GE(Purge(kNow), 2);
  EXPECT_EQ(Purge(kNow), 0);
  EXPECT_THAT(ListKeys({.max_items = 10}), ElementsAre("c"));
  EXPECT_EQ(Row()->item_count, 1);
}

TEST_P(ItemContractTest, AReadBeginsATtlAgainUnlessTheItemIsWrittenMeanwhile) {
  ItemWrite put = Put("key");
  put.ttl_us = 1'000;
  const std::int64_t version = MustWrite(Batch({put}))[0].version;
  Purge(kNow);  // What making a namespace may leave behind.
  const auto touch = [&](std::int64_t at_version, std::int64_t expire_us) {
    const ItemTouch touched{{kKey, "key"}, at_version, expire_us};
    EXPECT_TRUE(items().TouchItems({&touched, 1}).ok());
    return Read("key")->expire_us;
  };
  EXPECT_EQ(touch(version, kNow + 1'500), kNow + 1'500);
  EXPECT_EQ(touch(version, kNow + 1'200), kNow + 1'500);
  EXPECT_EQ(touch(version + 1, kNow + 9'000), kNow + 1'500);
  EXPECT_EQ(Read("key")->version, version);
  EXPECT_EQ(Purge(kNow + 1'499), 0);
  EXPECT_EQ(Purge(kNow + 1'500), 1);
  EXPECT_EQ(Row()->item_count, 0);
  EXPECT_EQ(Row()->item_bytes, 0);
}

TEST_P(ItemContractTest, OneOfManyWritersWinsACondition) {
  MustWrite(Batch({Put("key", "0")}));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      for (int won = 0; won < 10;) {
        const std::optional<Item> item = Read("key");
        ASSERT_TRUE(item.has_value());
        const std::string next = std::to_string(std::stoi(item->content.value) + 1);
        const ItemBatchResult result = Write(Batch({Expecting(Put("key", next), item->version)}));
        if (result.outcome == ItemBatchOutcome::kWritten) ++won;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Read("key")->content.value, "40");
}

// Random writes to three namespaces, and what each shall hold by the rules of item_store.h.
class ItemHistoryTest : public ItemTest {
 protected:
  struct Entry {
    std::string value = {};
    std::int64_t version = 0;
    std::int64_t create_us = 0;
    std::int64_t expire_us = 0;
  };
  using Entries = std::map<std::string, Entry>;

  int Below(int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(random_); }

  static const Entry* Live(const Entries& entries, const std::string& key, std::int64_t now_us) {
    const auto entry = entries.find(key);
    if (entry == entries.end() || !IsLive(entry->second.expire_us, now_us)) return nullptr;
    return &entry->second;
  }

  ItemWrite RandomWrite(const Entries& entries, const std::string& key, std::int64_t now_us) {
    ItemWrite write = Below(4) == 0 ? Delete(key) : Put(key, std::to_string(Below(1'000'000)));
    if (Below(3) == 0) write.ttl_us = 1'000;
    if (Below(3) != 0) return write;
    const Entry* const entry = Live(entries, key, now_us);
    const std::int64_t version = entry == nullptr ? 0 : entry->version;
    write.expected_version = Below(4) == 0 ? version + 1 : version;
    if (!write.content.has_value() && write.expected_version == 0) write.expected_version.reset();
    return write;
  }

  std::vector<ItemBatch> RandomBatches(std::int64_t now_us) {
    std::vector<ItemBatch> batches;
    std::set<std::pair<NamespaceKey, std::string>> written;
    for (int b = 1 + Below(3); b > 0; --b) {
      ItemBatch batch{.key = keys_[static_cast<std::size_t>(Below(3))]};
      for (int w = 1 + Below(3); w > 0; --w) {
        const std::string key(1, static_cast<char>('p' + Below(4)));
        if (!written.insert({batch.key, key}).second) continue;
        batch.writes.push_back(RandomWrite(models_[batch.key], key, now_us));
      }
      if (!batch.writes.empty()) batches.push_back(batch);
    }
    return batches;
  }

  void Follow(const ItemBatch& batch, const ItemBatchResult& result, std::int64_t now_us) {
    Entries& entries = models_[batch.key];
    const bool holds =
        std::all_of(batch.writes.begin(), batch.writes.end(), [&](const ItemWrite& write) {
          const Entry* const entry = Live(entries, write.key, now_us);
          const std::int64_t version = entry == nullptr ? 0 : entry->version;
          return write.expected_version.value_or(version) == version;
        });
    ASSERT_EQ(result.outcome == ItemBatchOutcome::kWritten, holds) << result.status;
    if (!holds) return;
    for (std::size_t w = 0; w < batch.writes.size(); ++w) {
      const ItemWrite& write = batch.writes[w];
      const Entry* const entry = Live(entries, write.key, now_us);
      ASSERT_EQ(result.writes[w].existed, entry != nullptr);
      Entry next{.create_us = entry == nullptr ? now_us : entry->create_us};
      entries.erase(write.key);
      if (!write.content.has_value()) continue;
      next.value = write.content->value;
      next.version = result.writes[w].version;
      next.expire_us = write.ttl_us.has_value() ? now_us + *write.ttl_us : 0;
      entries[write.key] = next;
    }
  }

  void ExpectStored(std::int64_t now_us, bool is_purged) {
    for (const auto& [key, entries] : models_) {
      const auto page = items().ListItems(key, 0, {.max_items = 100}, now_us);
      ASSERT_TRUE(page.ok()) << page.status();
      std::vector<Item> expected;
      for (const auto& [name, entry] : entries) {
        if (!IsLive(entry.expire_us, now_us)) continue;
        Item item = *Read(name, now_us, key);
        EXPECT_EQ(item.content.value, entry.value);
        EXPECT_EQ(item.version, entry.version);
        EXPECT_EQ(item.create_us, entry.create_us);
        EXPECT_EQ(item.expire_us, entry.expire_us);
        expected.push_back(item);
      }
      ASSERT_EQ(page->items, expected);
      if (!is_purged || entries.empty()) continue;
      EXPECT_EQ(Row(key)->item_count, std::ssize(expected));
    }
  }

  const std::vector<NamespaceKey> keys_ = {Key({"a"}), Key({"a", "b"}), Key({"a"}, "other")};

 private:
  std::mt19937 random_{7};
  std::map<NamespaceKey, Entries> models_;
};

TEST_P(ItemHistoryTest, BehavesAsANaiveModelSeed7) {
  std::int64_t now_us = kNow;
  for (int round = 0; round < 150; ++round) {
    now_us += Below(400);
    const std::vector<ItemBatch> batches = RandomBatches(now_us);
    const auto results = items().WriteItems(batches, now_us);
    for (std::size_t b = 0; b < batches.size(); ++b) {
      ASSERT_NO_FATAL_FAILURE(Follow(batches[b], results[b], now_us));
    }
    const bool is_purged = round % 10 == 9;
    if (is_purged) Purge(now_us);
    ASSERT_NO_FATAL_FAILURE(ExpectStored(now_us, is_purged));
  }
  const auto usage = items().ReadItemUsage("tenant");
  ASSERT_TRUE(usage.ok()) << usage.status();
  EXPECT_EQ(usage->items, Row(keys_[0])->item_count + Row(keys_[1])->item_count);
  std::int64_t bytes = 0;
  for (const NamespaceKey& key : {keys_[0], keys_[1]}) {
    bytes += Row(key)->item_bytes + CountedBytes(key.path, Row(key)->subject, Row(key)->config);
  }
  EXPECT_EQ(usage->bytes, bytes);
}

INSTANTIATE_TEST_SUITE_P(Stores, ItemContractTest, ::testing::ValuesIn(AllStores()), StoreCaseName);
INSTANTIATE_TEST_SUITE_P(Stores, ItemHistoryTest, ::testing::ValuesIn(AllStores()), StoreCaseName);

}  // namespace
}  // namespace memoryd
