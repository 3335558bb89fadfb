#include "core/recall/index_cache.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>

#include "core/base/memory_budget.h"
#include "core/model/session.h"
#include "core/recall/searched_session.h"
#include "core/storage/store.h"
#include "tests/support/memory_store.h"
#include "tests/support/plain_body_reader.h"

namespace memoryd {
namespace {

class IndexCacheTest : public ::testing::Test {
 protected:
  // Room for so many indexes of sessions without messages.
  std::unique_ptr<IndexCache> MakeCache(std::size_t indexes) {
    return std::make_unique<IndexCache>(store_.get(), &bodies_,
                                        indexes * SizeOfOne() + SizeOfOne() / 2, &budget_);
  }
  std::size_t SizeOfOne() {
    SearchedSession session({"t", "a"}, store_.get(), &bodies_, &budget_);
    EXPECT_TRUE(*session.CatchUp({}, {}, /*accept_missing=*/false, nullptr));
    return session.ByteSize();
  }
  static IndexCache::Index Use(IndexCache& cache, const SessionKey& key) {
    const IndexCache::Index index = cache.Open(key);
    EXPECT_TRUE(*index->CatchUp({}, {}, /*accept_missing=*/false, nullptr));
    cache.Recharge(index);
    return index;
  }

  std::unique_ptr<Store> store_ = *OpenMemoryStore();
  PlainBodyReader bodies_;
  MemoryBudget budget_{0};
};

TEST_F(IndexCacheTest, KeepsWhatWasUsedLast) {
  const auto cache = MakeCache(2);
  const IndexCache::Index a = Use(*cache, {"t", "a"});
  const IndexCache::Index b = Use(*cache, {"t", "b"});
  EXPECT_EQ(cache->Open({"t", "a"}), a);
  Use(*cache, {"t", "c"});
  EXPECT_EQ(cache->evictions(), 1U);
  EXPECT_EQ(cache->Open({"t", "a"}), a);
  EXPECT_NE(cache->Open({"t", "b"}), b);
}

TEST_F(IndexCacheTest, AnIndexWithoutRoomByItselfGoesAlone) {
  const auto cache = MakeCache(2);
  const IndexCache::Index a = Use(*cache, {"t", "a"});
  const IndexCache::Index large = cache->Open({"t", "large"});
  SessionRow row;
  row.config = std::string(3 * a->ByteSize(), 'x');
  EXPECT_TRUE(*large->CatchUp(row, {}, /*accept_missing=*/false, nullptr));
  cache->Recharge(large);
  EXPECT_EQ(cache->evictions(), 1U);
  EXPECT_EQ(cache->Open({"t", "a"}), a);
  EXPECT_NE(cache->Open({"t", "large"}), large);
  EXPECT_EQ(cache->ByteSize(), a->ByteSize());
}

TEST_F(IndexCacheTest, WhatWasForgottenAndIsStillHeldIsNotCounted) {
  const auto cache = MakeCache(2);
  const IndexCache::Index a = Use(*cache, {"t", "a"});
  EXPECT_EQ(cache->ByteSize(), a->ByteSize());
  cache->Forget({"t", "a"});
  EXPECT_EQ(cache->ByteSize(), 0U);
  cache->Recharge(a);
  EXPECT_EQ(cache->ByteSize(), 0U);
  EXPECT_EQ(cache->evictions(), 0U);
}

}  // namespace
}  // namespace memoryd
