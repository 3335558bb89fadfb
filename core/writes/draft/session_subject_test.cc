// Whom a session is about, and what deletion leaves of it.
#include <gmock/gmock.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/model/session_config.h"
#include "core/storage/store.h"
#include "core/writes/commands/sessions.h"
#include "core/writes/commands/staged.h"
#include "core/writes/write.h"
#include "tests/support/session_draft_fixture.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::Field;
using ::testing::IsEmpty;

class SessionSubjectTest : public SessionDraftTest {
 protected:
  WriteRequest Create(const std::string& subject) {
    SessionSettings settings = WordSettings();
    settings.subject = subject;
    return WithSettings(commands::CreateSession(), settings);
  }
  WriteRequest PutWithId(const std::string& request_id) {
    WriteRequest put =
        session_.exists() ? Plain(commands::Put(), {{"user", "a"}}) : Put({{"user", "a"}});
    put.request_id = request_id;
    put.fingerprint = "fingerprint";
    return put;
  }
};

TEST_F(SessionSubjectTest, TheRowFollowsTheConfiguration) {
  MustStore(Create("ada"));
  EXPECT_EQ(change_->row.subject, "ada");
  SessionSettings settings;
  settings.token_limit = 50;
  MustStore(WithSettings(commands::UpdateSession(), settings));
  EXPECT_EQ(change_->row.subject, "ada");
  EXPECT_EQ(session_.config->subject, "ada");
  settings.subject = "";
  MustStore(WithSettings(commands::UpdateSession(), settings));
  EXPECT_EQ(change_->row.subject, "");
  EXPECT_EQ(session_.config->subject, "");
  EXPECT_TRUE(change_->write_config);
}

TEST_F(SessionSubjectTest, ASessionIsDeletedOnlyForItsOwnSubject) {
  MustStore(Create("ada"));
  MustStore(Plain(commands::Put(), {{"user", "a"}}));
  for (const std::string other : {"bob", "ad", "ada "}) {
    EXPECT_EQ(Apply(Plain(commands::DeleteSession{other})).kind, DecisionKind::kUnchanged);
  }
  EXPECT_EQ(Apply(Plain(commands::ForgetSession{"ada"})).kind, DecisionKind::kUnchanged);
  EXPECT_TRUE(session_.exists());
  MustStore(Plain(commands::DeleteSession{"ada"}));
  EXPECT_FALSE(session_.exists());
}

// ---- callers of one subject ----

TEST_F(SessionSubjectTest, ACallersSessionIsOfHisSubject) {
  WriteRequest put = Put({{"user", "a"}});
  put.subject = "ada";
  MustStore(std::move(put));
  EXPECT_EQ(change_->row.subject, "ada");
  EXPECT_EQ(session_.config->subject, "ada");
}

TEST_F(SessionSubjectTest, ACallerMakesNoSessionOfAnother) {
  for (const char* other : {"bob", ""}) {
    WriteRequest create = Create(other);
    create.subject = "ada";
    const auto decision = Apply(std::move(create));
    EXPECT_EQ(ErrorReason(decision.status), "SUBJECT_NOT_GRANTED") << other;
    EXPECT_EQ(ErrorDetails(decision.status), (ErrorValues{{"field", "config.subject"}}));
    EXPECT_FALSE(session_.exists());
  }
}

TEST_F(SessionSubjectTest, NothingOfAnothersSessionIsWritten) {
  MustStore(Create("bob"));
  MustStore(PutWithId("r"));
  std::vector<WriteRequest> writes;
  writes.push_back(PutWithId("r"));  // Whose reply is known.
  writes.push_back(Plain(commands::Put(), {{"user", "b"}}));
  writes.push_back(Plain(commands::Set(), {{"user", "b"}}));
  writes.push_back(Plain(commands::Reset()));
  writes.push_back(Plain(commands::DeleteSession()));
  writes.push_back(WithSettings(commands::UpdateSession(), SessionSettings()));
  writes.push_back(Create("ada"));
  for (WriteRequest& write : writes) {
    write.subject = "ada";
    const auto decision = Apply(std::move(write));
    EXPECT_EQ(decision.kind, DecisionKind::kRefused);
    EXPECT_EQ(ErrorReason(decision.status), "SUBJECT_NOT_GRANTED");
    EXPECT_EQ(session_.config->subject, "bob");
  }
}

TEST_F(SessionSubjectTest, ACallerGivesHisSessionToNobody) {
  WriteRequest create = Create("ada");
  create.subject = "ada";
  MustStore(std::move(create));
  for (const char* other : {"bob", ""}) {
    SessionSettings settings;
    settings.subject = other;
    WriteRequest update = WithSettings(commands::UpdateSession(), settings);
    update.subject = "ada";
    EXPECT_EQ(ErrorReason(Apply(std::move(update)).status), "SUBJECT_NOT_GRANTED");
  }
  SessionSettings own;
  own.token_limit = 70;
  WriteRequest update = WithSettings(commands::UpdateSession(), own);
  update.subject = "ada";
  MustStore(std::move(update));
  EXPECT_EQ(session_.config->subject, "ada");
}

TEST_F(SessionSubjectTest, ADeletedSessionsIdIsFree) {
  MustStore(Create("bob"));
  MustStore(Plain(commands::DeleteSession()));
  WriteRequest put = Put({{"user", "a"}});
  put.subject = "ada";
  MustStore(std::move(put));
  EXPECT_EQ(change_->row.subject, "ada");
}

TEST_F(SessionSubjectTest, ATombstoneKeepsItUntilItsRepliesAreForgotten) {
  MustStore(Create("ada"));
  MustStore(PutWithId("r"));
  MustStore(Plain(commands::DeleteSession()));
  EXPECT_EQ(change_->row.subject, "ada");
  EXPECT_EQ(session_.config->subject, "");
  EXPECT_EQ(change_->forget_requests_before_us, 0);
  EXPECT_EQ(Apply(PutWithId("r")).kind, DecisionKind::kReplay);

  const std::int64_t deleted_us = session_.row.update_us;
  MustStore(Plain(commands::ForgetSession{"ada"}));
  EXPECT_EQ(change_->row.subject, "");
  EXPECT_THAT(change_->garbage, IsEmpty());
  EXPECT_EQ(change_->forget_requests_before_us, deleted_us + 1);
  EXPECT_EQ(session_.recent_requests.size(), 0U);
  EXPECT_EQ(Apply(Plain(commands::ForgetSession{"ada"})).kind, DecisionKind::kUnchanged);
}

TEST_F(SessionSubjectTest, AnotherSubjectsSessionOfTheIdHasTheRepliesForgotten) {
  for (const bool same : {true, false}) {
    MustStore(Create("ada"));
    MustStore(Plain(commands::DeleteSession()));
    MustStore(Create(same ? "ada" : "bob"));
    EXPECT_THAT(change_->garbage, IsEmpty());
    EXPECT_EQ(change_->forget_requests_before_us > 0, !same);
    MustStore(Plain(commands::DeleteSession()));
    MustStore(Plain(commands::ForgetSession{same ? "ada" : "bob"}));
  }
}

TEST_F(SessionSubjectTest, WhatIsStagedGoesWithItsSubject) {
  auto staged = std::make_shared<StagedSession>();
  staged->row.generation = 50;
  staged->row.next_position = 2;
  staged->settings.subject = "ada";
  auto config = std::make_shared<SessionConfig>();
  config->subject = "ada";
  staged->config = config;
  MustStore(Plain(commands::BeginStaged{staged}));
  EXPECT_EQ(change_->row.subject, "ada");
  MustStore(Plain(commands::ForgetSession{"ada"}));
  EXPECT_THAT(change_->garbage, Contains(Field(&Garbage::generation, 50U)));
  ExpectRefused(Plain(commands::PublishStaged{staged}), absl::StatusCode::kAborted,
                "SESSION_REPLACED");

  MustStore(Plain(commands::BeginStaged{staged}));
  MustStore(Plain(commands::PublishStaged{staged}));
  EXPECT_EQ(change_->row.subject, "ada");
}

TEST_F(SessionSubjectTest, TimesOfASessionRiseOverItsTombstoneWhateverTheClockSays) {
  MustStore(Create("ada"));
  now_us_ = 5000;
  MustStore(Plain(commands::DeleteSession()));
  now_us_ = 10;
  MustStore(PutWithId("r"));
  EXPECT_EQ(change_->row.update_us, 5001);
  EXPECT_THAT(change_->requests, Each(Field(&RequestRecord::create_us, 5001)));
  MustStore(PutWithId("r2"));
  EXPECT_EQ(change_->row.update_us, 5001);
}

TEST_F(SessionSubjectTest, AForgottenRequestIsRefused) {
  const RequestRecord forgotten{"r", "", "", 5};
  const absl::Status status = ReplyOf(forgotten, "fingerprint").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(status), "REQUEST_FORGOTTEN");
}

}  // namespace
}  // namespace memoryd
