// Named statements where somebody else has a hand in what is prepared, as behind a pooler.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/items/namespace_path.h"
#include "core/storage/item_batch.h"
#include "core/storage/postgres/batch_connection.h"
#include "core/storage/postgres/batch_statement.h"
#include "core/storage/postgres/call_timer.h"
#include "core/storage/postgres/connection_settings.h"
#include "core/storage/postgres/item_statement.h"
#include "core/storage/postgres/pg_test_support.h"
#include "core/storage/postgres/query_connection.h"
#include "core/storage/postgres/statement_names.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"

namespace memoryd {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr Query kSessions{"test_sessions",
                          "SELECT session FROM memoryd_sessions WHERE tenant = $1"};

constexpr int kNames = BatchConnection::kMaxPlans;

// A statement of any text and shape.
class TextStatement final : public ShapedStatement {
 public:
  TextStatement(std::string sql, std::size_t shape) : sql_(std::move(sql)) {
    shape_.rows = {shape};
  }
  std::string Sql() const override { return sql_; }

 private:
  const std::string sql_;
};

class StatementNamesPgTest : public ::testing::Test {
 protected:
  explicit StatementNamesPgTest(Pooling pooling = Pooling::kNamed) {
    StoreOptions options = database_.Options();
    options.transaction_pooling = pooling;
    options.warn = [this](const std::string& line) { lines_.push_back(line); };
    settings_ = MakeConnectionSettings(options).value();
    store_ = database_.Open(options);
    batches_ = BatchConnection::Connect(settings_).value();
  }

  static Deadline Soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(20); }

  BatchReply::Kind Execute(const SessionChange& change) {
    const SessionChange* const changes[] = {&change};
    return batches_->Execute(BatchStatement(changes, batches_->texts()), Soon()).kind;
  }
  BatchReply::Kind Execute(const std::string& sql, std::size_t shape) {
    return batches_->Execute(TextStatement(sql, shape), Soon()).kind;
  }
  // The next message of the session, which has one after the first call.
  BatchReply::Kind Put() {
    change_ = change_.row.revision == 0 ? CreateChange("s", 1) : NextChange(change_, 1);
    return Execute(change_);
  }
  std::string NameOf(const SessionChange& change) {
    const SessionChange* const changes[] = {&change};
    const BatchStatement statement(changes, batches_->texts());
    return StatementName(statement.Sql(), statement.types());
  }
  // Of the batches' connection: how many statements are prepared there whose names begin so.
  int Prepared(const std::string& name = "memoryd_") {
    return batches_
        ->Execute("SELECT 1 FROM pg_prepared_statements WHERE starts_with(name, $1)",
                  std::vector<std::string>{name}, Soon())
        .rows;
  }
  std::size_t Stored() {
    const auto loaded = store_->LoadSession(change_.key, kAllActive);
    return loaded.ok() && loaded->has_value() ? (*loaded)->active.size() : 0;
  }
  void Run(const std::string& sql) {
    ASSERT_NE(batches_->Execute(sql.c_str(), {}, Soon()).kind, BatchReply::Kind::kError);
  }

  TestDatabase database_;
  std::vector<std::string> lines_;
  ConnectionSettings settings_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<BatchConnection> batches_;
  SessionChange change_;
};

class DirectStatementNamesPgTest : public StatementNamesPgTest {
 protected:
  DirectStatementNamesPgTest() : StatementNamesPgTest(Pooling::kNone) {}
};

TEST_F(StatementNamesPgTest, ABatchIsPreparedUnderTheNameOfItsText) {
  for (int i = 0; i < 4; ++i) ASSERT_EQ(Put(), BatchReply::Kind::kDone);
  EXPECT_EQ(Prepared(), 1);
  EXPECT_EQ(Prepared(NameOf(change_)), 1);
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(StatementNamesPgTest, ABatchWhoseNameIsLostIsDoneWithoutOne) {
  for (int i = 0; i < 4; ++i) ASSERT_EQ(Put(), BatchReply::Kind::kDone);
  Run("DEALLOCATE ALL");
  EXPECT_EQ(Put(), BatchReply::Kind::kDone);
  EXPECT_EQ(Stored(), 5U);
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("26000")));
  // So are all others, of other connections too.
  auto other = BatchConnection::Connect(settings_).value();
  batches_.swap(other);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(Put(), BatchReply::Kind::kDone);
  EXPECT_EQ(Prepared(), 0);
  EXPECT_EQ(Stored(), 9U);
  EXPECT_THAT(lines_, SizeIs(1));
}

TEST_F(StatementNamesPgTest, WhatHasNoNameIsCounted) {
  for (int i = 0; i < 4; ++i) ASSERT_EQ(Put(), BatchReply::Kind::kDone);
  // Shapes that came for the first time.
  const std::int64_t before = settings_.names->unnamed();
  ASSERT_EQ(Put(), BatchReply::Kind::kDone);
  EXPECT_EQ(settings_.names->unnamed(), before);
  Run("DEALLOCATE ALL");
  for (int i = 0; i < 2; ++i) ASSERT_EQ(Put(), BatchReply::Kind::kDone);
  EXPECT_EQ(settings_.names->unnamed(), before + 2);
}

TEST_F(StatementNamesPgTest, ABatchWhoseNameIsTakenIsDoneWithoutOne) {
  ASSERT_EQ(Put(), BatchReply::Kind::kDone);
  Run(fmt::format("PREPARE {} AS SELECT 1", NameOf(change_)));
  for (int i = 0; i < 3; ++i) ASSERT_EQ(Put(), BatchReply::Kind::kDone);
  EXPECT_EQ(Stored(), 4U);
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("42P05")));
}

TEST_F(StatementNamesPgTest, BehindAPoolerAllAreOfFewTextsAndStayPrepared) {
  std::set<std::string> names;
  for (int messages = 1; messages <= 100; ++messages) {
    for (int requests = 0; requests < 2; ++requests) {
      SessionChange change = CreateChange(fmt::format("s{}-{}", messages, requests), messages);
      if (requests > 0) change.requests = {{"r", std::string(32, 'f'), "reply", 1}};
      for (int i = 0; i < 2; ++i) {
        change.key.session += "+";
        ASSERT_EQ(Execute(change), BatchReply::Kind::kDone);
      }
      names.insert(NameOf(change));
      ASSERT_EQ(Prepared(NameOf(change)), 1);
    }
  }
  // Lists of up to 8 messages, and arrays.
  EXPECT_THAT(names, SizeIs(2 * 8 + 1));
  EXPECT_EQ(Prepared(), std::ssize(names));
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(StatementNamesPgTest, BehindAPoolerArraysWriteWhatListsDo) {
  for (int parts = 0; parts < 4; ++parts) {
    SessionChange change = CreateChange(fmt::format("s{}", parts), 9);
    change.row.pinned = {1, 3};
    ASSERT_EQ(Execute(change), BatchReply::Kind::kDone);
    change = NextChange(change, 1);
    if (parts & 1) {
      change.erase = {{1, 2}, {4, 6}};
      change.garbage = {{77, 1, 5}};
      change.forget_requests_before_us = 5;
    }
    if (parts & 2) change.cancel_jobs_of = 7;
    change.requests = {{"r", std::string(32, 'f'), "reply", 1}, {"q", "f", "", 1}};
    ASSERT_EQ(Execute(change), BatchReply::Kind::kDone) << parts;
    const auto loaded = store_->LoadSession(change.key, kAllActive);
    ASSERT_TRUE(loaded.ok() && loaded->has_value());
    EXPECT_THAT((*loaded)->row.pinned, ElementsAre(1, 3));
    EXPECT_EQ(
        database_.Run(fmt::format("SELECT 1 FROM memoryd_messages WHERE session = 's{}'", parts))
            .size(),
        parts & 1 ? 7 : 10);
    EXPECT_EQ(
        database_.Run(fmt::format("SELECT 1 FROM memoryd_garbage WHERE session = 's{}'", parts))
            .size(),
        parts & 1 ? 2 : 0);
  }
}

// With what is set for a pooler's role.
TEST_F(StatementNamesPgTest, BehindAPoolerRowsOfArraysAreReachedByTheirKeys) {
  SessionChange change = CreateChange("s", 9);
  change.erase = {{1, 2}};
  change.cancel_jobs_of = 7;
  const SessionChange* const changes[] = {&change};
  const BatchStatement statement(changes, Texts::kBounded);
  std::string types, arguments;
  for (const unsigned type : statement.types()) {
    const std::string comma = types.empty() ? "" : ", ";
    types += comma + database_.Run(fmt::format("SELECT {}::regtype", type))[0][0].c_str();
    arguments += comma + "NULL";
  }
  database_.Run("SET plan_cache_mode = force_generic_plan");
  for (const char* const way : {"bitmapscan", "seqscan", "hashjoin", "mergejoin"}) {
    database_.Run(fmt::format("SET enable_{} = off", way));
  }
  database_.Run(fmt::format("PREPARE asked ({}) AS {}", types, statement.Sql()));
  std::string plan;
  for (const auto row : database_.Run(fmt::format("EXPLAIN EXECUTE asked ({})", arguments))) {
    plan += row[0].c_str() + std::string("\n");
  }
  EXPECT_THAT(plan, AllOf(HasSubstr("Delete on memoryd_messages"), HasSubstr("Index Cond:"),
                          Not(HasSubstr("Seq Scan")), Not(HasSubstr("Bitmap"))));
}

TEST_F(StatementNamesPgTest, BehindAPoolerItemsAreOfFewTextsToo) {
  std::set<std::string> names;
  for (std::size_t writes = 1; writes <= 20; ++writes) {
    const std::vector<std::string> path = {"a"};
    ItemBatch batch{.key = {"t", NamespacePath::Make(FieldPath(), "namespace", path).value()}};
    for (std::size_t i = 0; i < writes; ++i) {
      batch.writes.push_back({.key = fmt::format("k{}", i), .content = ItemContent()});
    }
    const ItemBatch* const batches[] = {&batch};
    const ItemStatement statement(batches, 5, 7, batches_->texts());
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(batches_->Execute(statement, Soon()).kind, BatchReply::Kind::kDone);
    }
    names.insert(StatementName(statement.Sql(), statement.types()));
  }
  EXPECT_THAT(names, SizeIs(2));
  EXPECT_EQ(Prepared(), 2);
}

TEST_F(StatementNamesPgTest, WhatHasNoRoomAmongTheNamesIsDoneWithoutOne) {
  for (std::size_t i = 0; i < 2 * kNames; ++i) {
    for (int turn = 0; turn < 2; ++turn) {
      ASSERT_EQ(Execute(fmt::format("SELECT {}", i), i), BatchReply::Kind::kDone);
    }
  }
  EXPECT_EQ(Prepared(), kNames);
  EXPECT_EQ(Prepared(StatementName("SELECT 0")), 1);
  EXPECT_EQ(Prepared(StatementName(fmt::format("SELECT {}", 2 * kNames - 1))), 0);
}

TEST_F(StatementNamesPgTest, ShapesOfOneTextShareItsName) {
  for (int turn = 0; turn < 3; ++turn) {
    for (std::size_t shape = 0; shape < 3; ++shape) {
      ASSERT_EQ(Execute("SELECT 1", shape), BatchReply::Kind::kDone);
    }
  }
  EXPECT_EQ(Prepared(), 1);
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(DirectStatementNamesPgTest, ANameThatOneOfItsShapesKeepsIsNotForgotten) {
  for (std::size_t shape = 1; shape <= 2; ++shape) {
    for (int turn = 0; turn < 2; ++turn) {
      ASSERT_EQ(Execute("SELECT 1", shape), BatchReply::Kind::kDone);
    }
  }
  for (std::size_t i = 10; i < 9 + kNames; ++i) {
    ASSERT_EQ(Execute(fmt::format("SELECT {}", i), i), BatchReply::Kind::kDone);
  }
  EXPECT_EQ(Prepared(), 1);
  ASSERT_EQ(Execute("SELECT 1", 2), BatchReply::Kind::kDone);
  EXPECT_THAT(lines_, IsEmpty());
}

// A pooler that nobody has told of.
TEST_F(DirectStatementNamesPgTest, ANameThatIsLostBeforeItIsForgottenEndsNoConnection) {
  for (std::size_t i = 0; i < kNames; ++i) {
    for (int turn = 0; turn < 2; ++turn) {
      ASSERT_EQ(Execute(fmt::format("SELECT {}", i), i), BatchReply::Kind::kDone);
    }
  }
  Run("DEALLOCATE ALL");
  EXPECT_EQ(Execute("SELECT -1", kNames), BatchReply::Kind::kDone);
  EXPECT_TRUE(batches_->usable());
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("26000")));
}

TEST_F(DirectStatementNamesPgTest, AStatementWhoseColumnsHaveChangedIsPreparedAgainInTime) {
  const std::string all = "SELECT * FROM changed";
  database_.Run("CREATE TABLE changed (a bigint)");
  for (int i = 0; i < 2; ++i) ASSERT_EQ(Execute(all, 1), BatchReply::Kind::kDone);
  database_.Run("ALTER TABLE changed ALTER a TYPE text");
  ASSERT_EQ(Execute(all, 1), BatchReply::Kind::kDone);
  for (std::size_t i = 10; i < 10 + kNames; ++i) {
    ASSERT_EQ(Execute(fmt::format("SELECT {}", i), i), BatchReply::Kind::kDone);
  }
  EXPECT_EQ(Prepared(), 0);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(Execute(all, 1), BatchReply::Kind::kDone);
  EXPECT_EQ(Prepared(), 1);
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(DirectStatementNamesPgTest, TheLastUsedArePrepared) {
  std::vector<SessionChange> changes;
  for (int messages = 1; messages <= kNames; ++messages) {
    changes.push_back(CreateChange(fmt::format("s{}", messages), messages));
  }
  changes.push_back(CreateChange("r", 1));
  changes.back().requests = {{"r", std::string(32, 'f'), "reply", 1}};
  for (SessionChange& change : changes) {
    for (int i = 0; i < 2; ++i) {
      change.key.session += "+";
      ASSERT_EQ(Execute(change), BatchReply::Kind::kDone);
    }
  }
  EXPECT_EQ(Prepared(), kNames);
  EXPECT_EQ(Prepared(NameOf(changes.front())), 0);
  EXPECT_EQ(Prepared(NameOf(changes.back())), 1);
}

TEST_F(StatementNamesPgTest, AQueryWhoseNameIsLostOrTakenIsRunWithoutOne) {
  CallTimer timer;
  ASSERT_EQ(Put(), BatchReply::Kind::kDone);
  const std::string name = StatementName(kSessions.sql);
  const std::string taken = fmt::format("PREPARE {} AS SELECT 1", name);
  for (const std::string& before : {std::string("SELECT 1"), taken}) {
    lines_.clear();
    settings_.names = std::make_shared<StatementNames>(
        Pooling::kNamed, [this](const std::string& line) { lines_.push_back(line); });
    const auto queries = QueryConnection::Connect(settings_, timer).value();
    ASSERT_TRUE(queries->RunText(before, Soon()).ok());
    for (int i = 0; i < 4; ++i) {
      const auto found = queries->Run(kSessions, std::vector<std::string>{"t"}, Soon());
      ASSERT_TRUE(found.ok()) << found.status();
      ASSERT_EQ(found->size(), 1);
      EXPECT_EQ(found->Text(0, 0), "s");
      if (i == 1 && before != taken) {
        ASSERT_TRUE(queries->RunText("DEALLOCATE ALL", Soon()).ok());
      }
    }
    EXPECT_TRUE(queries->usable());
    EXPECT_THAT(lines_, ElementsAre(HasSubstr(before == taken ? "42P05" : "26000")));
  }
}

TEST_F(StatementNamesPgTest, AQueryThatFailsKeepsItsName) {
  constexpr Query kDivide{"test_divide", "SELECT 1 / $1::bigint"};
  CallTimer timer;
  const auto queries = QueryConnection::Connect(settings_, timer).value();
  EXPECT_FALSE(queries->Run(kDivide, std::vector<std::string>{"0"}, Soon()).ok());
  EXPECT_TRUE(queries->Run(kDivide, std::vector<std::string>{"1"}, Soon()).ok());
  EXPECT_TRUE(queries->usable());
  EXPECT_EQ(queries->RunText("SELECT 1 FROM pg_prepared_statements", Soon())->size(), 1);
}

// PgBouncer ends the connection of a client that prepares a name again.
TEST_F(StatementNamesPgTest, WhatCouldNotBePreparedIsNotPreparedAgain) {
  CallTimer timer;
  const auto queries = QueryConnection::Connect(settings_, timer).value();
  database_.Run("ALTER TABLE memoryd_sessions RENAME TO away");
  EXPECT_FALSE(queries->Run(kSessions, std::vector<std::string>{"t"}, Soon()).ok());
  database_.Run("ALTER TABLE away RENAME TO memoryd_sessions");
  EXPECT_TRUE(queries->Run(kSessions, std::vector<std::string>{"t"}, Soon()).ok());
  EXPECT_EQ(queries->RunText("SELECT 1 FROM pg_prepared_statements", Soon())->size(), 0);
  EXPECT_TRUE(queries->usable());

  const std::string refused = "SELECT 1 FROM late";
  for (int i = 0; i < 2; ++i) ASSERT_EQ(Execute(refused, 1000), BatchReply::Kind::kError);
  for (std::size_t i = 0; i < 2 * kNames; ++i) {
    ASSERT_EQ(Execute(fmt::format("SELECT {}", i), i), BatchReply::Kind::kDone);
  }
  database_.Run("CREATE TABLE late (a bigint)");
  for (int i = 0; i < 3; ++i) ASSERT_EQ(Execute(refused, 1000), BatchReply::Kind::kDone);
  EXPECT_EQ(Prepared(), 0);
  EXPECT_TRUE(batches_->usable());
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(StatementNamesPgTest, AConnectionOnWhichPreparingCameTooEarlyIsNotUsedAgain) {
  CallTimer timer;
  const auto queries = QueryConnection::Connect(settings_, timer).value();
  auto holder = QueryConnection::Connect(settings_, timer).value();
  ASSERT_TRUE(queries->RunText("SET lock_timeout = 50", Soon()).ok());
  ASSERT_EQ(Put(), BatchReply::Kind::kDone);
  Run("SET lock_timeout = 50");
  ASSERT_TRUE(holder->Begin(Soon()).ok());
  ASSERT_TRUE(holder->RunText("LOCK TABLE memoryd_sessions", Soon()).ok());
  EXPECT_FALSE(queries->Run(kSessions, std::vector<std::string>{"t"}, Soon()).ok());
  EXPECT_EQ(queries->sqlstate(), "55P03");
  EXPECT_EQ(Put(), BatchReply::Kind::kError);
  holder->Rollback(Soon());
  EXPECT_FALSE(queries->usable());
  EXPECT_FALSE(batches_->usable());
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(StatementNamesPgTest, AStatementWhoseColumnsHaveChangedLosesItsNameAlone) {
  constexpr Query kAll{"test_all", "SELECT * FROM changed"};
  CallTimer timer;
  const auto queries = QueryConnection::Connect(settings_, timer).value();
  database_.Run("CREATE TABLE changed (a bigint)");
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(queries->Run(kAll, {}, Soon()).ok());
    EXPECT_EQ(Execute(kAll.sql, 1), BatchReply::Kind::kDone);
  }
  database_.Run("ALTER TABLE changed ALTER a TYPE text");
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(queries->Run(kAll, {}, Soon()).ok());
    EXPECT_EQ(Execute(kAll.sql, 1), BatchReply::Kind::kDone);
    EXPECT_TRUE(queries->Run(kSessions, std::vector<std::string>{"t"}, Soon()).ok());
    EXPECT_EQ(Execute("SELECT 1", 2), BatchReply::Kind::kDone);
  }
  EXPECT_EQ(Prepared(StatementName("SELECT 1")), 1);
  EXPECT_EQ(queries->RunText("SELECT 1 FROM pg_prepared_statements", Soon())->size(), 2);
  EXPECT_THAT(lines_, IsEmpty());
}

}  // namespace
}  // namespace memoryd
