#include "core/lifecycle/namespace_calls.h"

#include <gmock/gmock.h>

#include <cstddef>
#include <cstdint>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/field_path.h"
#include "core/engine/engine.h"
#include "core/items/namespace_config.h"
#include "core/items/namespace_path.h"
#include "core/storage/item_batch.h"
#include "core/storage/item_store.h"
#include "core/writes/items/item_call.h"
#include "core/writes/quotas.h"
#include "tests/support/engine_fixture.h"

namespace memoryd {
namespace {

using Names = std::vector<std::string>;

NamespacePath Path(const Names& names) {
  return NamespacePath::Make(FieldPath(), "namespace", names).value();
}
NamespaceKey Key(const Names& names) { return {"tenant", Path(names)}; }

NamespaceSettings OfSubject(const std::string& subject) {
  NamespaceSettings settings;
  settings.subject = subject;
  return settings;
}

class NamespaceCallsTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    Start(Options());
  }

  ItemStore& items() { return real_->Items(); }

  // What one of the calls ends with.
  template <typename T, typename Call>
  absl::StatusOr<T> ResultOf(const Call& call) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<T>>>();
    auto future = promise->get_future();
    call([promise](absl::StatusOr<T> result) { promise->set_value(Detached(std::move(result))); });
    return Await(std::move(future));
  }
  absl::Status Put(const Names& names, const std::string& key, NamespaceSettings settings = {},
                   std::optional<std::int64_t> expected_version = {}) {
    ItemBatch batch{Key(names)};
    ItemWrite& write = batch.writes.emplace_back();
    write.key = key;
    write.content.emplace().value = "1";
    write.expected_version = expected_version;
    return ResultOf<ItemsWritten>([&](auto done) {
             engine_->namespaces().Write(std::move(batch), std::move(settings), 10, {Far()},
                                         std::move(done));
           })
        .status();
  }
  absl::StatusOr<NamespaceCounts> Copy(const Names& source, const Names& target,
                                       bool recursive = true, const std::string& subject = "") {
    return ResultOf<NamespaceCounts>([&](auto done) {
      engine_->namespaces().Copy({"tenant", Path(source), Path(target), recursive, subject},
                                 {Far()}, std::move(done));
    });
  }
  absl::StatusOr<NamespaceCounts> Delete(const Names& names, bool recursive,
                                         const std::string& subject = "") {
    return ResultOf<NamespaceCounts>([&](auto done) {
      engine_->namespaces().Delete(Key(names), recursive, subject, {Far()}, std::move(done));
    });
  }
  std::optional<NamespaceRow> Row(const Names& names) {
    const NamespaceKey key = Key(names);
    return items().FindNamespaces({&key, 1}).value().front();
  }
  std::int64_t Count(const Names& names) {
    const auto row = Row(names);
    return row.has_value() ? row->item_count : -1;
  }
};

TEST_F(NamespaceCallsTest, AConfigurationThatDiffersIsNamedAndNothingIsStored) {
  NamespaceSettings settings = OfSubject("ada");
  settings.ttl_us = 5'000;
  ASSERT_TRUE(Put({"a"}, "k", settings).ok());
  ASSERT_TRUE(Put({"a"}, "k2", OfSubject("ada")).ok());
  NamespaceSettings ttl, refresh, search;
  ttl.ttl_us = 0;
  refresh.refresh_ttl = false;
  search.search = "[]";
  for (const auto& [differing, field] :
       std::vector<std::pair<NamespaceSettings, std::string>>{{OfSubject("eve"), "subject"},
                                                              {ttl, "default_ttl"},
                                                              {refresh, "refresh_ttl"},
                                                              {search, "search"}}) {
    const absl::Status status = Put({"a"}, "k3", differing);
    EXPECT_EQ(ErrorReason(status), "CONFIG_MISMATCH");
    EXPECT_EQ(status.message().substr(0, field.size() + 8), "config." + field + ":") << status;
  }
  EXPECT_EQ(Count({"a"}), 2);
}

TEST_F(NamespaceCallsTest, AConfigurationStaysThoughItsBatchFails) {
  EXPECT_EQ(ErrorReason(Put({"a"}, "k", OfSubject("ada"), 7)), "VERSION_MISMATCH");
  ASSERT_TRUE(Row({"a"}).has_value());
  EXPECT_EQ(Row({"a"})->subject, "ada");
  EXPECT_EQ(Count({"a"}), 0);
}

TEST_F(NamespaceCallsTest, ACopyThatMeetsItemsLeavesThemAndWhatIsCopied) {
  for (const Names& path : std::vector<Names>{{"a"}, {"a", "x"}, {"a", "y"}, {"t", "x"}}) {
    ASSERT_TRUE(Put(path, "k").ok());
  }
  ASSERT_TRUE(Put({"t", "x"}, "own").ok());
  EXPECT_EQ(ErrorReason(Copy({"a"}, {"t"}).status()), "NAMESPACE_EXISTS");
  EXPECT_EQ(Count({"t"}), 1) << "copied before";
  EXPECT_EQ(Count({"t", "x"}), 2);
  EXPECT_EQ(Count({"t", "y"}), -1);
}

TEST_F(NamespaceCallsTest, APathThatWouldGetTooLongIsRefusedBeforeAnythingIsCopied) {
  ASSERT_TRUE(Put({"a"}, "k").ok());
  ASSERT_TRUE(Put({"a", "b"}, "k").ok());
  const Names longest(16, "t");
  EXPECT_TRUE(absl::IsInvalidArgument(Copy({"a"}, longest).status()));
  EXPECT_EQ(Count(longest), -1);
  const auto alone = Copy({"a"}, longest, /*recursive=*/false);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->items, 1);
}

TEST_F(NamespaceCallsTest, WhatIsNotThereIsCopiedAndDeletedInVain) {
  const auto copied = Copy({"none"}, {"t"});
  ASSERT_TRUE(copied.ok()) << copied.status();
  EXPECT_EQ(copied->namespaces, 0);
  const auto deleted = Delete({"none"}, true);
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_EQ(deleted->namespaces, 0);
}

TEST_F(NamespaceCallsTest, ADeletionTakesWhatIsBelowAndNoNeighbour) {
  for (const Names& path : std::vector<Names>{{"a"}, {"a", "b"}, {"a", "b", "c"}, {"ab"}}) {
    ASSERT_TRUE(Put(path, "k").ok());
  }
  EXPECT_EQ(Delete({"a", "b"}, false)->items, 1);
  EXPECT_EQ(Count({"a", "b", "c"}), 1);
  const auto deleted = Delete({"a"}, true);
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_EQ(deleted->namespaces, 2);
  EXPECT_EQ(deleted->items, 2);
  EXPECT_EQ(Count({"ab"}), 1);
}

TEST_F(NamespaceCallsTest, AnUpdateThatChangesNothingIsStillAWrite) {
  const auto update = [this] {
    return ResultOf<NamespaceRow>([&](auto done) {
      engine_->namespaces().Update(Key({"a"}), OfSubject("ada"), {}, {Far()}, std::move(done));
    });
  };
  const auto first = update();
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = update();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_GT(second->version, first->version);
  EXPECT_EQ(second->subject, "ada");
}

class OneSubjectsNamespaceCallsTest : public NamespaceCallsTest {
 protected:
  void SetUp() override {
    NamespaceCallsTest::SetUp();
    ASSERT_TRUE(Put({"a"}, "k", OfSubject("ada")).ok());
    ASSERT_TRUE(Put({"a", "his"}, "k", OfSubject("bob")).ok());
    ASSERT_TRUE(Put({"a", "hers"}, "k", OfSubject("ada")).ok());
    ASSERT_TRUE(Put({"b"}, "k").ok());
  }
  absl::Status PutOf(const std::string& subject, const Names& names, NamespaceSettings settings) {
    ItemBatch batch{.key = Key(names), .subject = subject};
    ItemWrite& write = batch.writes.emplace_back();
    write.key = "new";
    write.content.emplace().value = "1";
    return ResultOf<ItemsWritten>([&](auto done) {
             engine_->namespaces().Write(std::move(batch), std::move(settings), 10, {Far()},
                                         std::move(done));
           })
        .status();
  }
  absl::StatusOr<NamespaceRow> Update(const Names& names, const std::string& subject,
                                      NamespaceSettings settings = {}) {
    return ResultOf<NamespaceRow>([&](auto done) {
      engine_->namespaces().Update(Key(names), std::move(settings), subject, {Far()},
                                   std::move(done));
    });
  }
  static std::string Refused() { return "SUBJECT_NOT_GRANTED"; }
};

TEST_F(OneSubjectsNamespaceCallsTest, ABatchIsWrittenToHisOwnAlone) {
  NamespaceSettings settings;
  settings.refresh_ttl = false;
  for (const NamespaceSettings& asked : {NamespaceSettings(), settings}) {
    EXPECT_EQ(ErrorReason(PutOf("ada", {"a", "his"}, asked)), Refused());
    EXPECT_EQ(ErrorReason(PutOf("ada", {"b"}, asked)), Refused());
  }
  EXPECT_TRUE(PutOf("ada", {"a"}, {}).ok());
  EXPECT_TRUE(PutOf("ada", {"new"}, settings).ok());
  EXPECT_TRUE(PutOf("ada", {"other"}, {}).ok());
  EXPECT_EQ(Row({"new"})->subject, "ada");
  EXPECT_EQ(Row({"other"})->subject, "ada");
  EXPECT_EQ(ErrorReason(PutOf("bob", {"new"}, settings)), Refused());
  EXPECT_EQ(Count({"a", "his"}), 1);
}

TEST_F(OneSubjectsNamespaceCallsTest, AConfigurationIsOfHisOwn) {
  EXPECT_EQ(ErrorReason(Update({"a", "his"}, "ada").status()), Refused());
  EXPECT_EQ(ErrorReason(Update({"b"}, "ada").status()), Refused());
  EXPECT_EQ(Update({"a"}, "ada").value().subject, "ada");
  EXPECT_EQ(Update({"new"}, "ada").value().subject, "ada");
  EXPECT_EQ(Row({"b"})->subject, "");
}

TEST_F(OneSubjectsNamespaceCallsTest, ADeletionTakesHisOwnBelowAPath) {
  EXPECT_EQ(ErrorReason(Delete({"b"}, true, "ada").status()), Refused());
  EXPECT_EQ(ErrorReason(Delete({"a"}, true, "bob").status()), Refused());
  EXPECT_EQ(Count({"a", "his"}), 1);
  EXPECT_EQ(Delete({"none"}, true, "ada")->namespaces, 0);
  EXPECT_EQ(Delete({"a"}, true, "ada")->namespaces, 2);
  EXPECT_EQ(Count({"a"}), -1);
  EXPECT_EQ(Count({"a", "his"}), 1);
  EXPECT_EQ(Count({"b"}), 1);
}

TEST_F(OneSubjectsNamespaceCallsTest, ACopyIsOfHisOwnIntoHisOwn) {
  EXPECT_EQ(ErrorReason(Copy({"a"}, {"b"}, true, "ada").status()), Refused());
  EXPECT_EQ(Copy({"b"}, {"copy"}, true, "ada")->namespaces, 0);
  EXPECT_EQ(Copy({"a", "his"}, {"copy"}, false, "ada")->namespaces, 0);
  EXPECT_EQ(Copy({"a"}, {"copy"}, true, "ada")->namespaces, 2);
  EXPECT_EQ(Count({"copy", "his"}), -1);
  EXPECT_EQ(Count({"copy", "hers"}), 1);
  EXPECT_EQ(Row({"copy"})->subject, "ada");
}

TEST_F(NamespaceCallsTest, WhatIsDeletedWhileItIsCopiedIsNotCopiedInPart) {
  ASSERT_TRUE(Put({"a"}, "k").ok());
  for (int i = 0; i < 1500; ++i) ASSERT_TRUE(Put({"a"}, std::to_string(i)).ok());
  store_->Items().BeforeNextList([this] {
    // Before the second page.
    store_->Items().BeforeNextList(
        [this] { ASSERT_TRUE(items().DeleteNamespace(Key({"a"}), {}, 1).ok()); });
  });
  EXPECT_EQ(ErrorReason(Copy({"a"}, {"t"}).status()), "NAMESPACE_REPLACED");
  EXPECT_EQ(Count({"t"}), -1);
}

// Each test starts the engine with limits of its own.
class LimitedNamespaceCallsTest : public NamespaceCallsTest {
 protected:
  void SetUp() override { EngineTest::SetUp(); }
  void StartWithQuota(std::int64_t bytes) {
    EngineOptions options = Options();
    options.quota_of = [bytes](std::string_view) { return Quota{.bytes = bytes}; };
    Start(std::move(options));
  }
};

TEST_F(LimitedNamespaceCallsTest, ABatchWithAConfigurationTakesOnePlace) {
  EngineOptions options = Options();
  options.max_pending_calls = 1;
  Start(std::move(options));
  const absl::Status status = Put({"a"}, "k", OfSubject("ada"));
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(LimitedNamespaceCallsTest, ConfigurationsCountForTheQuota) {
  StartWithQuota(2'000);
  const auto update = [this](const Names& names, std::size_t bytes) {
    NamespaceSettings settings;
    settings.search = "[\"" + std::string(bytes, 'x') + "\"]";
    return ResultOf<NamespaceRow>([&](auto done) {
             engine_->namespaces().Update(Key(names), std::move(settings), {}, {Far()},
                                          std::move(done));
           })
        .status();
  };
  ASSERT_TRUE(update({"a"}, 1'000).ok());
  EXPECT_EQ(ErrorReason(update({"b"}, 1'000)), "QUOTA_EXCEEDED");
  EXPECT_EQ(ErrorReason(update({"a"}, 2'000)), "QUOTA_EXCEEDED");
  EXPECT_EQ(Count({"b"}), -1);
  NamespaceSettings settings;
  settings.search = "[\"" + std::string(1'000, 'x') + "\"]";
  EXPECT_EQ(ErrorReason(Put({"b"}, "k", settings)), "QUOTA_EXCEEDED");
  ASSERT_TRUE(update({"a"}, 100).ok());
  ASSERT_TRUE(update({"b"}, 900).ok());
  ASSERT_TRUE(Delete({"b"}, false).ok());
  EXPECT_TRUE(update({"c"}, 900).ok());
}

TEST_F(LimitedNamespaceCallsTest, ManyNamespacesOfSmallItemsReachTheQuota) {
  StartWithQuota(2'000);
  absl::Status status;
  int made = 0;
  for (; status.ok() && made < 100; ++made) status = Put({"n", std::to_string(made)}, "k");
  EXPECT_EQ(ErrorReason(status), "QUOTA_EXCEEDED");
  EXPECT_EQ(made, 9);
  ASSERT_TRUE(Delete({"n", "0"}, false).ok());
  EXPECT_TRUE(Put({"n", "1"}, "k2").ok());
}

TEST_F(NamespaceCallsTest, WhatEndsWhileItWritesDoesNotSayThatNothingWasChanged) {
  const auto expire = [this] { engine_->ExpirePending(); };
  const auto update = [this] {
    return ErrorReason(ResultOf<NamespaceRow>([&](auto done) {
                         engine_->namespaces().Update(Key({"a"}), OfSubject("ada"), {}, {Far()},
                                                      std::move(done));
                       }).status());
  };
  ASSERT_TRUE(Put({"a"}, "k").ok());

  store_->Items().BeforeNextWrite(expire);
  EXPECT_EQ(update(), "OUTCOME_UNKNOWN");
  store_->Items().BeforeNextWrite(expire);
  EXPECT_EQ(ErrorReason(Put({"b"}, "k", OfSubject("ada"))), "OUTCOME_UNKNOWN");

  store_->Items().BeforeNextList(expire);
  EXPECT_EQ(ErrorReason(Copy({"a"}, {"t"}).status()), "STORE_UNAVAILABLE");
  EXPECT_EQ(Count({"t"}), -1);
  // The first write is the configuration, the second the items.
  store_->Items().BeforeNextWrite([&] { store_->Items().BeforeNextWrite(expire); });
  EXPECT_EQ(ErrorReason(Copy({"a"}, {"t"}).status()), "OUTCOME_UNKNOWN");
  EXPECT_TRUE(engine_->Drain(Far()));
  EXPECT_EQ(Count({"t"}), 1);

  Start(Options());
  store_->Items().BeforeNextDeletion(expire);
  EXPECT_EQ(ErrorReason(Delete({"t"}, false).status()), "OUTCOME_UNKNOWN");
  EXPECT_TRUE(engine_->Drain(Far()));
  EXPECT_EQ(Count({"t"}), -1);
}

// A frame of the stack for each would be more than there is.
TEST_F(NamespaceCallsTest, AnyNumberOfEmptyNamespacesIsCopied) {
  constexpr int kNamespaces = 10'000;
  for (int i = 0; i < kNamespaces; ++i) {
    ASSERT_TRUE(
        items().WriteNamespace(Key({"a", std::to_string(i)}), {.subject = "ada"}, 1).value());
  }
  const auto copied = Copy({"a"}, {"t"});
  ASSERT_TRUE(copied.ok()) << copied.status();
  EXPECT_EQ(copied->namespaces, kNamespaces);
  EXPECT_EQ(copied->items, 0);
  EXPECT_EQ(Row({"t", "7"})->subject, "") << "configurations are copied without their subjects";
}

}  // namespace
}  // namespace memoryd
