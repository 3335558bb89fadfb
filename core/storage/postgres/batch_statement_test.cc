#include "core/storage/postgres/batch_statement.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <regex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/job.h"
#include "core/model/message.h"
#include "core/storage/postgres/batch_clauses.h"
#include "core/storage/postgres/batch_rows.h"
#include "core/storage/store.h"

namespace memoryd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

SessionChange Change(const std::string& session, int messages) {
  SessionChange change;
  change.key = {"t", session};
  for (int i = 0; i < messages; ++i) {
    MessageDraft message;
    message.position = i + 1;
    message.body = "body";
    change.messages.push_back(message);
  }
  return change;
}

// The highest $n of the text: every parameter sent must be used, and none besides.
std::size_t HighestParameter(const std::string& sql) {
  std::size_t highest = 0;
  for (std::size_t at = sql.find('$'); at != std::string::npos; at = sql.find('$', at + 1)) {
    highest = std::max(highest, static_cast<std::size_t>(std::stoul(sql.substr(at + 1))));
  }
  return highest;
}

// Which lists the change has beside its messages the bits of `parts` say.
SessionChange ChangeOfParts(int messages, int parts) {
  SessionChange change = Change("s", messages);
  if (parts & 1) change.requests.push_back({"r", "fingerprint", "reply", 5});
  if (parts & 2) change.garbage = {{1, 2, 3}};
  if (parts & 4) change.erase = {{1, 2}, {5, 6}};
  if (parts & 3) change.forget_requests_before_us = 5;
  if (parts & 6) change.erased_entries = {{7, {1, 2}}};
  if (parts & 8) change.blocks.resize(2);
  if (parts & 12) change.replaced = {MessageDraft()};
  if (parts & 10) change.replaced_contents = {ContentDraft()};
  if (parts & 16) change.jobs.resize(3);
  if (parts & 32) change.ended_jobs.resize(2);
  if (parts & 64) change.cancel_jobs_of = 7;
  if (parts & 128) {
    change.blocks.emplace_back().next = 2;
    change.blocks.emplace_back().next = 3;
  }
  return change;
}

TEST(BatchStatementTest, TheTextUsesEveryParameter) {
  for (const int messages : {0, 1, 3, 128, 129, 9000}) {
    // A change of thousands of messages has no other part, or all of them.
    const int step = messages > 1000 ? 255 : 1;
    for (int parts = 0; parts < 256; parts += step) {
      SessionChange change = ChangeOfParts(messages, parts);
      change.appends_only = parts % 3 == 0;
      const SessionChange* const changes[] = {&change};
      const BatchStatement statement(changes);
      EXPECT_EQ(HighestParameter(statement.Sql()), statement.values().size());
      EXPECT_EQ(statement.lengths().size(), statement.values().size());
      EXPECT_EQ(statement.types().size(), statement.values().size());
      EXPECT_LE(statement.values().size(), BatchStatement::kMaxParameters);
    }
  }
}

TEST(BatchStatementTest, TheShapeDecidesTheText) {
  const SessionChange one = Change("a", 1), two = Change("b", 2), other = Change("c", 2);
  const SessionChange* const first[] = {&one, &two};
  const SessionChange* const second[] = {&one, &other};
  const SessionChange* const third[] = {&two, &other};
  EXPECT_EQ(BatchStatement(first).shape(), BatchStatement(second).shape());
  EXPECT_EQ(BatchStatement(first).Sql(), BatchStatement(second).Sql());
  EXPECT_NE(BatchStatement(first).shape(), BatchStatement(third).shape());
  EXPECT_NE(BatchStatement(first).Sql(), BatchStatement(third).Sql());
}

TEST(BatchStatementTest, AnAppendUpdatesFewColumns) {
  SessionChange append = Change("a", 1), other = Change("b", 1);
  append.appends_only = true;
  const SessionChange* const one[] = {&append};
  EXPECT_THAT(
      BatchStatement(one).Sql(),
      AllOf(HasSubstr("UPDATE memoryd_sessions AS stored SET revision = given.revision,"),
            HasSubstr("FROM (VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)) AS given (tenant, "),
            HasSubstr("WITH advanced AS (UPDATE"), HasSubstr("previous_revision >= 0) = 1 THEN"),
            Not(HasSubstr("archived_count")), Not(HasSubstr("ON CONFLICT"))));
  const SessionChange* const both[] = {&append, &other};
  EXPECT_THAT(BatchStatement(both).Sql(),
              AllOf(HasSubstr("previous_revision >= 0) = 1 + 1 THEN"),
                    HasSubstr("FROM (SELECT previous_revision FROM won UNION ALL "
                              "SELECT previous_revision FROM advanced) AS changed")));
}

TEST(BatchStatementTest, ManyAppendsShareOneText) {
  std::vector<SessionChange> appends;
  for (int i = 0; i < 40; ++i) appends.push_back(Change(fmt::format("s{}", i), 1 + i % 3));
  std::vector<const SessionChange*> changes;
  for (SessionChange& append : appends) {
    append.appends_only = true;
    changes.push_back(&append);
  }
  const std::span<const SessionChange* const> all(changes);
  const BatchStatement forty(all), sixteen(all.first(BatchStatement::kArraysFrom)),
      fifteen(all.first(BatchStatement::kArraysFrom - 1));
  EXPECT_EQ(forty.shape(), sixteen.shape());
  EXPECT_EQ(forty.Sql(), sixteen.Sql());
  EXPECT_THAT(forty.Sql(), HasSubstr("previous_revision >= 0) = cardinality($1) THEN"));
  EXPECT_EQ(forty.values().size(), 21u);
  EXPECT_THAT(fifteen.Sql(), Not(HasSubstr("unnest")));
  // One that is not appended stands before them.
  appends[0].appends_only = false;
  EXPECT_THAT(BatchStatement(all).Sql(),
              HasSubstr("previous_revision >= 0) = 1 + cardinality($30) THEN"));
}

// What statements there are, by shape.
class KnownStatements {
 public:
  void Add(const BatchStatement& statement) {
    const auto [known, is_new] = texts_.try_emplace(statement.shape());
    if (!is_new) return;
    known->second = statement.Sql();
    EXPECT_EQ(HighestParameter(known->second), statement.values().size());
    EXPECT_EQ(statement.types().size(), statement.values().size());
    for (const unsigned type : statement.types()) known->second += fmt::format(" {}", type);
    EXPECT_TRUE(distinct_.insert(known->second).second) << "two shapes of " << known->second;
  }
  std::size_t size() const { return texts_.size(); }
  std::size_t unlisted() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(texts_, [](const auto& known) { return known.first.whole; }));
  }

 private:
  std::map<BatchShape, std::string> texts_;
  std::set<std::string> distinct_;
};

// Of `change` alone and among appends; `long_too`: also in long lists.
void AddStatements(const SessionChange& change, bool long_too, Texts texts,
                   KnownStatements& statements) {
  const auto add = [&](const std::vector<const SessionChange*>& changes) {
    statements.Add(BatchStatement(changes, texts));
  };
  add({&change});
  if (BatchStatement::NeedsArrays(change)) return;
  SessionChange append = Change("a", 1);
  append.requests.push_back({"r", "fingerprint", "reply", 5});
  append.appends_only = true;
  add({&append, &change});
  if (!long_too) return;
  add({&change, &change, &change});
  for (std::size_t others = 2; others < 20; ++others) {
    std::vector<const SessionChange*> changes(others, &append);
    changes.push_back(&change);
    add(changes);
  }
}

// Of up to ten messages and one large number, of any parts.
KnownStatements StatementsOfAll(Texts texts) {
  KnownStatements statements;
  const auto add_with = [&](int messages, int parts) {
    SessionChange change = ChangeOfParts(messages, parts);
    if (parts == 1) change.forget_requests_before_us = 0;
    for (const std::size_t requests : {0U, 1U, 2U}) {
      change.requests.assign(requests, {"r", "fingerprint", "reply", 5});
      for (const bool appends : {false, true}) {
        change.appends_only = appends;
        AddStatements(change, /*long_too=*/parts <= 3, texts, statements);
      }
    }
  };
  for (const int messages : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 129}) {
    // With few messages any parts, with more of them the parts one at a time.
    for (int parts = 0; parts < 256; ++parts) {
      if (messages <= 2 || (parts & (parts - 1)) == 0) add_with(messages, parts);
    }
  }
  return statements;
}

TEST(BatchStatementTest, AShapeHasATextOfItsOwn) {
  EXPECT_GT(StatementsOfAll(Texts::kExact).size(), 10 * BatchStatement::kBoundedTexts);
}

TEST(BatchStatementTest, WhereTextsAreBoundedThereAreNoMore) {
  const KnownStatements statements = StatementsOfAll(Texts::kBounded);
  EXPECT_EQ(BatchStatement::kBoundedTexts, 76U);
  EXPECT_EQ(statements.size(), BatchStatement::kBoundedTexts);
  EXPECT_EQ(statements.unlisted(), 12U);
}

TEST(BatchStatementTest, WhereTextsAreBoundedAShortListIsTheSame) {
  SessionChange append = Change("a", 1), nine = Change("b", BatchStatement::kFewRows + 1);
  append.requests.resize(1);
  append.appends_only = true;
  const auto sql = [](const std::vector<const SessionChange*>& changes, Texts texts) {
    return BatchStatement(changes, texts).Sql();
  };
  EXPECT_EQ(sql({&append}, Texts::kBounded), sql({&append}, Texts::kExact));
  EXPECT_THAT(sql({&nine}, Texts::kBounded), HasSubstr("unnest"));
  EXPECT_THAT(sql({&nine}, Texts::kExact), Not(HasSubstr("unnest")));
  // The rows of all changes count.
  std::vector<const SessionChange*> appends(BatchStatement::kFewRows, &append);
  EXPECT_EQ(sql(appends, Texts::kBounded), sql(appends, Texts::kExact));
  appends.push_back(&append);
  EXPECT_THAT(sql(appends, Texts::kBounded), HasSubstr("unnest"));
}

TEST(BatchStatementTest, AnArrayOfArraysIsSentAsTexts) {
  SessionChange change = Change("s", 9), other = Change("t", 0);
  change.row.pinned = {3, 14};
  const SessionChange* const changes[] = {&change, &other};
  const BatchStatement statement(changes, Texts::kBounded);
  EXPECT_THAT(statement.Sql(), HasSubstr("given.pinned::bigint[]"));
  constexpr std::size_t kPinned = 8;
  constexpr unsigned kTextArray = 1009;
  EXPECT_EQ(statement.types()[kPinned], kTextArray);
  EXPECT_THAT(std::string(statement.values()[kPinned],
                          static_cast<std::size_t>(statement.lengths()[kPinned])),
              AllOf(HasSubstr("{3,14}"), HasSubstr("{}")));
}

TEST(BatchStatementTest, LargeChangesOfAnySizeShareOneText) {
  const SessionChange large = Change("s", 129), larger = Change("s", 20'000);
  EXPECT_TRUE(BatchStatement::NeedsArrays(large));
  EXPECT_FALSE(BatchStatement::NeedsArrays(Change("s", 128)));
  const SessionChange* const first[] = {&large};
  const SessionChange* const second[] = {&larger};
  EXPECT_EQ(BatchStatement(first).Sql(), BatchStatement(second).Sql());
  EXPECT_THAT(BatchStatement(first).Sql(), HasSubstr("unnest"));
}

TEST(BatchStatementTest, EveryRangeIsErasedByTheKeyOfItsSession) {
  SessionChange one = Change("a", 0), two = Change("b", 0);
  one.erase = {{1, 2}};
  two.erased_entries = {{7, {1, 2}}};
  const SessionChange* const changes[] = {&one, &two};
  EXPECT_THAT(BatchStatement(changes).Sql(),
              HasSubstr("DELETE FROM memoryd_messages WHERE "
                        "(tenant = $59 AND session = $60 AND generation = $61 AND position >= $62 "
                        "AND position < $63) OR "
                        "(tenant = $64 AND session = $65 AND generation = $66 AND position >= $67 "
                        "AND position < $68))"));
}

TEST(BatchStatementTest, ContentsFollowTheMessagesOfTheirSession) {
  // As a list, and as arrays.
  for (const int messages : {1, 200}) {
    SessionChange change = Change("s", messages);
    change.row.generation = 1;
    change.row.content_generation = 2;
    change.contents = {change.messages.front(), change.messages.front()};
    SessionChange larger = change;
    larger.contents.push_back(change.messages.front());
    const SessionChange* const changes[] = {&change};
    const BatchStatement statement(changes);
    EXPECT_EQ(BatchStatement::ParameterCount(change),
              29 + static_cast<std::size_t>(messages + 2) * 11);
    EXPECT_EQ(BatchStatement::NeedsArrays(change), messages == 200);
    EXPECT_EQ(HighestParameter(statement.Sql()), statement.values().size());
    const SessionChange* const others[] = {&larger};
    EXPECT_EQ(BatchStatement(others).Sql() == statement.Sql(), messages == 200);
  }
}

TEST(BatchStatementTest, WithoutBlocksAndJobsTheTextKnowsNone) {
  const SessionChange change = Change("s", 3);
  const SessionChange* const changes[] = {&change};
  const std::string sql = BatchStatement(changes).Sql();
  EXPECT_THAT(sql, Not(HasSubstr("memoryd_blocks")));
  EXPECT_THAT(sql, Not(HasSubstr("memoryd_jobs")));
}

TEST(BatchStatementTest, HoweverManyJobsEndTheTextIsOne) {
  SessionChange one = Change("s", 1), many = Change("s", 1);
  one.ended_jobs.resize(1);
  many.ended_jobs.resize(300);
  const SessionChange* const first[] = {&one};
  const SessionChange* const second[] = {&many};
  EXPECT_EQ(BatchStatement(first).shape(), BatchStatement(second).shape());
  EXPECT_EQ(BatchStatement(first).Sql(), BatchStatement(second).Sql());
}

TEST(BatchStatementTest, LargeChangesOfAnyNumberOfJobsShareOneText) {
  SessionChange large = Change("s", 0), larger = Change("s", 0);
  large.jobs.resize(900);
  larger.jobs.resize(2000);
  large.blocks.resize(1);
  larger.blocks.resize(9);
  for (SessionChange* change : {&large, &larger}) change->blocks[0].next = 9;
  EXPECT_TRUE(BatchStatement::NeedsArrays(large));
  const SessionChange* const first[] = {&large};
  const SessionChange* const second[] = {&larger};
  EXPECT_EQ(BatchStatement(first).shape(), BatchStatement(second).shape());
  EXPECT_EQ(BatchStatement(first).Sql(), BatchStatement(second).Sql());
}

// Two rows at least for each clause that may have as many.
SessionChange ChangeOfAllClauses() {
  SessionChange change = Change("s", 2);
  MessageDraft named;
  named.SetMessageId("id");
  change.contents = {named};
  change.entries = {{7, MessageDraft()}};
  change.erase = {{1, 2}};
  change.erased_entries = {{7, {1, 2}}};
  change.replaced = {MessageDraft()};
  change.replaced_contents = {ContentDraft()};
  change.requests.resize(2);
  change.garbage.resize(2);
  change.forget_requests_before_us = 5;
  change.blocks.resize(2);
  for (BlockState& block : change.blocks) block.next = 9;
  change.jobs.resize(2);
  change.ended_jobs.resize(2);
  change.cancel_jobs_of = 7;
  return change;
}

// Compares the values of rows with the columns of a clause.
class ColumnCheck : public RowWriter {
 public:
  explicit ColumnCheck(std::span<const BatchColumn> columns) : columns_(columns) {}

  std::size_t values() const { return values_; }
  // The first value that is not of its column; empty: none.
  const std::string& difference() const { return difference_; }

 private:
  void AddKept(std::string_view column, ParameterType type, std::string_view) override {
    Check(column, type);
  }
  void AddMade(std::string_view column, ParameterType type, std::string) override {
    Check(column, type);
  }
  void AddSmall(std::string_view column, ParameterType type, std::string_view) override {
    Check(column, type);
  }
  void AddNull(std::string_view column) override {
    Check(column, columns_[values_ % columns_.size()].type);
  }

  void Check(std::string_view column, ParameterType type) {
    const BatchColumn& expected = columns_[values_++ % columns_.size()];
    if (column == expected.name && type == expected.type) return;
    if (difference_.empty()) {
      difference_ = fmt::format("{} of type {} in place of {} of type {}", column,
                                static_cast<unsigned>(type), expected.name,
                                static_cast<unsigned>(expected.type));
    }
  }

  const std::span<const BatchColumn> columns_;
  std::size_t values_ = 0;
  std::string difference_;
};

// How a clause's writer and its columns disagree; empty: they agree.
std::string Disagreement(const BatchClause& clause, const SessionChange& change) {
  ColumnCheck row(clause.parameters());
  clause.write(change, row);
  if (!row.difference().empty()) return row.difference();
  if (row.values() % clause.parameters().size() != 0) return "the last row is not whole";
  const std::size_t rows = row.values() / clause.parameters().size();
  if (rows == 0) return "no row: ChangeOfAllClauses() lacks what is written here";
  if (rows > clause.max_rows(change)) return "more rows than max_rows says";
  if (clause.form != RowForm::kArrays && rows < clause.max_rows(change)) {
    return "fewer rows than max_rows says";
  }
  return "";
}

TEST(BatchClausesTest, EveryWriterFillsTheColumnsOfItsClause) {
  SessionChange change = ChangeOfAllClauses();
  for (const bool written : {false, true}) {
    change.write_config = change.write_expire_us = change.write_drop_us = written;
    for (const BatchClause& clause : BatchClauses()) {
      change.appends_only = clause.name == "advanced";
      EXPECT_EQ(Disagreement(clause, change), "") << clause.name;
    }
  }
}

TEST(BatchClausesTest, AWriterThatDisagreesWithItsColumnsIsFound) {
  static constexpr BatchColumn kColumns[] = {{.name = "tenant", .type = ParameterType::kText},
                                             {.name = "count", .type = ParameterType::kInt8},
                                             {.name = "bytes", .type = ParameterType::kInt8}};
  BatchClause clause{.name = "clause",
                     .columns = kColumns,
                     .form = RowForm::kList,
                     .sql = "",
                     .max_rows = [](const SessionChange&) { return std::size_t{1}; },
                     .write =
                         [](const SessionChange& change, RowWriter& row) {
                           row.Text("tenant", change.key.tenant);
                           row.Int8("count", 1);
                           row.Int8("bytes", 2);
                         }};
  const SessionChange change = Change("s", 0);
  EXPECT_EQ(Disagreement(clause, change), "");
  clause.write = [](const SessionChange& c, RowWriter& row) {
    row.Text("tenant", c.key.tenant);
    row.Int8("bytes", 2);
    row.Int8("count", 1);
  };
  EXPECT_EQ(Disagreement(clause, change), "bytes of type 20 in place of count of type 20");
  clause.write = [](const SessionChange& c, RowWriter& row) {
    row.Text("tenant", c.key.tenant);
    row.Int2("count", 1);
    row.Int8("bytes", 2);
  };
  EXPECT_EQ(Disagreement(clause, change), "count of type 21 in place of count of type 20");
  clause.write = [](const SessionChange& c, RowWriter& row) {
    row.Text("tenant", c.key.tenant);
    row.Int8("count", 1);
  };
  EXPECT_EQ(Disagreement(clause, change), "the last row is not whole");
  clause.write = [](const SessionChange&, RowWriter&) {};
  EXPECT_THAT(Disagreement(clause, change), HasSubstr("no row"));
}

TEST(BatchClausesTest, NamesAreWordsAndDiffer) {
  std::set<std::string_view> names;
  for (const BatchClause& clause : BatchClauses()) {
    EXPECT_THAT(std::string(clause.name), MatchesRegex("[a-z][a-z_]+[a-z]"));
    EXPECT_TRUE(names.insert(clause.name).second) << clause.name;
    // What is excepted has to stand before.
    EXPECT_TRUE(clause.exception.of.empty() || names.contains(clause.exception.of));
  }
}

TEST(BatchClausesTest, TheTextsHaveNoOtherPlaceholdersThanAreKnown) {
  const std::regex known(R"(\{(columns|rows|given|conditions|set)\})"), keys(R"(\{keys\})"),
      value(R"(\{\})");
  const auto without = [](std::string_view text, const std::regex& placeholder) {
    return std::regex_replace(std::string(text), placeholder, "");
  };
  for (const BatchClause& clause : BatchClauses()) {
    EXPECT_THAT(without(clause.sql, known), Not(HasSubstr("{"))) << clause.name;
    EXPECT_THAT(without(clause.exception.sql, keys), Not(HasSubstr("{"))) << clause.name;
    for (const BatchColumn& column : clause.columns) {
      EXPECT_THAT(without(column.value, value), Not(HasSubstr("{"))) << column.name;
      EXPECT_THAT(without(column.set, value), Not(HasSubstr("{"))) << column.name;
    }
  }
}

TEST(BatchStatementTest, CancellingLeavesTheJobsThatEnd) {
  SessionChange change = Change("s", 0);
  change.cancel_jobs_of = 7;
  const SessionChange* const changes[] = {&change};
  EXPECT_THAT(BatchStatement(changes).Sql(), Not(HasSubstr("NOT EXISTS")));
  change.ended_jobs.resize(1);
  EXPECT_THAT(BatchStatement(changes).Sql(),
              HasSubstr("NOT EXISTS (SELECT FROM unnest($30,$31,$32,$33,$34) AS ended"));
}

TEST(BatchStatementTest, ExpectedRevisionsAreSentNegative) {
  SessionChange change = Change("s", 0);
  change.expected_revision = 2;
  const SessionChange* const changes[] = {&change};
  const BatchStatement statement(changes);
  EXPECT_EQ(std::string(statement.values()[4], 8), std::string("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFE"));
}

}  // namespace
}  // namespace memoryd
