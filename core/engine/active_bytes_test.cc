// The bound on what a session has in short-term memory, and sessions that were stored above it.
#include <gmock/gmock.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/engine/engine.h"
#include "core/lifecycle/session_fork.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/sessions/session_info.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"
#include "core/writes/commands/messages.h"
#include "core/writes/commands/put_set_reset.h"
#include "core/writes/found_messages.h"
#include "core/writes/incoming.h"
#include "core/writes/write.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

const SessionKey kKey{"tenant", "session"};
// Seven messages of a text of 1,000 bytes.
constexpr std::int64_t kBound = 10'000;
constexpr std::size_t kHeld = 7;

std::string Text(int number) { return std::string(1000, static_cast<char>('a' + number)); }

class ActiveBytesTest : public EngineTest, public ::testing::WithParamInterface<Coherence> {
 protected:
  void StartBounded(std::int64_t bound) {
    EngineOptions options = Options(GetParam());
    options.max_active_bytes = bound;
    options.sweep_interval = std::chrono::hours(1);
    Start(std::move(options));
  }
  // Policy `fifo` of profile `default`, and with no limit of tokens that counts.
  static SessionSettings Fifo(Profile profile = Profile::kDefault) {
    SessionSettings settings = WordSettings(profile);
    settings.token_limit = 1'000'000'000;
    return settings;
  }
  static SessionSettings Buffer() {
    SessionSettings settings = WordSettings();
    settings.policy = PolicyKind::kBuffer;
    return settings;
  }
  void Create(SessionSettings settings) {
    WriteRequest create = NewWrite(commands::CreateSession(), kKey);
    SettingsOf(create) = std::move(settings);
    MustDo(std::move(create));
  }
  void Fill(SessionSettings settings, int messages) {
    Create(std::move(settings));
    for (int i = 0; i < messages; ++i) MustDo(NewWrite(commands::Put(), kKey, {{"user", Text(i)}}));
  }
  // A session that was stored before there was the bound.
  void FillAbove(SessionSettings settings, int messages) {
    StartBounded(kAllActive);
    Fill(std::move(settings), messages);
    StartBounded(kBound);
  }
  SessionInfo Info() {
    auto promise = std::make_shared<std::promise<absl::StatusOr<SessionInfo>>>();
    auto future = promise->get_future();
    engine_->reads().GetSession(kKey, Far(), [promise](absl::StatusOr<SessionInfo> info) {
      promise->set_value(Detached(std::move(info)));
    });
    auto info = Await(std::move(future));
    EXPECT_TRUE(info.ok()) << info.status();
    return info.value_or(SessionInfo());
  }
  static void ExpectActiveBytes(const absl::Status& status, absl::StatusCode code,
                                const std::string& field) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_EQ(ErrorReason(status), "ACTIVE_BYTES");
    EXPECT_THAT(ErrorDetails(status), Contains(Pair("field", field)));
    EXPECT_THAT(ErrorDetails(status), Contains(Pair("setting", "active_mib")));
    EXPECT_THAT(status.message(), ::testing::HasSubstr("active_mib"));
  }
  void ExpectTooLargeToGet() {
    ExpectActiveBytes(Get(*engine_, kKey).status(), absl::StatusCode::kFailedPrecondition,
                      "session_id");
  }
};

TEST_P(ActiveBytesTest, DefaultArchivesTheOldest) {
  StartBounded(kBound);
  Fill(Fifo(), 10);
  EXPECT_THAT(Bodies(kKey), SizeIs(kHeld));
  EXPECT_EQ(Bodies(kKey).back(), Text(9));
  EXPECT_THAT(AllBodies(kKey), SizeIs(10));
  EXPECT_EQ(Info().row.archived_count, 3);
  EXPECT_EQ(Info().row.active_tokens, 7 * 5);
  // Another server on the same store holds the same messages.
  StartBounded(kBound);
  EXPECT_THAT(Bodies(kKey), SizeIs(kHeld));
  MustDo(NewWrite(commands::Put(), kKey, {{"user", Text(10)}}));
  EXPECT_EQ(Bodies(kKey).back(), Text(10));
}

TEST_P(ActiveBytesTest, APutOfMoreThanTheBoundIsArchivedInPart) {
  StartBounded(kBound);
  std::vector<Line> lines;
  for (int i = 0; i < 20; ++i) lines.push_back({"user", Text(i)});
  MustDo(NewPut(kKey, lines));
  EXPECT_THAT(Bodies(kKey), SizeIs(kHeld));
  EXPECT_THAT(AllBodies(kKey), SizeIs(20));
}

TEST_P(ActiveBytesTest, PinnedMessagesLeaveHalfToTheOthers) {
  StartBounded(kBound);
  Create(Fifo());
  for (int i = 0; i < 6; ++i) MustDo(NewWrite(commands::Put(), kKey, {{"system", Text(i)}}));
  EXPECT_THAT(Info().row.pinned, SizeIs(3));
  for (int i = 6; i < 20; ++i) MustDo(NewWrite(commands::Put(), kKey, {{"user", Text(i)}}));
  EXPECT_THAT(Bodies(kKey),
              ElementsAre(Text(0), Text(1), Text(2), Text(16), Text(17), Text(18), Text(19)));
}

TEST_P(ActiveBytesTest, WhereNothingLeavesThePutIsRefused) {
  for (SessionSettings settings : {Fifo(Profile::kLlamaIndex), Buffer()}) {
    StartBounded(kBound);
    Fill(std::move(settings), kHeld);
    const std::int64_t revision = Info().row.revision;
    const WriteOutcome refused = Do(NewWrite(commands::Put(), kKey, {{"user", Text(7)}}));
    ExpectActiveBytes(refused.status, absl::StatusCode::kResourceExhausted, "messages");
    EXPECT_EQ(Info().row.revision, revision);
    EXPECT_THAT(Bodies(kKey), SizeIs(kHeld));
    // There is room for a small one, and for others once room was made.
    MustDo(NewWrite(commands::Put(), kKey, {{"user", "small"}}));
    MustDo(NewWrite(commands::Reset(), kKey));
    MustDo(NewWrite(commands::Put(), kKey, {{"user", Text(8)}}));
    EXPECT_THAT(Bodies(kKey), ElementsAre(Text(8)));
    std::vector<Line> lines;
    for (int i = 0; i < 8; ++i) lines.push_back({"user", Text(i)});
    ExpectActiveBytes(Do(NewWrite(commands::Set(), kKey, lines)).status,
                      absl::StatusCode::kResourceExhausted, "messages");
    EXPECT_THAT(Bodies(kKey), ElementsAre(Text(8)));
    MustDo(NewWrite(commands::DeleteSession(), kKey));
  }
}

TEST_P(ActiveBytesTest, WhatLeavesByTokensMakesRoomInALibrarysProfile) {
  StartBounded(kBound);
  SessionSettings settings = WordSettings(Profile::kLlamaIndex);
  settings.token_limit = kHeld;
  settings.chat_history_token_ratio = 1;
  settings.token_flush_size = 1;
  Fill(settings, kHeld);
  // Too much with all that is there, and one of those leaves.
  MustDo(NewWrite(commands::Put(), kKey, {{"user", Text(7)}}));
  EXPECT_THAT(Bodies(kKey), SizeIs(kHeld));
  EXPECT_THAT(AllBodies(kKey), SizeIs(kHeld + 1));
}

TEST_P(ActiveBytesTest, OneMessageAboveTheBoundIsInvalid) {
  StartBounded(kBound);
  const std::string text(kBound - kActiveMessageBytes + 1, 'x');
  const WriteOutcome refused = Do(NewPut(kKey, {{"user", "a"}, {"user", text}}));
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status)) << refused.status;
  EXPECT_THAT(refused.status.message(), ::testing::HasSubstr("messages[1]"));
  EXPECT_THAT(refused.status.message(), ::testing::HasSubstr("active_mib"));
  EXPECT_THAT(AllBodies(kKey), IsEmpty());
  MustDo(NewPut(kKey, {{"user", text.substr(1)}}));
  EXPECT_THAT(Bodies(kKey), SizeIs(1));
}

TEST_P(ActiveBytesTest, AnUpdateDoesNotGoAboveTheBound) {
  StartBounded(kBound);
  Fill(Buffer(), 6);
  MustDo(NewWrite(commands::Put(), kKey, {{"user", "short", "the one"}}));
  const auto update = [this](std::string text) {
    commands::UpdateMessage command;
    command.message_id = "the one";
    const auto owned = std::make_shared<const std::string>(std::move(text));
    command.edit = [owned](const FoundMessages& found, IncomingItems& items) {
      IncomingMessage incoming;
      incoming.message = MessageDraft(*found.messages.front());
      incoming.message.body = *owned;
      items.messages = {std::move(incoming)};
      return absl::OkStatus();
    };
    return Do(NewWrite(std::move(command), kKey)).status;
  };
  EXPECT_TRUE(update(Text(7)).ok());
  ExpectActiveBytes(update(std::string(5000, 'x')), absl::StatusCode::kResourceExhausted, "parts");
  EXPECT_EQ(Bodies(kKey).back(), Text(7));
}

TEST_P(ActiveBytesTest, APutArchivesInPiecesWhatWasStoredAboveTheBound) {
  FillAbove(Fifo(), 20);
  ExpectTooLargeToGet();
  MustDo(NewWrite(commands::Put(), kKey, {{"user", "new"}}));
  const std::vector<std::string> bodies = Bodies(kKey);
  EXPECT_THAT(bodies, SizeIs(::testing::AllOf(::testing::Ge(2U), ::testing::Le(kHeld + 1))));
  EXPECT_EQ(bodies.back(), "new");
  std::vector<std::string> all;
  for (int i = 0; i < 20; ++i) all.push_back(Text(i));
  all.emplace_back("new");
  EXPECT_EQ(AllBodies(kKey), all);
  EXPECT_EQ(Info().row.active_count + Info().row.archived_count, 21);
  EXPECT_EQ(Info().row.active_tokens, std::ssize(bodies) * 5);
}

TEST_P(ActiveBytesTest, ALargeTurnIsArchivedMessageByMessage) {
  StartBounded(kAllActive);
  Create(Fifo());
  MustDo(NewWrite(commands::Put(), kKey, {{"user", "question"}}));
  for (int i = 0; i < 20; ++i) MustDo(NewWrite(commands::Put(), kKey, {{"assistant", Text(i)}}));
  StartBounded(kBound);
  MustDo(NewWrite(commands::Put(), kKey, {{"assistant", "end"}}));
  EXPECT_EQ(Bodies(kKey).back(), "end");
  EXPECT_THAT(AllBodies(kKey), SizeIs(22));
}

TEST_P(ActiveBytesTest, AMessageThatAloneIsAboveTheBoundIsArchived) {
  StartBounded(kAllActive);
  Create(Fifo());
  MustDo(NewWrite(commands::Put(), kKey, {{"user", "question"}}));
  MustDo(NewWrite(commands::Put(), kKey, {{"assistant", std::string(2 * kBound, 'x')}}));
  StartBounded(kBound);
  ExpectTooLargeToGet();
  MustDo(NewWrite(commands::Put(), kKey, {{"user", "next"}}));
  EXPECT_THAT(Bodies(kKey), ElementsAre("next"));
  EXPECT_THAT(AllBodies(kKey), SizeIs(3));
}

TEST_P(ActiveBytesTest, CallsOnASessionAboveTheBoundDoNotReadItWhole) {
  FillAbove(Buffer(), 20);
  const std::size_t rows = store_->range_rows();
  EXPECT_EQ(Info().row.active_count, 20);
  ExpectTooLargeToGet();
  ExpectActiveBytes(Do(NewWrite(commands::Put(), kKey, {{"user", "a"}})).status,
                    absl::StatusCode::kFailedPrecondition, "session_id");
  WriteRequest update = NewWrite(commands::UpdateSession(), kKey);
  SettingsOf(update).emplace().token_limit = 77;
  MustDo(std::move(update));
  EXPECT_EQ(Info().config->token_limit, 77);
  EXPECT_EQ(store_->range_rows(), rows);
  EXPECT_THAT(AllBodies(kKey, 3), SizeIs(20));

  // Message by message, until it can be read.
  const std::uint64_t generation = Info().row.generation;
  for (std::int64_t position = 1; position <= 13; ++position) {
    ExpectTooLargeToGet();
    MessageDraft named;
    named.position = position;
    MustDo(NewWrite(commands::DeleteMessage{MessageId(*MessagePtr(named), generation)}, kKey));
    EXPECT_EQ(Info().row.active_count, 20 - position);
  }
  EXPECT_THAT(Bodies(kKey), SizeIs(kHeld));
  EXPECT_EQ(Info().row.message_bytes, 7000);
  MustDo(NewWrite(commands::Put(), kKey, {{"user", "a"}}));
}

TEST_P(ActiveBytesTest, ResetSetAndDeleteMakeItSmall) {
  FillAbove(Buffer(), 20);
  WriteRequest reset = NewWrite(commands::Reset{ResetScope::kActive}, kKey);
  MustDo(std::move(reset));
  EXPECT_THAT(Bodies(kKey), IsEmpty());
  EXPECT_EQ(Info().row.message_bytes, 0);
  MustDo(NewWrite(commands::Put(), kKey, {{"user", "a"}}));
  EXPECT_THAT(Bodies(kKey), ElementsAre("a"));
  MustDo(NewWrite(commands::DeleteSession(), kKey));

  FillAbove(Fifo(), 20);
  MustDo(NewWrite(commands::Set(), kKey, {{"user", "b"}}));
  EXPECT_THAT(Bodies(kKey), ElementsAre("b"));
  MustDo(NewWrite(commands::Put(), kKey, {{"user", "c"}}));
  EXPECT_THAT(Bodies(kKey), ElementsAre("b", "c"));
  MustDo(NewWrite(commands::DeleteSession(), kKey));

  FillAbove(Buffer(), 20);
  MustDo(NewWrite(commands::DeleteSession(), kKey));
  EXPECT_FALSE(Info().exists());
  EXPECT_THAT(Bodies(kKey), IsEmpty());
}

TEST_P(ActiveBytesTest, PinnedMessagesOfASessionAboveTheBoundStayPinned) {
  StartBounded(kAllActive);
  Create(Fifo());
  MustDo(NewWrite(commands::Put(), kKey, {{"system", "rules"}}));
  for (int i = 0; i < 20; ++i) MustDo(NewWrite(commands::Put(), kKey, {{"user", Text(i)}}));
  StartBounded(kBound);
  EXPECT_THAT(Info().row.pinned, ElementsAre(1));
  MustDo(NewWrite(commands::Put(), kKey, {{"user", "new"}}));
  EXPECT_EQ(Bodies(kKey).front(), "rules");
  EXPECT_EQ(Bodies(kKey).back(), "new");

  StartBounded(kAllActive);
  for (int i = 0; i < 20; ++i) MustDo(NewWrite(commands::Put(), kKey, {{"user", Text(i)}}));
  StartBounded(kBound);
  ExpectTooLargeToGet();
  WriteRequest reset = NewWrite(commands::Reset{ResetScope::kActive}, kKey);
  MustDo(std::move(reset));
  EXPECT_THAT(Bodies(kKey), IsEmpty());
  EXPECT_THAT(Info().row.pinned, IsEmpty());
}

TEST_P(ActiveBytesTest, ArchivedMessagesOfASessionAboveTheBoundCanBeRemoved) {
  StartBounded(kBound);
  Fill(Fifo(), 10);
  StartBounded(kAllActive);
  for (int i = 0; i < 10; ++i) MustDo(NewWrite(commands::Put(), kKey, {{"user", Text(10 + i)}}));
  StartBounded(kBound);
  ExpectTooLargeToGet();
  WriteRequest reset = NewWrite(commands::Reset{ResetScope::kArchived}, kKey);
  MustDo(std::move(reset));
  EXPECT_EQ(Info().row.archived_count, 0);
  EXPECT_EQ(Info().row.message_bytes, 17'000);
  EXPECT_THAT(AllBodies(kKey), SizeIs(17));
}

TEST_P(ActiveBytesTest, AForkOfASessionAboveTheBoundIsRefused) {
  FillAbove(Buffer(), 20);
  ForkRequest fork;
  fork.source = kKey;
  fork.target = {"tenant", "copy"};
  fork.deadline = Far();
  fork.encode_reply = &ReadableReply;
  auto promise = std::make_shared<std::promise<absl::Status>>();
  engine_->lifecycle().ForkSession(std::move(fork), [promise](absl::StatusOr<ForkReply> reply) {
    promise->set_value(Detached(reply.status()));
  });
  ExpectActiveBytes(Await(promise->get_future()), absl::StatusCode::kFailedPrecondition,
                    "session_id");
}

INSTANTIATE_TEST_SUITE_P(Coherences, ActiveBytesTest,
                         ::testing::Values(Coherence::kExclusive, Coherence::kShared),
                         [](const auto& coherence) {
                           return coherence.param == Coherence::kShared ? "Shared" : "Exclusive";
                         });

}  // namespace
}  // namespace memoryd
