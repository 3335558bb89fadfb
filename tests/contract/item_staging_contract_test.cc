// Namespaces whose items are stored before they are there.
#include <gmock/gmock.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/items/item.h"
#include "core/items/namespace_path.h"
#include "core/storage/item_store.h"
#include "tests/contract/item_fixture.h"
#include "tests/contract/store_fixture.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;

constexpr std::int64_t kHour = std::int64_t{3600} * 1'000'000;

class ItemStagingContractTest : public ItemTest {
 protected:
  StagedNamespace MustStage(const NamespaceKey& key = kKey, std::int64_t now_us = kNow) {
    const auto staged = items().StageNamespace(key, now_us);
    EXPECT_TRUE(staged.ok()) << staged.status();
    EXPECT_TRUE(staged.ok() && staged->has_value());
    return staged.value_or(std::nullopt).value_or(StagedNamespace());
  }
  static Item Stored(const std::string& key, std::int64_t version, std::string value = "1") {
    Item item;
    item.key = key;
    item.version = version;
    item.create_us = kNow - 70;
    item.update_us = kNow - 50;
    item.content = JsonContent(std::move(value));
    return item;
  }
  bool Stage(const StagedNamespace& staged, const std::vector<Item>& given,
             std::int64_t now_us = kNow) {
    const auto stored = items().StageItems(staged, given, now_us);
    EXPECT_TRUE(stored.ok()) << stored.status();
    return stored.value_or(false);
  }
  bool Publish(const StagedNamespace& staged, NamespaceRow row = {}) {
    row.version = staged.first_version + 100;
    const auto published = items().PublishNamespace(staged, row);
    EXPECT_TRUE(published.ok()) << published.status();
    return published.value_or(false);
  }
};

TEST_P(ItemStagingContractTest, WhatIsStagedIsThereWhenItIsPublished) {
  const StagedNamespace staged = MustStage();
  const std::int64_t first = staged.first_version;
  Item whole = Stored("b", first + 2, std::string(20'000, ' ') + "2");
  whole.expire_us = kNow + 500;
  whole.ttl_us = 900;
  whole.content.search = R"(["a"])";
  whole.content.vector = {1.5F, -2};
  whole.content.writer = "somebody";
  whole.content.untrusted = true;
  EXPECT_TRUE(Stage(staged, {Stored("c", first), Stored("a", first + 1), whole}));
  EXPECT_FALSE(Row().has_value());
  EXPECT_FALSE(Read("b").has_value());
  NamespaceRow row{.vector_size = 2,
                   .ttl_us = 77,
                   .create_us = kNow - 100,
                   .update_us = kNow - 50,
                   .subject = "ada",
                   .config = "{}"};
  EXPECT_TRUE(Publish(staged, row));
  EXPECT_EQ(Read("b"), whole);
  EXPECT_THAT(ListKeys({.order = ItemListOrder::kOldestFirst, .max_items = 2}),
              ElementsAre("c", "a", "b"));
  const NamespaceRow made = Row().value_or(NamespaceRow());
  EXPECT_EQ(made.item_count, 3);
  EXPECT_EQ(made.version, first + 100);
  EXPECT_EQ(made.config_version, made.version);
  row.generation = staged.generation;
  row.version = row.config_version = made.version;
  row.item_count = 3;
  row.item_bytes = made.item_bytes;
  EXPECT_EQ(made, row);
  EXPECT_GT(MustWrite(Batch({Put("d")}))[0].version, made.version);
  EXPECT_EQ(Row()->item_count, 4);
  EXPECT_EQ(items().ReadItemUsage("tenant")->items, 4);
}

TEST_P(ItemStagingContractTest, TheLaterOfTwoItemsWithOneKeyHolds) {
  const StagedNamespace staged = MustStage();
  EXPECT_TRUE(Stage(staged, {Stored("a", staged.first_version, std::string(9'000, ' ') + "1"),
                             Stored("b", staged.first_version + 1)}));
  const Item later = Stored("a", staged.first_version + 2, "22");
  EXPECT_TRUE(Stage(staged, {later}));
  EXPECT_TRUE(Publish(staged));
  EXPECT_EQ(Read("a"), later);
  EXPECT_EQ(Row()->item_count, 2);
  EXPECT_EQ(Row()->item_bytes, CountedBytes("a", later.content) + 2);
  EXPECT_THAT(ListKeys({.order = ItemListOrder::kOldestFirst, .max_items = 9}),
              ElementsAre("b", "a"));
}

TEST_P(ItemStagingContractTest, ANamespaceThatIsThereIsLeftAlone) {
  MustWrite(Batch({Put("own")}));
  EXPECT_FALSE(items().StageNamespace(kKey, kNow).value().has_value());
  const NamespaceKey other = Key({"other"});
  const StagedNamespace staged = MustStage(other);
  EXPECT_TRUE(Stage(staged, {Stored("a", staged.first_version)}));
  MustWrite(Batch({Put("own")}, other));
  EXPECT_FALSE(Publish(staged));
  EXPECT_TRUE(Read("own", kNow, other).has_value());
  EXPECT_FALSE(Read("a", kNow, other).has_value());
  EXPECT_EQ(Row(other)->item_count, 1);
  // It was given up.
  EXPECT_FALSE(Stage(staged, {Stored("b", staged.first_version + 1)}));
  EXPECT_GE(Purge(kNow), 1);
}

TEST_P(ItemStagingContractTest, OneThatWasThereMeanwhileIsNotMadeUpFor) {
  const StagedNamespace staged = MustStage();
  EXPECT_TRUE(Stage(staged, {Stored("a", staged.first_version)}));
  MustWrite(Batch({Put("a")}), kNow + 5);
  ASSERT_TRUE(items().DeleteNamespace(kKey, {.forget = true}, kNow + 10).ok());
  EXPECT_FALSE(Publish(staged));
  EXPECT_FALSE(Row().has_value());
  // None of its versions comes again.
  const StagedNamespace again = MustStage();
  EXPECT_GT(again.first_version, kNow + 5);
  EXPECT_TRUE(Publish(again));
}

TEST_P(ItemStagingContractTest, WhatIsGivenUpIsPurged) {
  const StagedNamespace staged = MustStage();
  EXPECT_TRUE(Stage(staged, {Stored("a", staged.first_version)}));
  EXPECT_TRUE(items().DropNamespace(staged).ok());
  EXPECT_FALSE(Publish(staged));
  EXPECT_FALSE(Stage(staged, {Stored("b", staged.first_version + 1)}));
  EXPECT_TRUE(items().DropNamespace(staged).ok());
  Purge(kNow);
  EXPECT_EQ(Purge(kNow), 0);
  EXPECT_EQ(items().ReadItemUsage("tenant").value(), ItemUsage());
}

TEST_P(ItemStagingContractTest, WhatNobodyGoesOnWithIsPurgedAfterAnHour) {
  const StagedNamespace staged = MustStage();
  const std::int64_t later = kNow + kHour / 2;
  EXPECT_TRUE(Stage(staged, {Stored("a", staged.first_version)}, later));
  Purge(later + kHour - 2'000'000);
  EXPECT_TRUE(Stage(staged, {Stored("b", staged.first_version + 1)}, later)) << "it was kept";
  EXPECT_GE(Purge(later + kHour + 2'000'000), 2);
  EXPECT_EQ(Purge(later + kHour + 2'000'000), 0);
  EXPECT_FALSE(Stage(staged, {Stored("c", staged.first_version + 2)}, later));
  EXPECT_FALSE(Publish(staged));
  EXPECT_FALSE(Row().has_value());
}

TEST_P(ItemStagingContractTest, WhatExpiresBeforeItIsPublishedIsNotCountedForEver) {
  const StagedNamespace staged = MustStage();
  Item expiring = Stored("a", staged.first_version);
  expiring.expire_us = kNow + 5;
  EXPECT_TRUE(Stage(staged, {expiring, Stored("b", staged.first_version + 1)}));
  Purge(kNow + 10);
  EXPECT_TRUE(Publish(staged));
  EXPECT_EQ(Row()->item_count, 1);
  EXPECT_THAT(ListKeys({.max_items = 9}, kNow + 10), ElementsAre("b"));
}

TEST_P(ItemStagingContractTest, OfTwoThatArePublishedAtOnceOneIsThere) {
  for (int i = 0; i < 20; ++i) {
    const NamespaceKey key = Key({"n", std::to_string(i)});
    const std::vector<StagedNamespace> staged = {MustStage(key), MustStage(key)};
    for (const std::size_t who : {0U, 1U}) {
      EXPECT_TRUE(Stage(staged[who], {Stored(std::to_string(who), staged[who].first_version)}));
    }
    std::vector<char> published(2);
    std::vector<std::thread> threads;
    for (const std::size_t who : {0U, 1U}) {
      threads.emplace_back([&, who] { published[who] = Publish(staged[who]) ? 1 : 0; });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(published[0] + published[1], 1);
    for (const std::size_t who : {0U, 1U}) {
      EXPECT_EQ(Read(std::to_string(who), kNow, key).has_value(), published[who] != 0);
    }
    EXPECT_EQ(Row(key)->item_count, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, ItemStagingContractTest, ::testing::ValuesIn(AllStores()),
                         StoreCaseName);

}  // namespace
}  // namespace memoryd
