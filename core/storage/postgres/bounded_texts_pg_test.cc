// All texts that statements of batches may have behind a pooler, on one connection of PostgreSQL.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/items/namespace_path.h"
#include "core/storage/item_batch.h"
#include "core/storage/postgres/batch_connection.h"
#include "core/storage/postgres/batch_statement.h"
#include "core/storage/postgres/connection_settings.h"
#include "core/storage/postgres/item_statement.h"
#include "core/storage/postgres/pg_test_support.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"

namespace memoryd {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::SizeIs;

class BoundedTextsPgTest : public ::testing::Test {
 protected:
  BoundedTextsPgTest() {
    StoreOptions options = database_.Options();
    options.transaction_pooling = Pooling::kNamed;
    store_ = database_.Open(options);
    connection_ = BatchConnection::Connect(MakeConnectionSettings(options).value()).value();
    // As the pooler's role has it.
    Ask("SET plan_cache_mode = force_generic_plan");
  }

  static Deadline Soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(20); }

  std::vector<std::int64_t> Ask(const char* sql) {
    const BatchReply reply = connection_->Execute(sql, {}, Soon());
    EXPECT_EQ(reply.kind, BatchReply::Kind::kDone) << reply.said;
    return reply.numbers;
  }
  // So that it is prepared. Most have nothing to write to, or write again.
  void Send(const ShapedStatement& statement) {
    for (int i = 0; i < 2; ++i) {
      const BatchReply reply = connection_->Execute(statement, Soon());
      EXPECT_THAT(reply.sqlstate, AnyOf("", "22012", "23505")) << reply.said;
    }
  }
  void Send(const std::vector<SessionChange>& changes) {
    std::vector<const SessionChange*> pointers;
    for (const SessionChange& change : changes) pointers.push_back(&change);
    Send(BatchStatement(pointers, connection_->texts()));
  }
  void Send(const ItemBatch& batch) {
    const ItemBatch* const batches[] = {&batch};
    Send(ItemStatement(batches, 5, 7, connection_->texts()));
  }

  // Of a session of its own.
  SessionChange Change(bool appends, std::size_t messages, std::size_t requests) {
    SessionChange change =
        CreateChange(fmt::format("s{}", ++sessions_), static_cast<int>(messages));
    change.appends_only = appends;
    for (std::size_t i = 0; i < requests; ++i) {
      change.requests.push_back({fmt::format("r{}", i), std::string(32, 'f'), "reply", 1});
    }
    return change;
  }

  void SendSessions() {
    constexpr std::size_t kMost = BatchStatement::kFewRows;
    for (const bool appends : {false, true}) {
      for (std::size_t messages = 0; messages <= kMost; ++messages) {
        for (const std::size_t requests : {0U, 1U}) Send({Change(appends, messages, requests)});
      }
    }
    for (std::size_t count = 2; count <= kMost; ++count) {
      for (std::size_t messages = count; messages <= kMost; ++messages) {
        std::vector<SessionChange> changes = {Change(true, messages - count + 1, 1)};
        while (changes.size() < count) changes.push_back(Change(true, 1, 1));
        Send(changes);
      }
    }
  }
  void SendParts() {
    for (int parts = 0; parts < 4; ++parts) {
      for (const std::size_t appends : {0U, 1U, 2U}) {
        std::vector<SessionChange> changes;
        if (appends != 1) changes.push_back(Change(false, 9, 2));
        if (appends != 0) changes.push_back(Change(true, 9, 2));
        if ((parts & 1) != 0) changes.front().erase = {{1, 2}};
        if ((parts & 2) != 0) changes.front().cancel_jobs_of = 7;
        Send(changes);
      }
    }
  }

  void SendEach(ItemBatch batch, const std::vector<std::vector<ItemWrite>>& lists) {
    for (const std::vector<ItemWrite>& writes : lists) {
      batch.writes = writes;
      Send(batch);
    }
  }
  void SendItems() {
    const std::vector<std::string> path = {"a"};
    ItemBatch batch{.key = {"t", NamespacePath::Make(FieldPath(), "namespace", path).value()}};
    const auto put = [](std::optional<std::int64_t> expected) {
      return ItemWrite{.key = "k", .content = ItemContent(), .expected_version = expected};
    };
    const ItemWrite erased = {.key = "l"};
    const std::vector<std::optional<std::int64_t>> conditions = {std::nullopt, 3};
    for (const char* const subject : {"", "ada"}) {
      for (const char* const request : {"", "r"}) {
        batch.subject = subject;
        batch.request_id = request;
        for (const std::optional<std::int64_t>& expected : conditions) {
          ItemWrite conditional = erased;
          conditional.expected_version = expected;
          SendEach(batch, {{put(expected)},
                           {conditional},
                           {put(expected), put(expected)},
                           {put(expected), erased}});
        }
        SendEach(batch, {{erased, erased}});
      }
    }
  }

  TestDatabase database_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<BatchConnection> connection_;
  int sessions_ = 0;
};

TEST_F(BoundedTextsPgTest, AreTakenAndFitTheMemoryThatIsPlannedForThem) {
  SendSessions();
  SendParts();
  SendItems();

  constexpr std::int64_t kTexts = BatchStatement::kBoundedTexts + ItemStatement::kBoundedTexts;
  EXPECT_THAT(Ask("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'memoryd_%'"),
              ElementsAre(kTexts));
  // docs/STORES.md#behind-a-pooler plans 50 MB for these and for queries, which are small.
  const std::vector<std::int64_t> bytes =
      Ask("SELECT sum(total_bytes)::bigint FROM pg_backend_memory_contexts "
          "WHERE name LIKE 'CachedPlan%'");
  ASSERT_THAT(bytes, SizeIs(1));
  RecordProperty("bytes", std::to_string(bytes.front()));
  EXPECT_GT(bytes.front(), 1'000'000);
  EXPECT_LT(bytes.front(), 45'000'000);
}

}  // namespace
}  // namespace memoryd
