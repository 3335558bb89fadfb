// Items, and writes of them, for the contract of the stores.
#ifndef MEMORYD_TESTS_CONTRACT_ITEM_FIXTURE_H_
#define MEMORYD_TESTS_CONTRACT_ITEM_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/field_path.h"
#include "core/storage/item_store.h"
#include "tests/contract/store_fixture.h"

namespace memoryd {

inline constexpr std::int64_t kNow = 1'795'000'000'000'000;
inline constexpr std::int64_t kMany = std::int64_t{64} << 20;

using Names = std::vector<std::string>;

inline NamespacePath Path(const Names& names) {
  return NamespacePath::MakePrefix(FieldPath(), "namespace", names).value();
}

inline NamespaceKey Key(const Names& names, std::string tenant = "tenant") {
  return {std::move(tenant), Path(names)};
}

inline const NamespaceKey kKey = Key({"users", "ada"});

inline ItemContent JsonContent(std::string value) {
  ItemContent content;
  content.value = std::move(value);
  return content;
}

inline ItemWrite Put(std::string key, std::string value = "{}") {
  return {.key = std::move(key), .content = JsonContent(std::move(value))};
}

inline ItemWrite Delete(std::string key) { return {.key = std::move(key)}; }

inline ItemWrite Expecting(ItemWrite write, std::int64_t version) {
  write.expected_version = version;
  return write;
}

inline ItemBatch Batch(std::vector<ItemWrite> writes, NamespaceKey key = kKey,
                       std::string request_id = "") {
  ItemBatch batch{.key = std::move(key), .writes = std::move(writes)};
  if (!request_id.empty()) batch.fingerprint = std::string(32, 'f');
  batch.request_id = std::move(request_id);
  return batch;
}

class ItemTest : public StoreTest {
 protected:
  ItemStore& items() { return store().Items(); }

  ItemBatchResult Write(const ItemBatch& batch, std::int64_t now_us = kNow) {
    return items().WriteItems({&batch, 1}, now_us).front();
  }
  std::vector<ItemWriteResult> MustWrite(const ItemBatch& batch, std::int64_t now_us = kNow) {
    const ItemBatchResult result = Write(batch, now_us);
    EXPECT_EQ(result.outcome, ItemBatchOutcome::kWritten) << result.status;
    return result.writes;
  }
  std::optional<Item> Read(const std::string& key, std::int64_t now_us = kNow,
                           const NamespaceKey& name_space = kKey) {
    const ItemKey item{name_space, key};
    const auto found = items().ReadItems({&item, 1}, now_us, /*with_vectors=*/true, kMany);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? found->front() : std::nullopt;
  }
  std::optional<NamespaceRow> Row(const NamespaceKey& key = kKey) {
    const auto found = items().FindNamespaces({&key, 1});
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? found->front() : std::nullopt;
  }
  ItemPage List(const ItemRange& range, std::int64_t now_us = kNow) {
    const auto page = items().ListItems(kKey, 0, range, now_us);
    EXPECT_TRUE(page.ok()) << page.status();
    return page.value_or(ItemPage());
  }
  // The keys of all pages.
  Names ListKeys(ItemRange range, std::int64_t now_us = kNow) {
    Names keys;
    for (;;) {
      const ItemPage page = List(range, now_us);
      for (const Item& item : page.items) keys.push_back(item.key);
      if (!page.more || page.items.empty()) return keys;
      range.after_key = page.items.back().key;
      range.after_version = page.items.back().version;
    }
  }
  std::int64_t Purge(std::int64_t now_us, std::int64_t keep_us = 0) {
    const auto rows = items().PurgeItems(now_us, keep_us, 100'000);
    EXPECT_TRUE(rows.ok()) << rows.status();
    return rows.value_or(-1);
  }
};

}  // namespace memoryd

#endif  // MEMORYD_TESTS_CONTRACT_ITEM_FIXTURE_H_
