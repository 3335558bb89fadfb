#include "core/reads/item_view.h"

#include <gmock/gmock.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/base/field_path.h"
#include "core/items/namespace_path.h"
#include "core/storage/item_batch.h"
#include "core/storage/item_store.h"
#include "tests/support/engine_fixture.h"

namespace memoryd {
namespace {

using ::testing::SizeIs;

constexpr std::int64_t kNow = 1'000'000;
constexpr std::int64_t kMany = 1 << 20;

NamespaceKey Key(const std::string& name) {
  const std::vector<std::string> names = {name};
  return {"tenant", NamespacePath::Make(FieldPath(), "namespace", names).value()};
}

// What ada sees.
class ItemViewTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    Start(Options());
    view_.emplace(&store_->Items(), "ada");
    for (const auto& [name, subject] :
         std::map<std::string, std::string>{{"hers", "ada"}, {"his", "bob"}, {"nobody's", ""}}) {
      ItemBatch batch{.key = Key(name), .subject = subject};
      batch.writes.push_back({.key = "k", .content = ItemContent()});
      batch.writes.back().content->value = "\"" + name + "\"";
      ASSERT_EQ(real_->Items().WriteItems({&batch, 1}, kNow).front().outcome,
                ItemBatchOutcome::kWritten);
    }
  }

  NamespaceRow Row(const std::string& name) {
    const NamespaceKey key = Key(name);
    return real_->Items().FindNamespaces({&key, 1}).value().front().value_or(NamespaceRow());
  }
  void Give(const std::string& name, const std::string& subject) {
    const NamespaceChange change{.expected_config_version = Row(name).config_version,
                                 .subject = subject};
    ASSERT_TRUE(real_->Items().WriteNamespace(Key(name), change, kNow).value());
  }
  auto Read(const std::vector<std::string>& names) {
    std::vector<ItemKey> keys;
    for (const std::string& name : names) keys.push_back({Key(name), "k"});
    return view_->ReadItems(keys, kNow, false, kMany);
  }
  auto List(const std::string& name, std::uint64_t generation = 0) {
    return view_->ListItems(Key(name), generation, {.max_items = 10}, kNow);
  }

  std::optional<ItemView> view_;
};

TEST_F(ItemViewTest, OnlyNamespacesOfTheSubjectAreThere) {
  const auto items = Read({"his", "hers", "nobody's", "none", "hers"});
  ASSERT_TRUE(items.ok()) << items.status();
  ASSERT_THAT(*items, SizeIs(5));
  for (const std::size_t i : {0U, 2U, 3U}) EXPECT_FALSE((*items)[i].has_value()) << i;
  for (const std::size_t i : {1U, 4U}) EXPECT_EQ((*items)[i]->content.value, "\"hers\"");
  EXPECT_THAT(List("hers")->items, SizeIs(1));
  EXPECT_THAT(List("his")->items, SizeIs(0));
  EXPECT_THAT(List("his", Row("his").generation)->items, SizeIs(0));
  EXPECT_TRUE(view_->FindNamespace(Key("hers"))->has_value());
  EXPECT_FALSE(view_->FindNamespace(Key("nobody's"))->has_value());
  const auto listed = view_->ListNamespaces("tenant", {}, "", 10);
  ASSERT_TRUE(listed.ok());
  ASSERT_THAT(*listed, SizeIs(1));
  EXPECT_EQ(listed->front().path, Key("hers").path);
}

TEST_F(ItemViewTest, WithoutASubjectAllIsThere) {
  view_.emplace(&store_->Items(), "");
  const auto items = Read({"his", "hers", "nobody's"});
  for (const auto& item : *items) EXPECT_TRUE(item.has_value());
  EXPECT_THAT(*view_->ListNamespaces("tenant", {}, "", 10), SizeIs(3));
}

TEST_F(ItemViewTest, WhatIsGivenAwayWhileItIsReadIsNotShown) {
  store_->Items().BeforeNextRead([this] { Give("hers", "bob"); });
  EXPECT_FALSE(Read({"hers"})->front().has_value());
  Give("hers", "ada");
  EXPECT_TRUE(Read({"hers"})->front().has_value());
  store_->Items().BeforeNextList([this] { Give("hers", "bob"); });
  EXPECT_THAT(List("hers")->items, SizeIs(0));
}

TEST_F(ItemViewTest, WhatIsMadeAgainByAnotherWhileItIsReadIsNotShown) {
  store_->Items().BeforeNextRead([this] {
    ASSERT_TRUE(real_->Items().DeleteNamespace(Key("hers"), {}, kNow).ok());
    ItemBatch batch{.key = Key("hers"), .subject = "bob"};
    batch.writes.push_back({.key = "k", .content = ItemContent()});
    batch.writes.back().content->value = "\"his\"";
    ASSERT_EQ(real_->Items().WriteItems({&batch, 1}, kNow).front().outcome,
              ItemBatchOutcome::kWritten);
  });
  EXPECT_FALSE(Read({"hers"})->front().has_value());
}

// Also an error would tell how large it is.
TEST_F(ItemViewTest, AnErrorTellsNothingOfWhatIsAnothers) {
  const ItemKey key{Key("hers"), "k"};
  EXPECT_EQ(ErrorReason(view_->ReadItems({&key, 1}, kNow, false, 1).status()), "REPLY_TOO_LARGE");
  store_->Items().BeforeNextRead([this] { Give("hers", "bob"); });
  const auto items = view_->ReadItems({&key, 1}, kNow, false, 1);
  ASSERT_TRUE(items.ok()) << items.status();
  EXPECT_FALSE(items->front().has_value());
}

TEST_F(ItemViewTest, AReadEndsWhereANamespaceKeepsChanging) {
  // As often as it is read.
  std::function<void()> change = [&] {
    Give("hers", "ada");
    store_->Items().BeforeNextRead(change);
  };
  store_->Items().BeforeNextRead(change);
  const auto items = Read({"hers"});
  EXPECT_TRUE(absl::IsAborted(items.status()));
  EXPECT_EQ(ErrorReason(items.status()), "NAMESPACE_REPLACED");
  store_->Items().BeforeNextRead({});
}

}  // namespace
}  // namespace memoryd
