// What becomes of writes to namespaces when a standby lacks them, and of those that meet locks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/items/item.h"
#include "core/items/namespace_path.h"
#include "core/storage/item_batch.h"
#include "core/storage/item_store.h"
#include "core/storage/postgres/pg_test_support.h"
#include "core/storage/stores.h"

namespace memoryd {
namespace {

constexpr std::int64_t kNow = 1'000'000;

class NamespaceWriterTest : public ::testing::Test {
 protected:
  NamespaceWriterTest() {
    StoreOptions options = database_.Options();
    options.timeout_ms = 4000;
    store_ = database_.Open(options);
  }

  ItemStore& items() { return store_->Items(); }
  static NamespaceKey Key(const std::vector<std::string>& names) {
    return {"t", NamespacePath::Make(FieldPath(), "namespace", names).value()};
  }
  void Put(const std::string& key, std::int64_t ttl_us) {
    ItemBatch batch{.key = Key({"n"})};
    ItemWrite& write = batch.writes.emplace_back();
    write.key = key;
    write.content.emplace().value = "1";
    write.ttl_us = ttl_us;
    EXPECT_EQ(items().WriteItems({&batch, 1}, kNow).front().outcome, ItemBatchOutcome::kWritten);
  }
  Item Stored(const std::string& key) {
    const ItemKey item{Key({"n"}), key};
    return items().ReadItems({&item, 1}, kNow, false, 1'000).value().front().value_or(Item());
  }
  // Every change of a namespace ends with a warning, as one whose wait for a standby was cancelled.
  void Warn() {
    database_.Run(
        "CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN RAISE WARNING 'not replicated'; RETURN NULL; END$$; "
        "CREATE TRIGGER warn AFTER INSERT OR UPDATE OR DELETE ON memoryd_namespaces "
        "EXECUTE FUNCTION warn()");
  }
  // When the statement began that waits for a lock, empty when none does.
  std::string Waiting() {
    const auto found = database_.Run(
        "SELECT query_start FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock'");
    return found.empty() ? "" : found[0][0].as<std::string>();
  }

  TestDatabase database_;
  std::unique_ptr<Store> store_;
};

TEST_F(NamespaceWriterTest, AChangeThatAStandbyMayLackIsNotAcknowledged) {
  ASSERT_TRUE(items().WriteNamespace(Key({"n"}), {}, kNow).value());
  const NamespaceKey key = Key({"n"});
  const std::int64_t version =
      items().FindNamespaces({&key, 1}).value().front().value_or(NamespaceRow()).config_version;
  Warn();
  const auto made = items().WriteNamespace(Key({"other"}), {}, kNow);
  EXPECT_EQ(ErrorReason(made.status()), "OUTCOME_UNKNOWN") << made.status();
  const auto changed =
      items().WriteNamespace(key, {.expected_config_version = version, .ttl_us = 5}, kNow);
  EXPECT_EQ(ErrorReason(changed.status()), "OUTCOME_UNKNOWN") << changed.status();
  const auto deleted = items().DeleteNamespace(key, {}, kNow);
  EXPECT_EQ(ErrorReason(deleted.status()), "OUTCOME_UNKNOWN") << deleted.status();
}

// Its commit waits for the standby, and with it for the deletion before it.
TEST_F(NamespaceWriterTest, ADeletionThatFindsNothingIsACommit) {
  EXPECT_FALSE(items().DeleteNamespace(Key({"n"}), {}, kNow)->existed);
  EXPECT_EQ(database_.Run("SELECT count(*) FROM memoryd_item_garbage")[0][0].as<int>(), 1);
  EXPECT_TRUE(items().PurgeItems(kNow, 0, 100).ok());
  EXPECT_EQ(database_.Run("SELECT count(*) FROM memoryd_item_garbage")[0][0].as<int>(), 0);
}

TEST_F(NamespaceWriterTest, ADeletionGoesByTheSubjectThatItWaitedFor) {
  ASSERT_TRUE(items().WriteNamespace(Key({"n"}), {.subject = "ada"}, kNow).value());
  Put("k", 0);
  pqxx::connection other(database_.Url());
  pqxx::work work(other);
  work.exec("UPDATE memoryd_namespaces SET subject = 'bob'");
  auto deleted = std::async(std::launch::async, [&] {
    return items().DeleteNamespace(Key({"n"}), {.forget = true, .subject = "ada"}, kNow);
  });
  while (Waiting().empty() &&
         deleted.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
  }
  work.commit();
  const auto said = deleted.get();
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_FALSE(said->existed);
  EXPECT_TRUE(said->of_other);
  EXPECT_EQ(Stored("k").key, "k");
}

TEST_F(NamespaceWriterTest, ATtlBeginsAgainThoughAnotherWriteHeldTheItemForLong) {
  Put("k", 1'000'000);
  pqxx::connection other(database_.Url());
  pqxx::work work(other);
  work.exec("UPDATE memoryd_items SET bytes = bytes");
  const ItemTouch touch{{Key({"n"}), "k"}, Stored("k").version, kNow + 5'000'000};
  auto touched = std::async(std::launch::async, [&] { return items().TouchItems({&touch, 1}); });
  const auto has_ended = [&] {
    return touched.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  std::string first;
  while (first.empty() && !has_ended()) first = Waiting();
  // The server gives a lock an eighth of the store's timeout.
  for (std::string now = first; (now.empty() || now == first) && !has_ended();) now = Waiting();
  work.commit();
  EXPECT_TRUE(touched.get().ok());
  EXPECT_EQ(Stored("k").expire_us, kNow + 5'000'000);
}

}  // namespace
}  // namespace memoryd
