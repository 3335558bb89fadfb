// Named statements where somebody else has a hand in what is prepared, as behind a pooler.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/storage/postgres/batch_connection.h"
#include "core/storage/postgres/batch_statement.h"
#include "core/storage/postgres/call_timer.h"
#include "core/storage/postgres/connection_settings.h"
#include "core/storage/postgres/pg_test_support.h"
#include "core/storage/postgres/query_connection.h"
#include "core/storage/postgres/statement_names.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Query kSessions{"test_sessions",
                          "SELECT session FROM memoryd_sessions WHERE tenant = $1"};

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
    return batches_->Execute(BatchStatement(changes), Soon()).kind;
  }
  // The next message of the session, which has one after the first call.
  BatchReply::Kind Put() {
    change_ = change_.row.revision == 0 ? CreateChange("s", 1) : NextChange(change_, 1);
    return Execute(change_);
  }
  std::string NameOf(const SessionChange& change) {
    const SessionChange* const changes[] = {&change};
    const BatchStatement statement(changes);
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

TEST_F(StatementNamesPgTest, ABatchWhoseNameIsTakenIsDoneWithoutOne) {
  ASSERT_EQ(Put(), BatchReply::Kind::kDone);
  Run(fmt::format("PREPARE {} AS SELECT 1", NameOf(change_)));
  for (int i = 0; i < 3; ++i) ASSERT_EQ(Put(), BatchReply::Kind::kDone);
  EXPECT_EQ(Stored(), 4U);
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("42P05")));
}

TEST_F(StatementNamesPgTest, BehindAPoolerNoMoreThanSoManyAreEverPrepared) {
  constexpr int kNames = 128;
  std::vector<SessionChange> changes;
  for (int messages = 1; messages <= 100; ++messages) {
    for (int requests = 0; requests < 2; ++requests) {
      SessionChange change = CreateChange(fmt::format("s{}-{}", messages, requests), messages);
      if (requests > 0) change.requests = {{"r", std::string(32, 'f'), "reply", 1}};
      changes.push_back(change);
    }
  }
  for (SessionChange& change : changes) {
    for (int i = 0; i < 3; ++i) {
      change.key.session += "+";
      ASSERT_EQ(Execute(change), BatchReply::Kind::kDone);
    }
  }
  EXPECT_EQ(Prepared(), kNames);
  EXPECT_EQ(Prepared(NameOf(changes.front())), 1);
  EXPECT_EQ(Prepared(NameOf(changes.back())), 0);
}

TEST_F(DirectStatementNamesPgTest, TheLastUsedArePrepared) {
  std::vector<SessionChange> changes;
  for (int messages = 1; messages <= 128; ++messages) {
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
  EXPECT_EQ(Prepared(), 128);
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

// PgBouncer ends the connection of a client that prepares a name again.
TEST_F(StatementNamesPgTest, WhatCouldNotBePreparedIsNotPreparedAgain) {
  CallTimer timer;
  const auto queries = QueryConnection::Connect(settings_, timer).value();
  database_.Run("ALTER TABLE memoryd_sessions RENAME TO away");
  EXPECT_FALSE(queries->Run(kSessions, std::vector<std::string>{"t"}, Soon()).ok());
  database_.Run("ALTER TABLE away RENAME TO memoryd_sessions");
  EXPECT_TRUE(queries->Run(kSessions, std::vector<std::string>{"t"}, Soon()).ok());
  EXPECT_EQ(queries->RunText("SELECT 1 FROM pg_prepared_statements", Soon())->size(), 0);
  EXPECT_THAT(lines_, IsEmpty());

  ASSERT_EQ(Put(), BatchReply::Kind::kDone);
  database_.Run("ALTER TABLE memoryd_messages RENAME TO away");
  const SessionChange before = change_;
  EXPECT_EQ(Put(), BatchReply::Kind::kError);
  database_.Run("ALTER TABLE away RENAME TO memoryd_messages");
  change_ = before;
  for (int i = 0; i < 2; ++i) ASSERT_EQ(Put(), BatchReply::Kind::kDone);
  EXPECT_EQ(Prepared(), 0);
}

}  // namespace
}  // namespace memoryd
