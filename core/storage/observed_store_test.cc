#include "core/storage/observed_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/base/error_cause.h"
#include "core/base/field_path.h"
#include "core/items/item.h"
#include "core/items/namespace_path.h"
#include "core/model/job.h"
#include "core/storage/item_batch.h"
#include "core/storage/item_store.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"
#include "tests/support/faulty_store.h"

namespace memoryd {
namespace {

class ObservedStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    StoreOptions options;
    options.url = "sqlite::memory:";
    auto store = OpenStore(options);
    ASSERT_TRUE(store.ok()) << store.status();
    real_ = *std::move(store);
    faulty_ = std::make_unique<FaultyStore>(real_.get());
    store_ = std::make_unique<ObservedStore>(faulty_.get());
    ASSERT_TRUE(store_->Migrate().ok());
  }

  static SessionChange Create(const std::string& session) {
    SessionChange change;
    change.key = {"tenant", session};
    change.row.generation = 1;
    change.row.revision = 1;
    return change;
  }
  std::uint64_t Calls(StoreOperation operation) const {
    const auto counts =
        store_->stats().seconds[static_cast<std::size_t>(operation)].Snapshot().counts;
    return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  }
  std::uint64_t Errors(StoreOperation operation) const {
    return store_->stats().errors[static_cast<std::size_t>(operation)];
  }
  std::uint64_t Outcomes(CommitOutcome outcome) const {
    return store_->stats().outcomes[static_cast<std::size_t>(outcome)];
  }

  std::unique_ptr<Store> real_;
  std::unique_ptr<FaultyStore> faulty_;
  std::unique_ptr<ObservedStore> store_;
};

TEST_F(ObservedStoreTest, ACommitCountsOnceAndEachOfItsChangesByOutcome) {
  const std::vector<SessionChange> changes = {Create("a"), Create("b")};
  EXPECT_EQ(store_->Commit(changes)[1].outcome, CommitOutcome::kCommitted);
  EXPECT_EQ(store_->Commit(changes)[1].outcome, CommitOutcome::kRevisionLost);
  EXPECT_EQ(Calls(StoreOperation::kCommit), 2u);
  EXPECT_EQ(store_->stats().batch_sessions.Snapshot().sum, 4);
  EXPECT_EQ(Outcomes(CommitOutcome::kCommitted), 2u);
  EXPECT_EQ(Outcomes(CommitOutcome::kRevisionLost), 2u);
  EXPECT_EQ(Errors(StoreOperation::kCommit), 0u) << "losing a race is no error";

  faulty_->AnswerNext(CommitOutcome::kUnknown, absl::UnavailableError("lost"));
  faulty_->AnswerNext(CommitOutcome::kFailed, absl::UnavailableError("lost"));
  store_->Commit(changes);
  EXPECT_EQ(Outcomes(CommitOutcome::kUnknown), 1u);
  EXPECT_EQ(Outcomes(CommitOutcome::kFailed), 1u);
  EXPECT_EQ(Errors(StoreOperation::kCommit), 1u);
}

TEST_F(ObservedStoreTest, AReadThatFailsIsAnErrorOfItsOperation) {
  EXPECT_TRUE(store_->LoadSession({"tenant", "a"}, kAllActive).ok());
  faulty_->FailReads(absl::UnavailableError("away"));
  EXPECT_FALSE(store_->LoadSession({"tenant", "a"}, kAllActive).ok());
  EXPECT_EQ(Calls(StoreOperation::kLoadSession), 2u);
  EXPECT_EQ(Errors(StoreOperation::kLoadSession), 1u);
  EXPECT_EQ(Errors(StoreOperation::kReadRange), 0u);
}

TEST_F(ObservedStoreTest, CallsForItemsCountAndTheirErrorsDo) {
  const std::vector<std::string> names = {"n"};
  const NamespaceKey key{"tenant", NamespacePath::Make(FieldPath(), "namespace", names).value()};
  ItemBatch batch{key};
  batch.writes.push_back({.key = "k", .content = ItemContent{}, .expected_version = 0});
  batch.writes.front().content->value = "1";
  ItemStore& items = store_->Items();
  EXPECT_EQ(items.WriteItems({&batch, 1}, 1).front().outcome, ItemBatchOutcome::kWritten);
  EXPECT_EQ(items.WriteItems({&batch, 1}, 1).front().outcome, ItemBatchOutcome::kVersionLost);
  EXPECT_EQ(Calls(StoreOperation::kWriteItems), 2u);
  EXPECT_EQ(Errors(StoreOperation::kWriteItems), 0u) << "losing a race is no error";
  faulty_->Items().AnswerNext(ItemBatchOutcome::kUnknown, absl::UnavailableError("lost"));
  items.WriteItems({&batch, 1}, 1);
  EXPECT_EQ(Errors(StoreOperation::kWriteItems), 1u);

  const ItemKey item{key, "k"};
  EXPECT_TRUE(items.ReadItems({&item, 1}, 1, false, 1 << 20).ok());
  EXPECT_EQ(ErrorReason(items.ReadItems({&item, 1}, 1, false, 0).status()), "REPLY_TOO_LARGE");
  EXPECT_EQ(Calls(StoreOperation::kReadItems), 2u);
  EXPECT_EQ(Errors(StoreOperation::kReadItems), 0u) << "its size is no trouble of the store's";
  faulty_->FailReads(absl::UnavailableError("away"));
  EXPECT_FALSE(items.FindNamespaces({&key, 1}).ok());
  EXPECT_FALSE(items.DeleteNamespace(key, {}, 1).ok());
  EXPECT_EQ(Errors(StoreOperation::kFindNamespaces), 1u);
  EXPECT_EQ(Errors(StoreOperation::kDeleteNamespace), 1u);
  EXPECT_EQ(Errors(StoreOperation::kListNamespaces), 0u);
}

TEST_F(ObservedStoreTest, ErrorsAreToldWithTheirCause) {
  std::vector<std::pair<StoreOperation, absl::Status>> told;
  ObservedStore store(faulty_.get(), [&told](StoreOperation operation, const absl::Status& error) {
    told.emplace_back(operation, error);
  });
  const std::vector<SessionChange> changes = {Create("a")};
  store.Commit(changes);
  store.Commit(changes);
  EXPECT_TRUE(told.empty());
  faulty_->AnswerNext(CommitOutcome::kFailed, absl::UnavailableError("busy"));
  store.Commit(changes);
  faulty_->FailReads(absl::DataLossError("a row"));
  EXPECT_FALSE(store.LoadSession({"tenant", "a"}, kAllActive).ok());
  ASSERT_EQ(told.size(), 2);
  EXPECT_EQ(told[0], std::pair(StoreOperation::kCommit, absl::UnavailableError("busy")));
  EXPECT_EQ(told[1], std::pair(StoreOperation::kLoadSession, absl::DataLossError("a row")));
}

TEST_F(ObservedStoreTest, ErrorsCountByTheClassOfTheirCause) {
  const auto errors = [this](std::string_view name) {
    for (std::size_t i = 0; i < kStoreErrorClasses.size(); ++i) {
      if (kStoreErrorClasses[i] == name) return std::uint64_t{store_->stats().error_classes[i]};
    }
    ADD_FAILURE() << name;
    return std::uint64_t{0};
  };
  const absl::Status away = absl::UnavailableError("away");
  for (const char* code : {"53100", "53300", "SQLITE_FULL", "99XYZ", ""}) {
    faulty_->FailReads(WithCause(away, code, "x"));
    EXPECT_FALSE(store_->LoadSession({"tenant", "a"}, kAllActive).ok());
  }
  EXPECT_EQ(errors("53"), 2u);
  EXPECT_EQ(errors("SQLITE_FULL"), 1u);
  EXPECT_EQ(errors("other"), 2u);
  EXPECT_EQ(errors("08"), 0u);
}

TEST_F(ObservedStoreTest, ARefusedConfigurationIsAnErrorAndALargeReplyIsNone) {
  faulty_->FailReads(absl::FailedPreconditionError("the store's user lacks a privilege"));
  EXPECT_FALSE(store_->LoadSession({"tenant", "a"}, kAllActive).ok());
  EXPECT_EQ(Errors(StoreOperation::kLoadSession), 1u);
  faulty_->FailReads(ReplyTooLarge());
  EXPECT_FALSE(store_->LoadSession({"tenant", "a"}, kAllActive).ok());
  EXPECT_EQ(Errors(StoreOperation::kLoadSession), 1u);
}

TEST_F(ObservedStoreTest, CallsForJobsAreCountedEachByItsOperation) {
  const JobKey key = {{"tenant", "a"}, 1, "block", 1};
  EXPECT_TRUE(store_->ClaimJobs({1, 1, 1, false}).ok());
  EXPECT_TRUE(store_->RenewJobs(1, {&key, 1}, 1).ok());
  EXPECT_TRUE(store_->ReleaseJob(1, key, 1, "error", {}, true).ok());
  EXPECT_TRUE(store_->ListJobs(key.session, {}).ok());
  EXPECT_TRUE(store_->FindJob(key).ok());
  EXPECT_TRUE(store_->CountJobs().ok());
  for (const StoreOperation operation :
       {StoreOperation::kClaimJobs, StoreOperation::kRenewJobs, StoreOperation::kReleaseJob,
        StoreOperation::kListJobs, StoreOperation::kFindJob, StoreOperation::kCountJobs}) {
    EXPECT_EQ(Calls(operation), 1u);
    EXPECT_EQ(Errors(operation), 0u);
  }
  faulty_->FailReads(absl::UnavailableError("away"));
  EXPECT_FALSE(store_->ClaimJobs({1, 1, 1, false}).ok());
  EXPECT_EQ(Errors(StoreOperation::kClaimJobs), 1u);
}

TEST_F(ObservedStoreTest, OnlyAGoodPingIsAnAnswer) {
  constexpr auto kLong = std::chrono::hours(1);
  EXPECT_FALSE(store_->AnsweredWithin(kLong));
  faulty_->FailPing(absl::UnavailableError("away"));
  EXPECT_FALSE(store_->Ping().ok());
  EXPECT_FALSE(store_->AnsweredWithin(kLong));
  faulty_->FailPing(absl::OkStatus());
  EXPECT_TRUE(store_->Ping().ok());
  EXPECT_TRUE(store_->AnsweredWithin(kLong));
  EXPECT_FALSE(store_->AnsweredWithin(-kLong)) << "the answer is older than the future";
}

TEST_F(ObservedStoreTest, KeepsTheLastDescription) {
  EXPECT_EQ(store_->info().kind, "");
  EXPECT_TRUE(store_->Describe().ok());
  faulty_->FailReads(absl::UnavailableError("away"));
  EXPECT_FALSE(store_->Describe().ok());
  EXPECT_EQ(store_->info().kind, "sqlite");
  EXPECT_GE(store_->info().schema_version, 1);
  EXPECT_EQ(store_->info().durability, Durability::kNone);
}

}  // namespace
}  // namespace memoryd
