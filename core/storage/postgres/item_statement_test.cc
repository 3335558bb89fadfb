#include "core/storage/postgres/item_statement.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/items/namespace_path.h"
#include "core/storage/item_batch.h"
#include "core/storage/postgres/batch_statement.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kNow = 1'000;

ItemWrite Put(std::string key, std::optional<std::int64_t> expected = {}) {
  return {.key = std::move(key), .content = ItemContent(), .expected_version = expected};
}

ItemWrite Delete(std::string key, std::optional<std::int64_t> expected = {}) {
  return {.key = std::move(key), .expected_version = expected};
}

ItemBatch Batch(const std::string& name, std::vector<ItemWrite> writes) {
  const std::vector<std::string> names = {name};
  return {.key = {"tenant", NamespacePath::Make(FieldPath(), "namespace", names).value()},
          .writes = std::move(writes)};
}

// The statement of batches, which it keeps.
struct Made {
  explicit Made(std::vector<ItemBatch> given, Texts texts = Texts::kExact)
      : batches(std::move(given)) {
    for (const ItemBatch& batch : batches) pointers.push_back(&batch);
    statement.emplace(pointers, kNow, 7, texts);
  }
  std::vector<ItemBatch> batches;
  std::vector<const ItemBatch*> pointers;
  std::optional<ItemStatement> statement;
};

TEST(ItemStatementTest, TheTextHasAParameterForEachValue) {
  ItemBatch kept = Batch("a", {Put("k"), Delete("l"), Delete("m", 3)});
  kept.request_id = "r";
  const Made made({kept, Batch("b", {Put("k", 0)}), Batch("a", {Put("n")})});
  const std::string sql = made.statement->Sql();
  const std::size_t count = made.statement->values().size();
  EXPECT_EQ(count, made.statement->types().size());
  EXPECT_THAT(sql, HasSubstr(fmt::format("${}", count)));
  EXPECT_THAT(sql, Not(HasSubstr(fmt::format("${}", count + 1))));
  EXPECT_THAT(sql, Not(HasSubstr("{}")));
}

TEST(ItemStatementTest, EqualNumbersOfRowsHaveOneText) {
  const Made one({Batch("a", {Put("k"), Put("l")})});
  const Made other({Batch("b", {Put("m"), Put("n")})});
  EXPECT_EQ(one.statement->shape(), other.statement->shape());
  EXPECT_EQ(one.statement->Sql(), other.statement->Sql());
  const Made third({Batch("b", {Put("m"), Delete("n")})});
  EXPECT_NE(one.statement->shape(), third.statement->shape());
  const Made conditional({Batch("b", {Put("m", 5), Put("n")})});
  const Made other_condition({Batch("b", {Put("m", 0), Put("n", 7)})});
  EXPECT_NE(one.statement->shape(), conditional.statement->shape());
  EXPECT_EQ(conditional.statement->shape(), other_condition.statement->shape());
  EXPECT_EQ(conditional.statement->Sql(), other_condition.statement->Sql());
}

// Batches of up to so many writes each, with and without a request_id.
std::vector<ItemBatch> SmallBatches(const std::string& name, std::size_t most) {
  const ItemWrite kinds[] = {Put("k"), Put("k", 3), Delete("k"), Delete("k", 3)};
  std::vector<std::vector<ItemWrite>> lists = {{}};
  std::vector<ItemBatch> batches;
  for (std::size_t first = 0; first < lists.size(); ++first) {
    if (lists[first].size() == most) break;
    for (const ItemWrite& kind : kinds) {
      std::vector<ItemWrite> writes = lists[first];
      writes.push_back(kind);
      lists.push_back(writes);
      ItemBatch batch = Batch(name, writes);
      batches.push_back(batch);
      batch.request_id = "r";
      batches.push_back(batch);
      batch.subject = "ada";
      batches.push_back(batch);
      batch.request_id.clear();
      batches.push_back(batch);
    }
  }
  return batches;
}

// How many statements there are of one or two small batches, and of many; each shape has a text of
// its own.
std::size_t CountStatements(Texts texts) {
  std::map<BatchShape, std::string> known;
  std::set<std::string> distinct;
  const auto add = [&](std::vector<ItemBatch> batches) {
    const Made made(std::move(batches), texts);
    const auto [text, is_new] = known.try_emplace(made.statement->shape(), "");
    if (!is_new) return;
    text->second = made.statement->Sql();
    for (const unsigned type : made.statement->types()) text->second += fmt::format(" {}", type);
    EXPECT_TRUE(distinct.insert(text->second).second) << "two shapes of " << text->second;
  };
  std::vector<ItemBatch> firsts = SmallBatches("a", 3);
  ItemBatch large = Batch("a", {});
  for (const ItemWrite& kind : {Put("k"), Put("k", 3), Delete("k"), Delete("k", 3)}) {
    large.writes.assign(2000, kind);
    firsts.push_back(large);
    large.writes.push_back(Put("l"));
    firsts.push_back(large);
  }
  for (const ItemBatch& first : firsts) {
    add({first});
    if (first.writes.size() > 3) continue;
    for (const char* name : {"a", "b"}) {
      const std::size_t most = first.writes.size() > 2 ? 1 : 2;
      for (const ItemBatch& second : SmallBatches(name, most)) add({first, second});
    }
    for (std::size_t others = 2; others < 20; ++others) {
      std::vector<ItemBatch> batches(others, Batch("c", {Put("k")}));
      batches.push_back(first);
      add(std::move(batches));
    }
  }
  return known.size();
}

TEST(ItemStatementTest, AShapeHasATextOfItsOwn) {
  EXPECT_GT(CountStatements(Texts::kExact), 10 * ItemStatement::kBoundedTexts);
}

TEST(ItemStatementTest, WhereTextsAreBoundedThereAreNoMore) {
  EXPECT_EQ(ItemStatement::kBoundedTexts, 36U);
  EXPECT_EQ(CountStatements(Texts::kBounded), ItemStatement::kBoundedTexts);
}

TEST(ItemStatementTest, ASingleWriteIsAListWhereTextsAreBounded) {
  for (const ItemWrite& write : {Put("k", 3), Delete("k", 3)}) {
    EXPECT_EQ(Made({Batch("a", {write})}, Texts::kBounded).statement->Sql(),
              Made({Batch("a", {write})}).statement->Sql());
    const Made two({Batch("a", {write, write})}, Texts::kBounded);
    EXPECT_THAT(two.statement->Sql(), HasSubstr("(SELECT count(*) FROM n) = cardinality($3)"));
    EXPECT_EQ(two.statement->Sql(),
              Made({Batch("a", {write}), Batch("b", {write})}, Texts::kBounded).statement->Sql());
  }
}

TEST(ItemStatementTest, TextsOfStepsThatNobodyNeedsAreLeftOut) {
  const std::string put = Made({Batch("a", {Put("k")})}).statement->Sql();
  EXPECT_THAT(put, Not(HasSubstr("DELETE")));
  EXPECT_THAT(put, Not(HasSubstr("memoryd_item_requests")));
  const std::string deleted = Made({Batch("a", {Delete("k")})}).statement->Sql();
  EXPECT_THAT(deleted, Not(HasSubstr("INSERT INTO memoryd_items")));
  EXPECT_THAT(deleted, Not(HasSubstr("expected >= 0")));
}

TEST(ItemStatementTest, SubjectsAreSentWhereABatchWantsOne) {
  const Made any({Batch("a", {Put("k")}), Batch("b", {Put("k")})});
  EXPECT_THAT(any.statement->Sql(), Not(HasSubstr("subject")));
  ItemBatch one = Batch("a", {Put("k")});
  one.subject = "ada";
  const Made made({one, Batch("b", {Put("k")})});
  EXPECT_NE(any.statement->shape(), made.statement->shape());
  EXPECT_EQ(made.statement->values().size(), any.statement->values().size() + 2);
  EXPECT_THAT(made.statement->Sql(), HasSubstr("s.subject = v.subject"));
}

TEST(ItemStatementTest, AStatementHasNoMoreParametersThanWereCounted) {
  std::vector<ItemWrite> writes;
  for (int i = 0; i < 100; ++i) writes.push_back(Put(std::to_string(i)));
  ItemBatch batch = Batch("a", writes);
  batch.request_id = "r";
  const std::size_t counted = ItemStatement::ParameterCount(batch);
  const Made made({batch});
  EXPECT_LE(made.statement->values().size(), counted + 2);
  EXPECT_GE(made.statement->values().size(), 100U);
}

TEST(ItemStatementTest, ALargeBatchIsSentAsArrays) {
  std::vector<ItemWrite> writes;
  for (int i = 0; i < 50'000; ++i) writes.push_back(Put(std::to_string(i)));
  ItemBatch batch = Batch("a", writes);
  batch.request_id = "r";
  const Made made({batch});
  const std::size_t count = made.statement->values().size();
  EXPECT_LT(count, 50U);
  const std::string sql = made.statement->Sql();
  EXPECT_THAT(sql, HasSubstr("unnest("));
  EXPECT_THAT(sql, HasSubstr(fmt::format("${}", count)));
  EXPECT_THAT(sql, Not(HasSubstr(fmt::format("${}", count + 1))));
  EXPECT_THAT(sql, Not(HasSubstr("{}")));
}

TEST(ItemStatementTest, OnlyConditionsAndDeletionsMakeItAllOrNothing) {
  EXPECT_THAT(Made({Batch("a", {Put("k")})}).statement->Sql(), Not(HasSubstr("1 /")));
  EXPECT_THAT(Made({Batch("a", {Put("k", 0)})}).statement->Sql(), HasSubstr("1 /"));
  EXPECT_THAT(Made({Batch("a", {Delete("k")})}).statement->Sql(), HasSubstr("1 /"));
}

// Of the first namespace's write with this rank, both from 1.
constexpr std::int64_t Place(std::int64_t name_space, std::int64_t rank) {
  return name_space << 20 | rank;
}

TEST(ItemStatementTest, ReturnedRowsGoToTheirWrites) {
  // Namespaces are sorted by tenant and digest, ranks go on from batch to batch.
  const Made made({Batch("a", {Put("k"), Delete("l")}), Batch("a", {Put("m")})});
  const std::vector<std::int64_t> numbers = {1, Place(1, 3), 53, 900,  0,  1,  //
                                             1, Place(1, 1), 51, kNow, 70, 0};
  const auto results = made.statement->Results(numbers);
  EXPECT_THAT(
      results,
      ElementsAre(
          ElementsAre(
              ItemWriteResult{.version = 51, .create_us = kNow, .expire_us = 70, .existed = false},
              ItemWriteResult()),
          ElementsAre(ItemWriteResult{.version = 53, .create_us = 900, .existed = true})));
}

TEST(ItemStatementTest, ABatchWithoutRowsWasNotStored) {
  const Made made({Batch("a", {Put("k"), Put("l")}), Batch("b", {Put("m")})});
  // Which of the two comes first is their digests' matter.
  const std::vector<std::int64_t> of_first = {1, Place(1, 1), 7, kNow, 0, 0};
  const std::int64_t first = made.statement->Results(of_first)[0].empty() ? 2 : 1;
  const std::vector<std::int64_t> numbers = {1, Place(first, 1), 51, kNow, 0, 0,  //
                                             1, Place(first, 2), 52, kNow, 0, 0};
  const auto results = made.statement->Results(numbers);
  EXPECT_THAT(results[0], testing::SizeIs(2));
  EXPECT_THAT(results[1], testing::IsEmpty());
}

}  // namespace
}  // namespace memoryd
