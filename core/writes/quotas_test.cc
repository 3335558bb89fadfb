#include "core/writes/quotas.h"

#include <gmock/gmock.h>

#include <cstddef>
#include <cstdint>
#include <future>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/calls/executor.h"
#include "core/engine/engine.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"
#include "core/writes/write.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

using ::testing::Contains;
using ::testing::Pair;

const SessionKey kKey{"tenant", "session"};

class QuotasTest : public EngineTest {
 protected:
  // "free" has no quota.
  EngineOptions WithQuota(Quota quota, Coherence coherence = Coherence::kExclusive) {
    EngineOptions options = Options(coherence);
    options.quota_of = [quota](std::string_view tenant) {
      return tenant == "free" ? Quota() : quota;
    };
    return options;
  }

  static void ExpectExceeded(const WriteOutcome& outcome, const std::string& quota,
                             std::int64_t used) {
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kResourceExhausted) << outcome.status;
    EXPECT_EQ(ErrorReason(outcome.status), "QUOTA_EXCEEDED");
    const ErrorValues values = ErrorDetails(outcome.status);
    EXPECT_THAT(values, Contains(Pair("quota", quota)));
    EXPECT_THAT(values, Contains(Pair("used", std::to_string(used))));
    for (const auto& [key, value] : values) EXPECT_NE(key, kRetryAfterMs);
  }
};

TEST_F(QuotasTest, MessagesCountUntilTheyAreRemoved) {
  Start(WithQuota({.messages = 3}));
  MustDo(NewPut(kKey, {{"user", "a"}, {"user", "b"}}));
  ExpectExceeded(Do(NewPut(kKey, {{"user", "c"}, {"user", "d"}})), "messages", 2);
  MustDo(WithContents(NewPut({"tenant", "other"}, {}), {{"a content counts too"}}));
  ExpectExceeded(Do(NewPut(kKey, {{"user", "c"}})), "messages", 3);
  EXPECT_EQ(engine_->stats().refused_messages, 2U);
  MustDo(NewWrite(commands::DeleteSession(), {"tenant", "other"}));
  MustDo(NewPut(kKey, {{"user", "c"}}));
  EXPECT_THAT(Bodies(kKey), ::testing::ElementsAre("a", "b", "c"));
  MustDo(NewWrite(commands::Reset(), kKey));
  MustDo(NewPut(kKey, {{"user", "e"}, {"user", "f"}, {"user", "g"}}));
}

TEST_F(QuotasTest, AQuotaMayChangeAndComeAndGo) {
  Quota quota;
  EngineOptions options = Options(Coherence::kExclusive);
  options.quota_of = [&quota](std::string_view) { return quota; };
  Start(options);
  MustDo(NewPut(kKey, {{"user", "a"}, {"user", "b"}}));
  quota.messages = 2;
  ExpectExceeded(Do(NewPut(kKey, {{"user", "c"}})), "messages", 2);
  quota.messages = 3;
  MustDo(NewPut(kKey, {{"user", "c"}}));
  quota = Quota();
  MustDo(NewPut(kKey, {{"user", "d"}}));
  quota.messages = 4;
  ExpectExceeded(Do(NewPut(kKey, {{"user", "e"}})), "messages", 4);
}

TEST_F(QuotasTest, SessionsCountAndAnotherTenantsDoNot) {
  Start(WithQuota({.sessions = 2}));
  MustDo(NewPut(kKey, {{"user", "a"}}));
  MustDo(NewWrite(commands::CreateSession(), {"tenant", "second"}));
  ExpectExceeded(Do(NewWrite(commands::CreateSession(), {"tenant", "third"})), "sessions", 2);
  ExpectExceeded(Do(NewPut({"tenant", "third"}, {{"user", "a"}})), "sessions", 2);
  MustDo(NewPut(kKey, {{"user", "a session that is there grows"}}));
  MustDo(NewPut({"another", "session"}, {{"user", "a"}}));
  for (const char* session : {"1", "2", "3"}) MustDo(NewPut({"free", session}, {{"user", "a"}}));
}

TEST_F(QuotasTest, BytesCountAndASetTakesWhatItGivesBack) {
  const std::int64_t config = std::ssize(WordSettings().ToJson());
  Start(WithQuota({.bytes = config + 10}));
  MustDo(NewPut(kKey, {{"user", "12345678"}}));
  ExpectExceeded(Do(NewPut(kKey, {{"user", "123"}})), "bytes", config + 8);
  MustDo(NewWrite(commands::Set(), kKey, {{"user", "1234567890"}}));
  ExpectExceeded(Do(NewWrite(commands::Set(), kKey, {{"user", "12345678901"}})), "bytes",
                 config + 10);
  MustDo(NewWrite(commands::Set(), kKey, {{"user", "1"}}));
  MustDo(NewPut(kKey, {{"user", "23456789"}}));
}

TEST_F(QuotasTest, ConfigurationsCount) {
  Start(WithQuota({.bytes = 1000}));
  const auto with_text = [](WriteCommand command, const SessionKey& key, std::size_t bytes) {
    WriteRequest write = NewWrite(std::move(command), key);
    BlockSettings block;
    block.name = "rules";
    block.kind = "static";
    block.content = {std::string(bytes, '\0')};
    SettingsOf(write).emplace().blocks = {block};
    return write;
  };
  const SessionKey other{"tenant", "other"};
  ExpectExceeded(Do(with_text(commands::CreateSession(), kKey, 1000)), "bytes", 0);
  MustDo(with_text(commands::CreateSession(), kKey, 300));
  const std::int64_t used = real_->ReadUsage("tenant")->bytes;
  EXPECT_GE(used, 300);
  ExpectExceeded(Do(with_text(commands::CreateSession(), other, 600)), "bytes", used);
  ExpectExceeded(Do(with_text(commands::Put(), other, 600)), "bytes", used);
  ExpectExceeded(Do(with_text(commands::UpdateSession(), kKey, 1000)), "bytes", used);
  MustDo(with_text(commands::UpdateSession(), kKey, 1));
  MustDo(with_text(commands::CreateSession(), other, 300));
  // By what is counted along, and by what is stored.
  const std::int64_t both = real_->ReadUsage("tenant")->bytes;
  ExpectExceeded(Do(with_text(commands::CreateSession(), {"tenant", "third"}, 600)), "bytes", both);
  MustDo(NewWrite(commands::DeleteSession(), kKey));
  MustDo(NewWrite(commands::DeleteSession(), other));
  ExpectExceeded(Do(with_text(commands::CreateSession(), kKey, 1000)), "bytes", 0);
}

TEST_F(QuotasTest, WhatWasStoredBeforeTheStartCounts) {
  Start(Options());
  MustDo(NewPut(kKey, {{"user", "a"}, {"user", "b"}}));
  Start(WithQuota({.messages = 2}));
  ExpectExceeded(Do(NewPut(kKey, {{"user", "c"}})), "messages", 2);
}

TEST_F(QuotasTest, ARepeatedRequestGetsItsReplyAlsoWhereThereIsNoRoomLeft) {
  Start(WithQuota({.messages = 1}));
  MustDo(WithRequestId(NewPut(kKey, {{"user", "a"}}), "r"));
  const WriteOutcome again = Do(WithRequestId(NewPut(kKey, {{"user", "a"}}), "r"));
  EXPECT_TRUE(again.status.ok()) << again.status;
  EXPECT_TRUE(again.replayed);
}

TEST_F(QuotasTest, WritesThatMeetInABatchShareTheRoom) {
  Start(WithQuota({.messages = 3}));
  store_->StallCommits();
  std::vector<std::future<WriteOutcome>> puts;
  for (int i = 0; i < 8; ++i) {
    puts.push_back(Submit(NewPut({"tenant", std::to_string(i % 4)}, {{"user", "a"}})));
  }
  store_->AwaitStalled(1);
  store_->ReleaseCommits();
  int stored = 0;
  for (auto& put : puts) stored += Await(std::move(put)).status.ok() ? 1 : 0;
  EXPECT_EQ(stored, 3);
  EXPECT_EQ(real_->ReadUsage("tenant")->messages, 3);
}

TEST_F(QuotasTest, AWriteThatFailsGivesItsRoomBack) {
  Start(WithQuota({.messages = 1}));
  store_->AnswerNext(CommitOutcome::kFailed, absl::UnavailableError("away"));
  EXPECT_FALSE(Do(NewPut(kKey, {{"user", "a"}})).status.ok());
  MustDo(NewPut(kKey, {{"user", "a"}}));
}

TEST_F(QuotasTest, AStoreThatDoesNotTellStoresNothing) {
  Start(WithQuota({.messages = 1}));
  store_->FailReads(absl::UnavailableError("away"));
  EXPECT_TRUE(absl::IsUnavailable(Do(NewPut(kKey, {{"user", "a"}})).status));
  store_->FailReads(absl::OkStatus());
  MustDo(NewPut(kKey, {{"user", "a"}}));
}

TEST_F(QuotasTest, ARefreshCountsWhatOtherServersDid) {
  Start(Options());
  EngineStats stats;
  Executor executor(1, 10, &stats.exceptions);
  Quotas quotas(
      store_.get(), [](std::string_view) { return Quota{.messages = 2}; }, &executor, &stats);
  std::promise<absl::Status> read;
  quotas.Read("tenant", [&read](const absl::Status& status) { read.set_value(Detached(status)); });
  ASSERT_TRUE(Await(read.get_future()).ok());
  TenantUsage reserved;
  ASSERT_TRUE(quotas.Reserve("tenant", {.messages = 2}, reserved).ok());
  quotas.Settle("tenant", reserved, CommitOutcome::kFailed, {});
  MustDo(NewPut(kKey, {{"user", "by another"}}));
  quotas.Refresh();
  reserved = {};
  EXPECT_FALSE(quotas.Reserve("tenant", {.messages = 2}, reserved).ok());
  EXPECT_EQ(reserved, TenantUsage());
  EXPECT_TRUE(quotas.Reserve("tenant", {.messages = 1}, reserved).ok());
  // What is unknown only the store can tell.
  quotas.Settle("tenant", reserved, CommitOutcome::kUnknown, {.messages = 1});
  EXPECT_FALSE(quotas.Knows("tenant"));
}

}  // namespace
}  // namespace memoryd
