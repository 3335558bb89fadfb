#include "core/calls/tenant_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <new>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace memoryd {
namespace {

using ::testing::ElementsAre;

class TenantQueueTest : public ::testing::Test {
 protected:
  void Push(const std::string& item) { queue_.Push(item.substr(0, 1), item); }
  std::string TakeAt(std::int64_t cost) {
    auto [turn, item] = queue_.Take();
    queue_.EndTurn(turn, cost);
    return item;
  }
  std::string TakeNext() {
    std::string item;
    std::tie(turn_, item) = queue_.Take();
    return item;
  }
  std::vector<std::string> TakeAll(std::int64_t cost = 0) {
    std::vector<std::string> taken;
    while (!queue_.empty()) taken.push_back(TakeAt(cost));
    return taken;
  }

  TenantQueue<std::string>::Turn turn_ = nullptr;  // Of TakeNext().
  TenantQueue<std::string> queue_;                 // The first letter of an item is its tenant.
};

TEST_F(TenantQueueTest, TenantsTakeTurnsAndEachHasItsOrder) {
  for (const char* const item : {"a1", "a2", "a3", "b1", "b2", "c1"}) Push(item);
  EXPECT_THAT(TakeAll(), ElementsAre("a1", "b1", "c1", "a2", "b2", "a3"));
}

TEST_F(TenantQueueTest, WhoHasCostLessGoesFirst) {
  for (const char* const item : {"a1", "a2", "b1", "b2", "b3", "b4", "b5"}) Push(item);
  EXPECT_EQ(TakeAt(30), "a1");
  EXPECT_EQ(TakeAt(10), "b1");
  EXPECT_EQ(TakeAt(10), "b2");
  EXPECT_EQ(TakeAt(11), "b3");
  EXPECT_EQ(TakeAt(10), "a2") << "a has cost 30, b 31";
  EXPECT_THAT(TakeAll(), ElementsAre("b4", "b5"));
}

TEST_F(TenantQueueTest, ANewcomerNeitherOwesNorSavesUp) {
  for (const char* const item : {"a1", "a2", "a3", "a4"}) Push(item);
  EXPECT_EQ(TakeAt(100), "a1");
  EXPECT_EQ(TakeAt(100), "a2");
  for (const char* const item : {"b1", "b2", "b3"}) Push(item);
  // b begins where a was served last, at 100, while a stands at 200.
  EXPECT_EQ(TakeAt(60), "b1");
  EXPECT_EQ(TakeAt(60), "b2");
  EXPECT_EQ(TakeAt(60), "a3");
  EXPECT_EQ(TakeAt(60), "b3");
}

TEST_F(TenantQueueTest, ATurnThatIsNotOverCostsWhenItEnds) {
  for (const char* const item : {"a1", "a2", "b1", "b2"}) Push(item);
  const auto [first, item] = queue_.Take();
  EXPECT_EQ(item, "a1");
  EXPECT_EQ(TakeAt(1), "b1");
  queue_.EndTurn(first, 2);
  EXPECT_THAT(TakeAll(), ElementsAre("b2", "a2"));
}

TEST_F(TenantQueueTest, WhatIsPutBackComesFirstAndCostNothing) {
  for (const char* const item : {"a1", "a2", "a3"}) Push(item);
  auto [first, one] = queue_.Take();
  auto [second, two] = queue_.Take();
  Push("b1");
  queue_.PutBack(second, std::move(two));
  queue_.PutBack(first, std::move(one));
  EXPECT_EQ(queue_.size(), 4U);
  EXPECT_THAT(TakeAll(), ElementsAre("a1", "b1", "a2", "a3"));
}

TEST_F(TenantQueueTest, TheLastItemOfATenantCanBePutBack) {
  Push("a1");
  auto [turn, item] = queue_.Take();
  EXPECT_TRUE(queue_.empty());
  queue_.PutBack(turn, std::move(item));
  EXPECT_THAT(TakeAll(), ElementsAre("a1"));
}

// Eight tenants have one call each and send the next when it is answered.
TEST_F(TenantQueueTest, WhoHasManyItemsIsServedBesideThoseWhoComeBackWithOne) {
  for (int i = 0; i < 100; ++i) Push("z");
  for (const char* const item : {"a", "b", "c", "d", "e", "f", "g", "h"}) Push(item);
  std::map<std::string, int> served;
  for (int i = 0; i < 900; ++i) {
    const std::string item = TakeAt(10);
    ++served[item];
    Push(item);
  }
  for (const auto& [item, times] : served) EXPECT_GE(times, 50) << item << " of 100";
  EXPECT_EQ(served.size(), 9U);
}

TEST_F(TenantQueueTest, WhoComesBackWithOneLargeItemPaysForIt) {
  for (int i = 0; i < 1000; ++i) Push("s");
  Push("l");
  int small = 0;
  for (int large = 0; large < 5;) {
    const bool is_large = TakeNext() == "l";
    queue_.EndTurn(turn_, is_large ? 100 : 1);
    if (is_large) {
      ++large;
      Push("l");
    } else {
      ++small;
    }
  }
  EXPECT_GE(small, 4 * 50) << "a hundred of these cost what one large item does";
}

TEST_F(TenantQueueTest, WhatIsPutBackAsNextGoesBeforeAllOthersOnce) {
  for (const char* const item : {"a1", "a2", "b1", "b2"}) Push(item);
  EXPECT_EQ(TakeAt(1000), "a1");
  EXPECT_EQ(TakeAt(1), "b1");
  auto [other, b2] = queue_.Take();
  auto [turn, a2] = queue_.Take();
  EXPECT_EQ(a2, "a2");
  queue_.PutBack(turn, std::move(a2), /*next=*/true);
  queue_.PutBack(other, std::move(b2));
  Push("b3");
  EXPECT_THAT(TakeAll(), ElementsAre("a2", "b2", "b3"));
}

TEST_F(TenantQueueTest, TenantsWithoutItemsTakeNoMemory) {
  for (int i = 0; i < 1000; ++i) queue_.Push(std::to_string(i), "x");
  EXPECT_EQ(queue_.KnownTenants(), 1000U);
  EXPECT_EQ(queue_.WaitingTenants(), 1000U);
  EXPECT_EQ(queue_.SizeOf("17"), 1U);
  EXPECT_EQ(queue_.SizeOf("nobody"), 0U);
  const auto [turn, item] = queue_.Take();
  while (!queue_.empty()) TakeAt(1);
  EXPECT_EQ(queue_.KnownTenants(), 1U) << "the one whose turn is not over";
  queue_.EndTurn(turn, 1);
  EXPECT_EQ(queue_.KnownTenants(), 0U);
}

// An item that can't be stored.
struct Refusing {
  Refusing() = default;
  Refusing(const Refusing& /*other*/) { throw std::bad_alloc(); }
  Refusing& operator=(const Refusing&) = delete;
};

TEST(TenantQueueExceptionTest, APushThatThrowsLeavesNothing) {
  TenantQueue<Refusing> queue;
  EXPECT_THROW(queue.Push("a", Refusing()), std::bad_alloc);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.WaitingTenants(), 0U) << "a turn without an item";
  EXPECT_EQ(queue.KnownTenants(), 0U);
}

}  // namespace
}  // namespace memoryd
