#include "core/storage/postgres/batch_statement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

namespace memoryd {
namespace {

using ::testing::HasSubstr;

SessionChange Change(const std::string& session, int messages) {
  SessionChange change;
  change.key = {"t", session};
  for (int i = 0; i < messages; ++i) {
    auto message = std::make_shared<Message>();
    message->position = i + 1;
    message->body = "body";
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

TEST(BatchStatementTest, TheTextUsesEveryParameter) {
  for (const int messages : {0, 1, 3, 128, 129, 9000}) {
    for (int parts = 0; parts < 8; ++parts) {
      SessionChange change = Change("s", messages);
      if (parts & 1) change.requests.push_back({"r", "fingerprint", "reply", 5});
      if (parts & 2) change.garbage = Garbage{1, 2, 3};
      if (parts & 4) change.erase = PositionRange{1, 2};
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

TEST(BatchStatementTest, LargeChangesOfAnySizeShareOneText) {
  const SessionChange large = Change("s", 129), larger = Change("s", 20'000);
  EXPECT_TRUE(BatchStatement::NeedsArrays(large));
  EXPECT_FALSE(BatchStatement::NeedsArrays(Change("s", 128)));
  const SessionChange* const first[] = {&large};
  const SessionChange* const second[] = {&larger};
  EXPECT_EQ(BatchStatement(first).Sql(), BatchStatement(second).Sql());
  EXPECT_THAT(BatchStatement(first).Sql(), HasSubstr("unnest"));
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
