#include "core/writes/draft/session_draft.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/model/session_config.h"
#include "core/model/session_template.h"
#include "core/sessions/recent_requests.h"
#include "core/sessions/session.h"
#include "core/writes/commands/put_set_reset.h"
#include "core/writes/write.h"
#include "tests/support/session_draft_fixture.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

TEST_F(SessionDraftTest, APutCreatesTheSession) {
  const auto decision = Apply(Put({{"user", "hello there"}, {"assistant", "hi"}}));

  EXPECT_EQ(decision.reply, "revision 1 positions 1,2 archived 0 removed 0+0");
  ASSERT_TRUE(change_.has_value());
  EXPECT_EQ(change_->expected_revision, 0);
  EXPECT_TRUE(change_->write_config);
  EXPECT_EQ(change_->row.config, WordSettings().ToJson());
  EXPECT_THAT(Bodies(change_->messages), ElementsAre("hello there", "hi"));
  EXPECT_EQ(session_.row.active_tokens, 2 + 4 + 1 + 4);
  EXPECT_EQ(session_.row.create_us, 1000);
  EXPECT_EQ(session_.active.back()->ingest_us, 1000);
}

TEST_F(SessionDraftTest, SeveralPutsShareOneChange) {
  SessionDraft draft = NewDraft();
  Add(draft, Put({{"user", "a"}}));
  const auto second = Add(draft, Put({{"user", "b"}}));

  EXPECT_EQ(second.reply, "revision 2 positions 2 archived 0 removed 0+0");
  const SessionChange change = draft.TakeChange(kKey);
  EXPECT_EQ(change.expected_revision, 0);
  EXPECT_EQ(change.row.revision, 2);
  EXPECT_THAT(Bodies(change.messages), ElementsAre("a", "b"));
  EXPECT_TRUE(SessionDraft::CanShare(Write(Put({}), place_, {})));
  EXPECT_FALSE(SessionDraft::CanShare(Write(Plain(commands::Set()), place_, {})));
}

TEST_F(SessionDraftTest, AnEqualConfigurationIsIgnoredAndAnotherOneRefused) {
  MustStore(Put({{"user", "a"}}));
  // Equal in effect, though it names a default.
  WriteRequest equal = Put({{"user", "b"}});
  SettingsOf(equal)->token_limit = 30000;
  MustStore(std::move(equal));
  EXPECT_FALSE(change_->write_config);

  WriteRequest other = Put({{"user", "c"}});
  SettingsOf(other)->token_limit = 29999;
  ExpectRefused(std::move(other), absl::StatusCode::kFailedPrecondition, "CONFIG_MISMATCH");
}

SessionTemplatePtr TemplateNamed(const std::string& name, std::int64_t token_limit) {
  SessionSettings settings;
  settings.tokenizer = "whitespace";
  settings.token_limit = token_limit;
  settings.template_name = name;
  return std::make_shared<const SessionTemplate>(SessionTemplate{name, settings});
}

// Lives as long as the tests.
const SessionDefaultsLookup* Always(absl::StatusOr<SessionDefaults> defaults) {
  static auto* const kept = new std::list<SessionDefaultsLookup>();
  kept->push_back([defaults](std::string_view, std::string_view) { return defaults; });
  return &kept->back();
}

const SessionDefaultsLookup* NoSuchTemplate() {
  return Always(InvalidField("template", "there is no such template"));
}

WriteRequest From(WriteRequest request, const std::string& name, SessionTemplatePtr from) {
  std::visit(
      [&name](auto& command) {
        if constexpr (requires { command.config; }) command.config = {std::nullopt, name};
      },
      request.command);
  request.defaults_of = Always(SessionDefaults{std::move(from), {}});
  return request;
}

// Names a template that the operator does not have.
WriteRequest FromUnknown(WriteRequest request) {
  request = From(std::move(request), "chat", nullptr);
  request.defaults_of = NoSuchTemplate();
  return request;
}

// With a block that has a text of its own.
SessionSettings WithRules(SessionSettings settings) {
  BlockSettings& rules = settings.blocks.emplace().emplace_back();
  rules.name = "rules";
  rules.kind = "static";
  rules.content = {"part"};
  return settings;
}

// Of a caller who may add no such block.
std::shared_ptr<const CallerLimits> LittleTrust() {
  auto limits = std::make_shared<CallerLimits>();
  limits->max_trust = 0.1;
  return limits;
}

TEST_F(SessionDraftTest, OfATemplateTheNameAloneIsCompared) {
  MustStore(From(Put({{"user", "a"}}), "chat", TemplateNamed("chat", 500)));
  EXPECT_EQ(session_.config->token_limit, 500);
  EXPECT_EQ(session_.config->template_name, "chat");

  // An operator has edited it, and has taken it out.
  MustStore(From(Put({{"user", "b"}}), "chat", TemplateNamed("chat", 600)));
  MustStore(FromUnknown(Put({{"user", "c"}})));
  EXPECT_FALSE(change_->write_config);
  EXPECT_EQ(session_.config->token_limit, 500);

  ExpectRefused(From(Put({{"user", "d"}}), "other", TemplateNamed("other", 500)),
                absl::StatusCode::kFailedPrecondition, "CONFIG_MISMATCH");
  // What it said is a configuration as any other.
  WriteRequest equal = Put({{"user", "e"}});
  SettingsOf(equal)->token_limit = 500;
  MustStore(std::move(equal));
}

TEST_F(SessionDraftTest, ASessionOfNoTemplateIsNotOfThatName) {
  MustStore(Put({{"user", "a"}}));
  ExpectRefused(From(Put({{"user", "b"}}), "chat", TemplateNamed("chat", 30000)),
                absl::StatusCode::kFailedPrecondition, "CONFIG_MISMATCH");
}

TEST_F(SessionDraftTest, OfASessionThatIsThereNobodyAsksForDefaults) {
  MustStore(Put({{"user", "a"}}));
  int asked = 0;
  const SessionDefaultsLookup lookup = [&asked](std::string_view, std::string_view) {
    ++asked;
    return SessionDefaults();
  };
  for (const WriteCommand& command : std::vector<WriteCommand>{commands::Put(), commands::Set()}) {
    WriteRequest request = Plain(command, {{"user", "b"}});
    request.defaults_of = &lookup;
    MustStore(std::move(request));
  }
  EXPECT_EQ(asked, 0);
}

BlockSettings Showing(const std::string& session) {
  BlockSettings block;
  block.name = session;
  block.kind = "session";
  block.options_json = R"({"session_id": ")" + session + "\"}";
  return block;
}

TEST_F(SessionDraftTest, ABlockThatShowsTheSessionItselfIsNotTakenFromATemplate) {
  SessionSettings settings;
  settings.tokenizer = "whitespace";
  settings.template_name = "talk";
  settings.blocks = {Showing(kKey.session), Showing("other")};
  const auto from = std::make_shared<const SessionTemplate>(SessionTemplate{"talk", settings});
  for (const std::string name : {"", "talk"}) {
    MustStore(From(Plain(commands::CreateSession()), name, from));
    EXPECT_EQ(session_.config->template_name, "talk");
    EXPECT_THAT(session_.config->blocks, ElementsAre(Showing("other")));
    MustStore(Plain(commands::DeleteSession()));
  }
}

TEST_F(SessionDraftTest, AnUpdateGivesASessionATemplate) {
  SessionSettings old = WordSettings();
  old.subject = "ann";
  old.time_zone = "Asia/Tokyo";
  old.retention.keep_messages = 7;
  old.token_flush_size = 3;
  MustStore(WithSettings(commands::CreateSession(), old));
  MustStore(From(Put({{"user", "a"}}), "", nullptr));
  ExpectRefused(From(Put({{"user", "b"}}), "chat", TemplateNamed("chat", 500)),
                absl::StatusCode::kFailedPrecondition, "CONFIG_MISMATCH");

  MustStore(From(Plain(commands::UpdateSession()), "chat", TemplateNamed("chat", 500)));
  EXPECT_EQ(session_.config->template_name, "chat");
  EXPECT_EQ(session_.config->token_limit, 500);
  // What it does not say is the default, as in a session that is made from it.
  EXPECT_EQ(session_.config->token_flush_size, 50);
  EXPECT_EQ(session_.config->retention.keep_messages, 7);
  EXPECT_EQ(session_.config->time_zone, "Asia/Tokyo");
  EXPECT_EQ(session_.row.subject, "ann");
  EXPECT_EQ(session_.row.active_count, 1);
  MustStore(From(Put({{"user", "b"}}), "chat", TemplateNamed("chat", 500)));

  // Whom it is about may be said beside it, and a template may be given again.
  WriteRequest about = From(Plain(commands::UpdateSession()), "chat", TemplateNamed("chat", 600));
  SettingsOf(about).emplace().subject = "bob";
  MustStore(std::move(about));
  EXPECT_EQ(session_.config->token_limit, 600);
  EXPECT_EQ(session_.row.subject, "bob");
  // Without a name the session's stays.
  SessionSettings small;
  small.token_limit = 90;
  MustStore(WithSettings(commands::UpdateSession(), small));
  EXPECT_EQ(session_.config->template_name, "chat");
}

TEST_F(SessionDraftTest, AnUpdateGivesNoTemplateThatCantBe) {
  MustStore(Put({{"user", "a"}}));
  SessionSettings settings = TemplateNamed("chat", 500)->settings;
  settings.tokenizer = "cl100k_base";
  const auto counted = std::make_shared<const SessionTemplate>(SessionTemplate{"chat", settings});
  ExpectRefused(From(Plain(commands::UpdateSession()), "chat", counted),
                absl::StatusCode::kFailedPrecondition, "CONFIG_FIXED");
  ExpectRefused(FromUnknown(Plain(commands::UpdateSession())), absl::StatusCode::kInvalidArgument,
                "INVALID_FIELD");
}

TEST_F(SessionDraftTest, WhoeverIsLimitedMayGiveATemplateThatTakesNothingAway) {
  MustStore(Put({{"user", "a"}}));
  const SessionSettings settings = WithRules(TemplateNamed("chat", 500)->settings);
  const auto limits = LittleTrust();
  const auto give = [&](SessionTemplatePtr from) {
    WriteRequest update = From(Plain(commands::UpdateSession()), from->name, from);
    update.limits = limits;
    return update;
  };
  MustStore(give(std::make_shared<const SessionTemplate>(SessionTemplate{"chat", settings})));
  EXPECT_THAT(session_.config->blocks, SizeIs(1));
  ExpectRefused(give(TemplateNamed("bare", 500)), absl::StatusCode::kPermissionDenied,
                "CONFIG_NOT_GRANTED");
}

TEST_F(SessionDraftTest, AnUnknownTemplateMakesNoSession) {
  for (const WriteCommand& command :
       std::vector<WriteCommand>{commands::Put(), commands::CreateSession()}) {
    ExpectRefused(FromUnknown(Plain(command)), absl::StatusCode::kInvalidArgument, "INVALID_FIELD");
  }
}

TEST_F(SessionDraftTest, WhomASessionIsAboutGoesBeforeItsTemplate) {
  WriteRequest request = From(Plain(commands::CreateSession()), "chat", TemplateNamed("chat", 500));
  SettingsOf(request).emplace().subject = "ann";
  MustStore(std::move(request));
  EXPECT_EQ(session_.row.subject, "ann");
  EXPECT_EQ(session_.config->token_limit, 500);
  for (const auto& [subject, same] : {std::pair("ann", true), std::pair("bob", false)}) {
    WriteRequest put = From(Put({{"user", "a"}}), "chat", TemplateNamed("chat", 500));
    SettingsOf(put).emplace().subject = subject;
    EXPECT_EQ(Apply(std::move(put)).kind == DecisionKind::kStore, same) << subject;
  }
}

TEST_F(SessionDraftTest, ATemplateIsTheOperatorsWordWhoeverNamesIt) {
  SessionSettings settings = WithRules({});
  const auto limits = LittleTrust();
  WriteRequest own = WithSettings(commands::CreateSession(), settings);
  own.limits = limits;
  ExpectRefused(std::move(own), absl::StatusCode::kPermissionDenied, "CONFIG_NOT_GRANTED");
  settings.template_name = "chat";
  WriteRequest named =
      From(Plain(commands::CreateSession()), "chat",
           std::make_shared<const SessionTemplate>(SessionTemplate{"chat", settings}));
  named.limits = limits;
  MustStore(std::move(named));
}

TEST_F(SessionDraftTest, ATenantsTemplateIsForASetToo) {
  MustStore(From(Plain(commands::Set(), {{"user", "a"}}), "", TemplateNamed("chat", 500)));
  EXPECT_EQ(session_.config->template_name, "chat");
  SessionSettings changes;
  changes.token_limit = 700;
  MustStore(WithSettings(commands::UpdateSession(), changes));
  EXPECT_EQ(session_.config->template_name, "chat");
  EXPECT_EQ(session_.config->token_limit, 700);
}

TEST_F(SessionDraftTest, AnInvalidConfigurationNamesItsField) {
  WriteRequest request = Put({{"user", "a"}});
  SettingsOf(request)->token_limit = 0;
  ExpectRefused(std::move(request), absl::StatusCode::kInvalidArgument, "INVALID_FIELD");
}

TEST_F(SessionDraftTest, ExpectedRevisionZeroMeansNoSession) {
  MustStore(WithRevision(Put({{"user", "a"}}), 0));
  const auto decision = Apply(WithRevision(Put({{"user", "b"}}), 0));
  EXPECT_EQ(decision.status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ErrorReason(decision.status), "REVISION_MISMATCH");
  EXPECT_THAT(ErrorDetails(decision.status), ElementsAre(Pair("current_revision", "1")));

  MustStore(WithRevision(Put({{"user", "c"}}), 1));
  ExpectRefused(WithRevision(Put({{"user", "d"}}), 1), absl::StatusCode::kAborted,
                "REVISION_MISMATCH");
  ExpectRefused(WithRevision(Plain(commands::Set()), 3), absl::StatusCode::kAborted,
                "REVISION_MISMATCH");
  ExpectRefused(WithRevision(Reset(ResetScope::kProfile), 1), absl::StatusCode::kAborted,
                "REVISION_MISMATCH");
  ExpectRefused(WithRevision(Plain(commands::UpdateSession()), 1), absl::StatusCode::kAborted,
                "REVISION_MISMATCH");
  ExpectRefused(WithRevision(Plain(commands::DeleteSession()), 1), absl::StatusCode::kAborted,
                "REVISION_MISMATCH");
}

TEST_F(SessionDraftTest, ExpectedRevisionSeesThePutsAheadInTheSameDraft) {
  SessionDraft draft = NewDraft();
  Add(draft, Put({{"user", "a"}}));
  EXPECT_EQ(Add(draft, WithRevision(Put({{"user", "b"}}), 0)).kind, DecisionKind::kRefused);
  EXPECT_EQ(Add(draft, WithRevision(Put({{"user", "c"}}), 1)).kind, DecisionKind::kStore);
}

TEST_F(SessionDraftTest, SystemAndDeveloperMessagesAheadOfTheFirstOtherOneArePinned) {
  MustStore(Put({{"system", "1"}}));
  MustStore(Put({{"developer", "2"}, {"user", "3"}, {"system", "4"}}));
  MustStore(Put({{"system", "5"}}));

  EXPECT_THAT(session_.row.pinned, ElementsAre(1, 2));
  EXPECT_THAT(Bodies(session_.pinned), ElementsAre("1", "2"));
  EXPECT_THAT(Bodies(session_.active), ElementsAre("3", "4", "5"));
  EXPECT_EQ(session_.row.watermark, 3);
  EXPECT_EQ(session_.row.active_count, 5);
}

TEST_F(SessionDraftTest, AtMostEightMessagesArePinned) {
  MustStore(Put(std::vector<Line>(6, {"system", "s"})));
  MustStore(Put(std::vector<Line>(6, {"developer", "d"})));

  EXPECT_THAT(session_.row.pinned, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(session_.active, SizeIs(4));
  EXPECT_EQ(session_.row.watermark, 9);
}

TEST_F(SessionDraftTest, ProfileLlamaIndexPinsNothing) {
  WriteRequest request = Put({{"system", "s"}, {"user", "u"}});
  SettingsOf(request) = WordSettings(Profile::kLlamaIndex);
  MustStore(std::move(request));
  EXPECT_THAT(session_.row.pinned, IsEmpty());
  EXPECT_EQ(session_.row.active_tokens, 2);
}

TEST_F(SessionDraftTest, AFlushMovesTheWatermarkAndTheCounts) {
  CreateSmall();
  MustStore(Plain(commands::Put(), {{"system", "s"}, {"user", "a"}, {"user", "b"}}));
  EXPECT_EQ(session_.row.archived_count, 0) << "10 tokens without the pinned are not above 10";

  const auto decision = Apply(Plain(commands::Put(), {{"user", "c"}, {"user", "d"}}));
  EXPECT_EQ(decision.reply, "revision 3 positions 4,5 archived 2 removed 0+0");
  EXPECT_EQ(session_.row.watermark, 4);
  EXPECT_EQ(session_.row.floor, 1);
  EXPECT_EQ(session_.row.active_count, 3);
  EXPECT_EQ(session_.row.archived_count, 2);
  EXPECT_EQ(session_.row.active_tokens, 15);
  EXPECT_THAT(Bodies(session_.pinned), ElementsAre("s"));
  EXPECT_THAT(Bodies(session_.active), ElementsAre("c", "d"));
}

TEST_F(SessionDraftTest, AMessageMayBeFlushedByTheChangeThatStoresIt) {
  CreateSmall();
  SessionDraft draft = NewDraft();
  Add(draft, Plain(commands::Put(), {{"user", "a"}, {"user", "b"}}));
  Add(draft, Plain(commands::Put(), {{"user", "c"}}));
  const auto third = Add(draft, Plain(commands::Put(), {{"user", "d"}, {"user", "e"}}));
  EXPECT_EQ(third.reply, "revision 4 positions 4,5 archived 2 removed 0+0");

  const SessionChange change = draft.TakeChange(kKey);
  draft.ApplyTo(session_);
  EXPECT_THAT(Bodies(change.messages), ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_THAT(Bodies(session_.active), ElementsAre("d", "e"));
  EXPECT_EQ(session_.row.watermark, 4);
}

TEST_F(SessionDraftTest, APutThatMovesNothingOnlyAppends) {
  MustStore(Put({{"user", "a"}}));
  EXPECT_FALSE(change_->appends_only) << "it makes the session";
  MustStore(Put({{"user", "b"}}));
  EXPECT_TRUE(change_->appends_only);
  SessionDraft draft = NewDraft();
  Add(draft, Put({{"user", "c"}}));
  Add(draft, Put({{"user", "d"}}));
  EXPECT_TRUE(draft.TakeChange(kKey).appends_only);
  SessionSettings other = WordSettings();
  other.policy = PolicyKind::kBuffer;
  MustStore(WithSettings(commands::UpdateSession(), other));
  EXPECT_FALSE(change_->appends_only);
}

TEST_F(SessionDraftTest, APutThatFlushesDoesMore) {
  CreateSmall();
  MustStore(Plain(commands::Put(), {{"user", "a"}, {"user", "b"}}));
  EXPECT_TRUE(change_->appends_only);
  MustStore(Plain(commands::Put(), {{"user", "c"}, {"user", "d"}, {"user", "e"}}));
  ASSERT_GT(session_.row.archived_count, 0);
  EXPECT_FALSE(change_->appends_only);
}

TEST_F(SessionDraftTest, PolicyBufferNeverFlushes) {
  CreateSmall();
  SessionSettings buffer;
  buffer.policy = PolicyKind::kBuffer;
  MustStore(WithSettings(commands::UpdateSession(), buffer));
  MustStore(Plain(commands::Put(), std::vector<Line>(50, {"user", "word"})));
  EXPECT_EQ(session_.row.archived_count, 0);
  EXPECT_EQ(session_.row.active_count, 50);
}

TEST_F(SessionDraftTest, SetReplacesTheMessagesUnderANewGeneration) {
  FillSmall();
  const std::uint64_t before = session_.row.generation;
  const auto decision = Apply(Plain(commands::Set(), {{"system", "t"}, {"user", "x"}}));

  EXPECT_EQ(decision.reply, "revision 3 positions 5,6 archived 0 removed 3+1");
  EXPECT_NE(session_.row.generation, before);
  ASSERT_EQ(change_->garbage.size(), 1u);
  EXPECT_EQ(change_->garbage.front().generation, before);
  EXPECT_EQ(change_->garbage.front().end, 5);
  EXPECT_THAT(session_.row.pinned, ElementsAre(5));
  EXPECT_THAT(Bodies(session_.active), ElementsAre("x"));
  EXPECT_EQ(session_.row.floor, 5);
  EXPECT_EQ(session_.row.archived_count, 0);
}

TEST_F(SessionDraftTest, SetFlushesUnderDefaultButNotUnderLlamaIndex) {
  CreateSmall();
  EXPECT_EQ(Apply(Plain(commands::Set(), {{"user", "a"}, {"user", "b"}, {"user", "c"}})).reply,
            "revision 2 positions 1,2,3 archived 1 removed 0+0");

  session_ = Session::Absent();
  CreateSmall(Profile::kLlamaIndex);
  const std::vector<Line> lines(3, {"user", "four words are here"});
  EXPECT_EQ(Apply(Plain(commands::Set(), lines)).reply,
            "revision 2 positions 1,2,3 archived 0 removed 0+0");
  EXPECT_EQ(Apply(Plain(commands::Put(), {})).reply,
            "revision 3 positions  archived 1 removed 0+0");
}

TEST_F(SessionDraftTest, CreateSessionRefusesAnExistingOne) {
  MustStore(WithSettings(commands::CreateSession(), WordSettings()));
  ExpectRefused(WithSettings(commands::CreateSession(), WordSettings()),
                absl::StatusCode::kAlreadyExists, "SESSION_EXISTS");
}

TEST_F(SessionDraftTest, CountingRulesAreFixedOnceASessionHasAMessage) {
  MustStore(WithSettings(commands::CreateSession(), WordSettings()));
  MustStore(WithSettings(commands::UpdateSession(), WordSettings(Profile::kLlamaIndex)));
  MustStore(WithSettings(commands::UpdateSession(), WordSettings()));
  MustStore(Plain(commands::Put(), {{"user", "a"}}));

  SessionSettings limit;
  limit.token_limit = 500;
  MustStore(WithSettings(commands::UpdateSession(), limit));
  EXPECT_EQ(session_.config->token_limit, 500);
  EXPECT_EQ(session_.config->token_flush_size, 50) << "a default follows what it derives from";
  EXPECT_EQ(session_.config->counting.tokenizer, "whitespace") << "what is absent stays";

  SessionSettings images;
  images.image_token_count = 1;
  ExpectRefused(WithSettings(commands::UpdateSession(), images),
                absl::StatusCode::kFailedPrecondition, "CONFIG_FIXED");
  MustStore(Reset(ResetScope::kMessages));
  MustStore(WithSettings(commands::UpdateSession(), images));
}

TEST_F(SessionDraftTest, ARepeatedRequestGetsTheStoredReply) {
  const std::string reply = Apply(WithRequestId(Put({{"user", "a"}}), "r")).reply;
  ASSERT_THAT(change_->requests, SizeIs(1));
  EXPECT_EQ(change_->requests[0].reply, reply);
  EXPECT_EQ(change_->requests[0].create_us, 1000);

  const auto again = Apply(WithRequestId(Put({{"user", "a"}}), "r"));
  EXPECT_EQ(again.kind, DecisionKind::kReplay);
  EXPECT_EQ(again.reply, reply);
  const auto other = Apply(WithRequestId(Put({{"user", "b"}}), "r", 'g'));
  EXPECT_EQ(other.kind, DecisionKind::kReplay);
  EXPECT_EQ(ErrorReason(other.status), "REQUEST_ID_REUSED");
  // Of another kind, over a replacement of everything.
  MustStore(Plain(commands::Set()));
  EXPECT_EQ(Apply(WithRequestId(Plain(commands::DeleteSession()), "r", 'g')).kind,
            DecisionKind::kReplay);
  EXPECT_EQ(session_.row.revision, 2);
}

TEST_F(SessionDraftTest, ARequestRepeatedInOneDraftWaitsForTheFirst) {
  SessionDraft draft = NewDraft();
  Add(draft, WithRequestId(Put({{"user", "a"}}), "r"));
  EXPECT_EQ(Add(draft, WithRequestId(Put({{"user", "a"}}), "r")).kind, DecisionKind::kRefused);
  EXPECT_THAT(draft.TakeChange(kKey).messages, SizeIs(1));
}

TEST_F(SessionDraftTest, OnlyTheLatestRequestsAreKeptInMemory) {
  for (std::size_t i = 0; i < RecentRequests::kMost + 5; ++i) {
    MustStore(WithRequestId(Put({{"user", "a"}}), std::to_string(i)));
  }
  EXPECT_EQ(session_.recent_requests.Find("4"), nullptr);
  EXPECT_NE(session_.recent_requests.Find("5"), nullptr);
  std::size_t bytes = session_.recent_requests.bytes();
  for (const auto& message : session_.active) bytes += message->ByteSize();
  EXPECT_EQ(session_.content_bytes, bytes);
}

TEST_F(SessionDraftTest, ARefusedWriteLeavesTheDraftAsItWas) {
  MustStore(Put({{"user", "a"}}));
  SessionDraft draft = NewDraft();
  Add(draft, Put({{"user", "b"}}));
  WriteRequest mismatch = WithRequestId(Put({{"user", "no"}}), "r");
  SettingsOf(mismatch)->token_limit = 1;
  EXPECT_EQ(Add(draft, std::move(mismatch)).kind, DecisionKind::kRefused);
  EXPECT_EQ(Add(draft, WithRevision(Put({{"user", "no"}}), 0)).kind, DecisionKind::kRefused);
  Add(draft, Put({{"user", "c"}}));

  const SessionChange change = draft.TakeChange(kKey);
  EXPECT_THAT(Bodies(change.messages), ElementsAre("b", "c"));
  EXPECT_EQ(change.row.revision, 3);
  EXPECT_EQ(change.row.next_position, 4);
  EXPECT_THAT(change.requests, IsEmpty());
}

TEST_F(SessionDraftTest, ARefusedPutToAnUnknownSessionLeavesNothingToStore) {
  SessionDraft draft = NewDraft();
  WriteRequest request = Put({{"user", "a"}});
  SettingsOf(request)->tokenizer = "caller";
  const auto decision = Add(draft, std::move(request));
  EXPECT_EQ(decision.kind, DecisionKind::kRefused);
  EXPECT_THAT(ErrorDetails(decision.status), ElementsAre(Pair("field", "messages[0].token_count")));
  EXPECT_FALSE(draft.dirty());
}

TEST_F(SessionDraftTest, CountsMadeUnderOtherRulesAreMadeAnew) {
  MustStore(WithSettings(commands::CreateSession(), WordSettings(Profile::kLlamaIndex)));
  Write write(Plain(commands::Put(), {{"user", "a b"}}), place_, {});
  write.token_counts.messages = {100};
  write.counted_with = CountingRules();
  SessionDraft draft = NewDraft();
  ASSERT_EQ(draft.Add(write).kind, DecisionKind::kStore);
  EXPECT_EQ(draft.TakeChange(kKey).messages[0]->token_count, 2);

  // And those made under the session's own are trusted.
  Write counted(Plain(commands::Put(), {{"user", "a b"}}), place_, {});
  counted.token_counts.messages = {7};
  counted.counted_with = session_.config->counting;
  SessionDraft second = NewDraft();
  ASSERT_EQ(second.Add(counted).kind, DecisionKind::kStore);
  EXPECT_EQ(second.TakeChange(kKey).messages[0]->token_count, 7);
}

TEST_F(SessionDraftTest, ProfileLlamaIndexRefusesRolesThatItsLibraryDoesNotKnow) {
  MustStore(WithSettings(commands::CreateSession(), WordSettings(Profile::kLlamaIndex)));
  MustStore(Plain(commands::Put(), {{"chatbot", "a"}, {"model", "b"}}));
  ExpectRefused(Plain(commands::Put(), {{"user", "a"}, {"narrator", "b"}}),
                absl::StatusCode::kInvalidArgument, "INVALID_FIELD");
}

TEST_F(SessionDraftTest, WhatALoadBringsAfterTheLastAddIsNotOverwritten) {
  MustStore(Put({{"user", "a"}}));
  SessionDraft draft = NewDraft();
  Add(draft, Put({{"user", "b"}}));
  // Another server has committed, and a reader's load has brought it here.
  Session newer = session_;
  newer.row.revision = 5;
  newer.row.next_position = 9;
  session_ = newer;

  EXPECT_EQ(draft.TakeChange(kKey).expected_revision, 1) << "so that the store refuses it";
  draft.ApplyTo(session_);
  EXPECT_EQ(session_.row, newer.row);
}

TEST_F(SessionDraftTest, ApplyingToAnotherSessionDoesNothing) {
  SessionDraft draft = NewDraft();
  Add(draft, Put({{"user", "a"}}));
  draft.TakeChange(kKey);
  Session other = Session::Absent();
  draft.ApplyTo(other);
  EXPECT_FALSE(other.exists());
}

}  // namespace
}  // namespace memoryd
