#include "core/lifecycle/subject_erase.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/field_path.h"
#include "core/items/namespace_path.h"
#include "core/model/session.h"
#include "core/sessions/session.h"
#include "core/storage/item_store.h"
#include "core/storage/store.h"
#include "core/writes/write.h"
#include "core/writes/write_queue.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/fake_clock.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

using ::testing::IsEmpty;

class SubjectEraseTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    Start(Options());
  }

  void PutFor(const SessionKey& key, const std::string& subject, const std::string& request_id) {
    WriteRequest put = NewPut(key, {{"user", "a"}, {"user", "b"}});
    if (!subject.empty()) SettingsOf(put)->subject = subject;
    put.request_id = request_id;
    put.fingerprint = "fingerprint of " + request_id;
    MustDo(std::move(put));
  }

  absl::StatusOr<EraseReceipt> Erase(const std::string& subject, bool dry_run = false) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<EraseReceipt>>>();
    auto future = promise->get_future();
    engine_->lifecycle().EraseSubject({"tenant", subject, dry_run, Far()},
                                      [promise](absl::StatusOr<EraseReceipt> receipt) {
                                        promise->set_value(Detached(std::move(receipt)));
                                      });
    return Await(std::move(future));
  }
  EraseReceipt MustErase(const std::string& subject, bool dry_run = false) {
    auto receipt = Erase(subject, dry_run);
    EXPECT_TRUE(receipt.ok()) << receipt.status();
    return receipt.value_or(EraseReceipt());
  }
  bool HasGarbage() {
    const auto garbage = real_->ListGarbage("tenant", "", 10);
    EXPECT_TRUE(garbage.ok());
    return !garbage->empty();
  }
};

TEST_F(SubjectEraseTest, WhatOfTheSubjectIsThereGoesAndIsCounted) {
  PutFor({"tenant", "a1"}, "ada", "r1");
  PutFor({"tenant", "a2"}, "ada", "r2");
  PutFor({"tenant", "b"}, "bob", "r3");
  PutFor({"tenant", "n"}, "", "r4");
  PutFor({"other", "a1"}, "ada", "r5");
  const EraseReceipt counted = MustErase("ada", /*dry_run=*/true);
  EXPECT_FALSE(counted.purged);
  EXPECT_THAT(Bodies(SessionKey{"tenant", "a1"}), testing::SizeIs(2));

  const EraseReceipt erased = MustErase("ada");
  EXPECT_TRUE(erased.purged);
  EXPECT_EQ(erased.left, "");
  EXPECT_EQ(erased.removed, (SessionCounts{2, 4, 0, 0, 0, 0}));
  EXPECT_EQ(erased.replies, 2);
  EXPECT_EQ(counted.removed, erased.removed);
  EXPECT_EQ(counted.replies, erased.replies);
  EXPECT_FALSE(HasGarbage());
  EXPECT_THAT(Bodies(SessionKey{"tenant", "a1"}), IsEmpty());
  for (const SessionKey& key :
       {SessionKey{"tenant", "b"}, SessionKey{"tenant", "n"}, SessionKey{"other", "a1"}}) {
    EXPECT_THAT(Bodies(key), testing::SizeIs(2));
  }
  const EraseReceipt again = MustErase("ada");
  EXPECT_TRUE(again.purged);
  EXPECT_EQ(again.removed, SessionCounts());
  EXPECT_EQ(again.replies, 0);
}

TEST_F(SubjectEraseTest, ItIsPurgedOnceNobodyReadsItsTraces) {
  PutFor({"tenant", "a"}, "ada", "r");
  store_->ReadTraces(5);
  EXPECT_TRUE(MustErase("ada").purged);
  PutFor({"tenant", "b"}, "ada", "r");
  store_->ReadTraces(1'000'000);
  const EraseReceipt held = MustErase("ada");
  EXPECT_FALSE(held.purged);
  EXPECT_EQ(held.left, "LOG_READ");
  EXPECT_EQ(held.left_elsewhere, "");
  EXPECT_EQ(held.removed.sessions, 1);
  store_->ReadTraces(0);
  const EraseReceipt rest = MustErase("ada");
  EXPECT_TRUE(rest.purged);
  EXPECT_EQ(rest.removed, SessionCounts());
}

TEST_F(SubjectEraseTest, ACallRepeatedAfterwardsStoresNothing) {
  const SessionKey key{"tenant", "a"};
  PutFor(key, "ada", "r");
  MustErase("ada");
  WriteRequest again = NewPut(key, {{"user", "a"}, {"user", "b"}});
  SettingsOf(again)->subject = "ada";
  again.request_id = "r";
  again.fingerprint = "fingerprint of r";
  EXPECT_EQ(ErrorReason(Do(std::move(again)).status), "REQUEST_FORGOTTEN");
  EXPECT_THAT(Bodies(key), IsEmpty());
  PutFor(key, "", "r2");
  EXPECT_THAT(Bodies(key), testing::SizeIs(2));
}

TEST_F(SubjectEraseTest, RepliesOfASessionDeletedBeforeGoToo) {
  const SessionKey key{"tenant", "a"};
  PutFor(key, "ada", "r");
  MustDo(NewWrite(commands::DeleteSession(), key, {}));
  const EraseReceipt erased = MustErase("ada");
  EXPECT_EQ(erased.removed, SessionCounts());
  EXPECT_EQ(erased.replies, 1);
  EXPECT_TRUE(erased.purged);
  const std::string id = "r";
  const auto records = real_->FindRequests(key, {&id, 1});
  ASSERT_TRUE(records.ok() && records->front().has_value());
  EXPECT_EQ(records->front()->reply, "");
  EXPECT_EQ(records->front()->fingerprint, "");
}

TEST_F(SubjectEraseTest, ANamespaceThatIsGivenAwayMeanwhileStays) {
  const auto key = [](const std::string& name) {
    const std::vector<std::string> names = {name};
    return NamespaceKey{"tenant", NamespacePath::Make(FieldPath(), "namespace", names).value()};
  };
  const auto row = [&](const std::string& name) {
    const NamespaceKey asked = key(name);
    return real_->Items().FindNamespaces({&asked, 1}).value().front();
  };
  for (const std::string name : {"a", "b"}) {
    ASSERT_TRUE(real_->Items().WriteNamespace(key(name), {.subject = "ada"}, 1).value());
  }
  store_->Items().BeforeNextDeletion([&] {
    const NamespaceChange given{.expected_config_version = row("a")->config_version,
                                .subject = "bob"};
    ASSERT_TRUE(real_->Items().WriteNamespace(key("a"), given, 1).value());
  });
  const EraseReceipt erased = MustErase("ada");
  EXPECT_TRUE(erased.purged);
  EXPECT_EQ(erased.namespaces, 1);
  ASSERT_TRUE(row("a").has_value());
  EXPECT_EQ(row("a")->subject, "bob");
  EXPECT_FALSE(row("b").has_value());
}

TEST_F(SubjectEraseTest, WhatEndsWhileItErasesDoesNotSayThatNothingWasChanged) {
  const std::vector<std::string> names = {"a"};
  const NamespaceKey key{"tenant", NamespacePath::Make(FieldPath(), "namespace", names).value()};
  const auto erase_while = [&](const std::function<void()>& what) {
    EXPECT_TRUE(real_->Items().WriteNamespace(key, {.subject = "ada"}, 1).value());
    store_->Items().BeforeNextDeletion(what);
    std::string reason = ErrorReason(Erase("ada").status());
    // An erasure that was answered may still be at it.
    EXPECT_TRUE(engine_->Drain(Far()));
    Start(Options());
    return reason;
  };
  EXPECT_EQ(erase_while([this] { engine_->ExpirePending(); }), "OUTCOME_UNKNOWN");
  EXPECT_EQ(erase_while([this] { store_->FailReads(absl::UnavailableError("down")); }),
            "OUTCOME_UNKNOWN");
  EXPECT_EQ(ErrorReason(Erase("ada").status()), "STORE_UNAVAILABLE") << "it had not begun";
  store_->FailReads(absl::OkStatus());
  EXPECT_TRUE(MustErase("ada").purged);
}

// An erasure whose writes change nothing, all of it on this thread.
class IdleErase : private WriteQueue {
 public:
  explicit IdleErase(Store* store) {
    options_.store = store;
    options_.run = [](const std::function<void()>& task) { task(); };
    options_.writes = this;
    options_.begin_write = [] { return true; };
    options_.clock = &clock_;
    options_.forget = [](const SessionKey&) {};
    options_.done = [this](absl::StatusOr<EraseReceipt> receipt) { receipt_ = std::move(receipt); };
  }

  EraseReceipt Run(Engine::Deadline deadline) {
    std::make_shared<SubjectErase>(options_, EraseRequest{"tenant", "ada", false, deadline})
        ->Start();
    EXPECT_TRUE(receipt_.ok()) << receipt_.status();
    return receipt_.value_or(EraseReceipt());
  }
  int writes() const { return writes_; }

 private:
  void Submit(WriteRequest /*write*/, Write::Done done) override {
    ++writes_;
    done(WriteReply());
  }

  const FakeClock clock_{[] { return std::int64_t{1}; }};
  SubjectErase::Options options_;
  absl::StatusOr<EraseReceipt> receipt_ = absl::UnknownError("not answered");
  int writes_ = 0;
};

TEST_F(SubjectEraseTest, ACallWithoutTimeSaysThatMoreIsLeft) {
  PutFor({"tenant", "a"}, "ada", "r");
  IdleErase erase(store_.get());
  const EraseReceipt receipt = erase.Run(std::chrono::steady_clock::now());
  EXPECT_FALSE(receipt.purged);
  EXPECT_EQ(receipt.left, "DEADLINE");
  EXPECT_EQ(erase.writes(), 0);
}

TEST_F(SubjectEraseTest, ASubjectThatIsThereAgainAndAgainIsStillWritten) {
  PutFor({"tenant", "a"}, "ada", "r");
  IdleErase erase(store_.get());
  const EraseReceipt receipt = erase.Run(Far());
  EXPECT_FALSE(receipt.purged);
  EXPECT_EQ(receipt.left, "STILL_WRITTEN");
  EXPECT_EQ(erase.writes(), 6);
}

TEST_F(SubjectEraseTest, AfterAnErrorTheNextCallGoesOn) {
  PutFor({"tenant", "a1"}, "ada", "r1");
  PutFor({"tenant", "a2"}, "ada", "r2");
  store_->AnswerNext(CommitOutcome::kCommitted, absl::OkStatus(), /*stored=*/true);
  store_->AnswerNext(CommitOutcome::kUnknown, absl::UnavailableError("lost"), /*stored=*/true);
  EXPECT_EQ(ErrorReason(Erase("ada").status()), "OUTCOME_UNKNOWN");
  const EraseReceipt rest = MustErase("ada");
  EXPECT_TRUE(rest.purged);
  EXPECT_EQ(rest.removed.sessions, 1);
  EXPECT_FALSE(HasGarbage());
}

}  // namespace
}  // namespace memoryd
