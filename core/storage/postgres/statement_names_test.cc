#include "core/storage/postgres/statement_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/storage/stores.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(StatementNamesTest, EqualNamesAreEqualStatements) {
  const std::vector<unsigned> one = {20}, another = {25}, both = {20, 25}, joined = {2025};
  const std::string name = StatementName("SELECT $1", one);
  // As PostgreSQL and PgBouncer take a name, and DEALLOCATE without quotes.
  EXPECT_THAT(name, MatchesRegex("memoryd_[0-9a-f]{32}"));
  EXPECT_EQ(StatementName("SELECT $1", one), name);
  EXPECT_NE(StatementName("SELECT $2", one), name);
  EXPECT_NE(StatementName("SELECT $1", another), name);
  EXPECT_NE(StatementName("SELECT $1"), name);
  EXPECT_NE(StatementName("SELECT $1", both), StatementName("SELECT $1", joined));
  EXPECT_NE(StatementName("SELECT 120"), StatementName("SELECT 1", one));
}

TEST(StatementNamesTest, AreGivenUpOnceForWhatAPoolerLoses) {
  for (const char* sqlstate : {"26000", "42P05"}) {
    std::vector<std::string> lines;
    StatementNames names(Pooling::kNamed, [&](const std::string& line) { lines.push_back(line); });
    EXPECT_FALSE(names.GiveUpAfter("22012"));
    EXPECT_FALSE(names.GiveUpAfter(""));
    EXPECT_TRUE(names.used());
    EXPECT_TRUE(names.GiveUpAfter(sqlstate));
    EXPECT_FALSE(names.used());
    // Of a statement that was sent before.
    EXPECT_TRUE(names.GiveUpAfter(sqlstate));
    EXPECT_THAT(lines, ElementsAre(HasSubstr(sqlstate)));
  }
}

TEST(StatementNamesTest, AreUsedAsTheSettingSays) {
  EXPECT_TRUE(StatementNames(Pooling::kNone, {}).used());
  EXPECT_FALSE(StatementNames(Pooling::kNone, {}).pooled());
  EXPECT_TRUE(StatementNames(Pooling::kNamed, {}).used());
  EXPECT_TRUE(StatementNames(Pooling::kNamed, {}).pooled());
  EXPECT_FALSE(StatementNames(Pooling::kUnnamed, {}).used());
  EXPECT_TRUE(StatementNames(Pooling::kUnnamed, {}).pooled());
}

}  // namespace
}  // namespace memoryd
