// By which ways PostgreSQL reaches items, where its statistics mislead it most.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/items/namespace_path.h"
#include "core/storage/item_batch.h"
#include "core/storage/postgres/batch_statement.h"
#include "core/storage/postgres/item_queries.h"
#include "core/storage/postgres/item_statement.h"
#include "core/storage/postgres/pg_test_support.h"
#include "core/storage/store.h"

namespace memoryd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// One namespace has 20,000 items, 2,000 others have five each: PostgreSQL, which takes the columns
// of a key for independent, expects one row of any namespace.
class ItemPlansTest : public ::testing::Test {
 protected:
  ItemPlansTest() : store_(database_.Open()) {
    database_.Run(
        "INSERT INTO memoryd_namespaces SELECT 't' || n % 20, decode(md5(n::text), 'hex'), "
        "n || E'\\x01', n, 100000, 1, 0, 0, 1, 1, 0, '', '' FROM generate_series(1, 2001) n");
    database_.Run(
        "INSERT INTO memoryd_items SELECT s.tenant, s.namespace, s.generation, 'k' || "
        "lpad(n::text, 5, '0'), n, 1, 1, 50000 + n, 1, 100, 0, false, 1, '', '', 0, NULL, NULL, "
        "'1' FROM memoryd_namespaces s, generate_series(1, 20000) n "
        "WHERE n <= 5 OR s.generation = 1");
    database_.Run(
        "INSERT INTO memoryd_item_requests SELECT s.tenant, s.namespace, 'r' || n, 'f', '', "
        "s.generation FROM memoryd_namespaces s, generate_series(1, 10) n");
    database_.Run("ANALYZE");
    database_.Run("SET plan_cache_mode = force_generic_plan");
    database_.Run("SET enable_bitmapscan = off");
  }

  // Checks that `sql`, executed with these arguments, reads `most` pages at most.
  void ExpectFewPages(const std::string& sql, const std::string& arguments, int most) {
    SCOPED_TRACE(sql);
    database_.Run("PREPARE asked AS " + sql);
    std::string plan;
    for (const auto row :
         database_.Run("EXPLAIN (ANALYZE, BUFFERS) EXECUTE asked (" + arguments + ")")) {
      plan += row[0].c_str() + std::string("\n");
    }
    database_.Run("DEALLOCATE asked");
    EXPECT_THAT(plan, Not(HasSubstr("Seq Scan on memoryd_items"))) << plan;
    EXPECT_THAT(plan, Not(HasSubstr("Seq Scan on memoryd_item_requests"))) << plan;
    int pages = 0;
    for (const std::string what : {"shared hit=", " read="}) {
      const std::size_t found = plan.find(what);
      if (found != std::string::npos && found < plan.find('\n', plan.find("Buffers:"))) {
        pages += std::stoi(plan.substr(found + what.size()));
      }
    }
    EXPECT_GT(pages, 0) << plan;
    EXPECT_LE(pages, most) << plan;
  }

  TestDatabase database_;
  std::unique_ptr<Store> store_;
};

TEST_F(ItemPlansTest, AFewKeysOfALargeNamespaceAreFoundByTheirKeys) {
  const std::string large = "'\\xc4ca4238a0b923820dcc509a6f75849b'::bytea";  // MD5 of "1".
  ExpectFewPages(kReadItemsOfNamespace.sql,
                 fmt::format("'t1', {}, '{{k00005,k15000,none}}', 5, true, 1000", large), 40);
  const std::string keys = fmt::format("'{{t1,t1}}', ARRAY[{0}, {0}], '{{k00005,k15000}}'", large);
  ExpectFewPages(kReadItems.sql, keys + ", 5, true, 1000", 40);
  ExpectFewPages(kReadVersions.sql, keys + ", 5", 40);
  ExpectFewPages(kTouchItems.sql, keys + ", '{5,15000}', '{60000,90000}'", 100);
}

TEST_F(ItemPlansTest, AStepOfAPurgeReadsWhatItDeletes) {
  ExpectFewPages(kPurgeGarbageItems.sql,
                 "'t1', '\\xc4ca4238a0b923820dcc509a6f75849b'::bytea, 1, 100", 400);
  ExpectFewPages(kPurgeExpiredItems.sql, "100000, 100", 1'000);
  ExpectFewPages(kPurgeItemRequests.sql, "1000, 100", 400);
}

TEST_F(ItemPlansTest, DeletionsOfALargeNamespaceFindTheirKeys) {
  const std::vector<std::string> names = {"n"};
  ItemBatch batch{.key = {"t1", NamespacePath::Make(FieldPath(), "namespace", names).value()}};
  batch.writes.push_back({.key = "a"});
  batch.writes.push_back({.key = "b"});
  const ItemBatch* const batches[] = {&batch};
  ExpectFewPages(ItemStatement(batches, 5, 7).Sql(),
                 "5, 7, 1, 't1', '\\xc4ca4238a0b923820dcc509a6f75849b', 2, 0, "
                 "1048577, 'k00005', -1, 1048578, 'k15000', -1",
                 100);
  // As behind a pooler, with what is set for its role.
  for (const char* const way : {"seqscan", "hashjoin", "mergejoin"}) {
    database_.Run(fmt::format("SET enable_{} = off", way));
  }
  ExpectFewPages(ItemStatement(batches, 5, 7, Texts::kBounded).Sql(),
                 "5, 7, '{1}', '{t1}', ARRAY['\\xc4ca4238a0b923820dcc509a6f75849b'::bytea], '{2}', "
                 "'{0}', '{1048577,1048578}', '{k00005,k15000}', '{-1,-1}'",
                 100);
}

}  // namespace
}  // namespace memoryd
