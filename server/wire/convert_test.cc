#include "server/wire/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/model/message.h"
#include "core/model/session_config.h"
#include "core/writes/commands/put_set_reset.h"
#include "core/writes/incoming.h"
#include "server/wire/convert_config.h"
#include "server/wire/field_checks.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

void ExpectNames(const absl::Status& status, const std::string& field) {
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << field << ": " << status;
  EXPECT_THAT(ErrorDetails(status), ElementsAre(Pair("field", field)));
}

v1::Message UserText(const std::string& text) {
  v1::Message message;
  message.set_role("user");
  message.set_text(text);
  return message;
}

// A request of one message.
v1::PutRequest Request(v1::Message message) {
  v1::PutRequest request;
  request.set_session_id("s");
  *request.add_messages() = std::move(message);
  return request;
}

absl::Status StatusOf(v1::Message message) {
  v1::PutRequest request = Request(std::move(message));
  return FromProto(*request.mutable_messages()).status();
}

// The body that is stored of a message.
v1::Message Stored(v1::Message message) {
  v1::PutRequest request = Request(std::move(message));
  auto messages = FromProto(*request.mutable_messages());
  EXPECT_TRUE(messages.ok()) << messages.status();
  v1::Message body;
  if (messages.ok()) {
    EXPECT_TRUE(body.ParseFromString(messages->front().message.body));
  }
  return body;
}

TEST(CheckIdTest, EveryClassOfForbiddenCharactersIsRefusedAtItsEdges) {
  const std::vector<std::string> forbidden = {
      std::string("\0", 1),
      "\x01",
      "\n",
      "\x1F",
      "\x7F",
      "\u0080",
      "\u009F",  // C1 controls
      "\u00AD",  // soft hyphen
      "\u061C",  // Arabic letter mark
      "\u180E",  // Mongolian vowel separator
      "\u200B",
      "\u200D",
      "\u200F",  // zero-width, directional marks
      "\u2028",
      "\u2029",
      "\u202A",
      "\u202E",  // separators, embeddings, overrides
      "\u2060",
      "\u2066",
      "\u2069",
      "\u206F",  // word joiner, isolates
      "\uFEFF",  // byte order mark
  };
  for (const std::string& bad : forbidden) {
    for (const std::string& id : {bad, "a" + bad, bad + "a", "é" + bad + "𝄞"}) {
      ExpectNames(CheckId("request_id", id, 128), "request_id");
    }
  }
}

TEST(CheckIdTest, NeighboursOfForbiddenCharactersAndOtherScriptsAreAllowed) {
  for (const std::string id :
       {" ",      "~",      "a b",    "\u00A0", "\u00AC",    "\u00AE",     "\u061B", "\u061D",
        "\u180D", "\u180F", "\u200A", "\u2010", "\u2027",    "\u202F",     "\u205F", "\u2070",
        "\uFEFE", "\uFF00", "한국어", "🦉",   "../../etc", "' OR 1=1 --"}) {
    EXPECT_TRUE(CheckId("request_id", id, 128).ok()) << id;
  }
}

TEST(CheckIdTest, LengthIsCountedInBytesAndLimitedToTheByte) {
  ExpectNames(CheckSessionId(""), "session_id");
  EXPECT_TRUE(CheckSessionId("a").ok());
  EXPECT_TRUE(CheckSessionId(std::string(256, 'a')).ok());
  ExpectNames(CheckSessionId(std::string(257, 'a')), "session_id");
  EXPECT_TRUE(CheckId("x", "éé", 4).ok());
  ExpectNames(CheckId("x", "ééa", 4), "x");
}

TEST(FromProtoTest, EveryLimitHoldsToTheByte) {
  struct Limit {
    std::string field;
    std::size_t bytes;
    std::function<void(v1::Message&, std::string)> set;
  };
  const auto part = [](v1::Message& message) {
    message.clear_text();
    return message.add_parts();
  };
  const std::vector<Limit> limits = {
      {"role", 64, [](auto& m, std::string v) { m.set_role(v); }},
      {"name", 256, [](auto& m, std::string v) { m.set_name(v); }},
      {"message_id", 128, [](auto& m, std::string v) { m.set_message_id(v); }},
      {"thread_id", 128, [](auto& m, std::string v) { m.set_thread_id(v); }},
      {"text", kMebibyte, [](auto& m, std::string v) { m.set_text(v); }},
      {"parts[0].tool_call.arguments_json", kMebibyte,
       [&](auto& m, std::string v) { part(m)->mutable_tool_call()->set_arguments_json(v); }},
      {"parts[0].tool_call.call_id", 16384,
       [&](auto& m, std::string v) { part(m)->mutable_tool_call()->set_call_id(v); }},
      {"parts[0].tool_result.text", kMebibyte,
       [&](auto& m, std::string v) { part(m)->mutable_tool_result()->set_text(v); }},
      {"parts[0].tool_result.call_id", 16384,
       [&](auto& m, std::string v) { part(m)->mutable_tool_result()->set_call_id(v); }},
      {"parts[0].thinking.text", kMebibyte,
       [&](auto& m, std::string v) { part(m)->mutable_thinking()->set_text(v); }},
      {"parts[0].citation.cited_text", kMebibyte,
       [&](auto& m, std::string v) { part(m)->mutable_citation()->set_cited_text(v); }},
      {"parts[0].opaque.type", 64,
       [&](auto& m, std::string v) { part(m)->mutable_opaque()->set_type(v); }},
  };
  for (const Limit& limit : limits) {
    v1::Message message = UserText("x");
    limit.set(message, std::string(limit.bytes, 'a'));
    EXPECT_TRUE(StatusOf(message).ok()) << limit.field << ": " << StatusOf(message);
    message = UserText("x");
    limit.set(message, std::string(limit.bytes + 1, 'a'));
    ExpectNames(StatusOf(message), "messages[0]." + limit.field);
  }
}

TEST(FromProtoTest, TheTextOfOnePartIsLimitedLikeText) {
  v1::Message message = UserText("x");
  message.clear_text();
  message.add_parts()->set_text(std::string(kMebibyte + 1, 'a'));
  ExpectNames(StatusOf(message), "messages[0].text");
  message.add_parts()->set_text("second");
  ExpectNames(StatusOf(message), "messages[0].parts[0].text");
}

TEST(FromProtoTest, AtMostAThousandMessagesAndParts) {
  v1::PutRequest request;
  for (int i = 0; i < kMaxMessagesPerRequest; ++i) *request.add_messages() = UserText("x");
  EXPECT_TRUE(FromProto(*request.mutable_messages()).ok());
  *request.add_messages() = UserText("x");
  ExpectNames(FromProto(*request.mutable_messages()).status(), "messages");

  v1::Message message;
  message.set_role("user");
  for (int i = 0; i < 1000; ++i) message.add_parts()->set_text("x");
  EXPECT_TRUE(StatusOf(message).ok());
  message.add_parts()->set_text("x");
  ExpectNames(StatusOf(message), "messages[0].parts");
}

TEST(FromProtoTest, ARoleIsRequiredAndFree) {
  v1::Message message;
  message.set_text("x");
  ExpectNames(StatusOf(message), "messages[0].role");
  message.set_role("narrator");
  EXPECT_TRUE(StatusOf(message).ok());
}

TEST(FromProtoTest, TextAndPartsExcludeEachOther) {
  v1::Message message = UserText("");
  message.add_parts()->set_text("x");
  ExpectNames(StatusOf(message), "messages[0].text");
  // Neither is a message without content.
  v1::Message empty;
  empty.set_role("user");
  EXPECT_TRUE(StatusOf(empty).ok());
  v1::Message no_kind = empty;
  no_kind.add_parts();
  ExpectNames(StatusOf(no_kind), "messages[0].parts[0]");
}

TEST(FromProtoTest, TextSetToNothingIsATextPart) {
  v1::PutRequest request = Request(UserText(""));
  const auto messages = FromProto(*request.mutable_messages());
  ASSERT_TRUE(messages.ok());
  EXPECT_THAT(messages->front().parts, SizeIs(1));
  EXPECT_TRUE(Stored(UserText("")).has_text());
}

TEST(FromProtoTest, OneTextPartIsStoredAsText) {
  v1::Message parts;
  parts.set_role("user");
  parts.add_parts()->set_text("hello");
  EXPECT_EQ(Stored(parts).SerializeAsString(), Stored(UserText("hello")).SerializeAsString());
  parts.add_parts()->set_text("second");
  EXPECT_FALSE(Stored(parts).has_text());
  EXPECT_EQ(Stored(parts).parts_size(), 2);
}

TEST(FromProtoTest, TheBodyLeavesOutWhatTheServerAdds) {
  v1::Message message = UserText("x");
  message.set_message_id("m");
  message.set_token_count(3);
  message.set_position(9);
  message.set_status(v1::MESSAGE_STATUS_ARCHIVED);
  message.mutable_ingest_time()->set_seconds(1);
  message.set_writer("token:somebody");
  message.set_thread_id("t");
  message.mutable_create_time()->set_seconds(-1);
  v1::Message expected = UserText("x");
  expected.set_thread_id("t");
  expected.mutable_create_time()->set_seconds(-1);
  message.mutable_expire_time()->set_seconds(5);
  expected.mutable_expire_time()->set_seconds(5);
  EXPECT_EQ(Stored(message).SerializeAsString(), expected.SerializeAsString());

  v1::PutRequest request = Request(message);
  const auto messages = FromProto(*request.mutable_messages());
  EXPECT_EQ(messages->front().message.ids->message_id, "m");
  EXPECT_EQ(messages->front().message.ids->expire_us, 5'000'000);
  EXPECT_EQ(messages->front().token_count, 3);
  // The fingerprint covers both, so they stay in the request.
  EXPECT_EQ(request.messages(0).message_id(), "m");
  EXPECT_EQ(request.messages(0).token_count(), 3);
}

TEST(FromProtoTest, TheStoredFormSaysWhoWroteAndTheRequestDoesNot) {
  for (const bool credential : {false, true}) {
    for (const bool caller : {false, true}) {
      v1::Message message = UserText("x");
      message.set_writer("token:somebody");
      message.set_untrusted(caller);
      v1::PutRequest request = Request(message);
      const auto messages =
          FromProto(*request.mutable_messages(), {.writer = "token:a", .untrusted = credential});
      ASSERT_TRUE(messages.ok());
      v1::Message stored;
      ASSERT_TRUE(stored.ParseFromString(messages->front().message.body));
      EXPECT_EQ(stored.writer(), "token:a");
      EXPECT_EQ(stored.untrusted(), caller || credential);
      EXPECT_EQ(request.messages(0).writer(), "");
      EXPECT_EQ(request.messages(0).untrusted(), caller);
    }
  }
}

// Field 99, which no message knows.
constexpr int kUnknownField = 99;

void AddUnknownField(google::protobuf::Message& message) {
  message.GetReflection()->MutableUnknownFields(&message)->AddVarint(kUnknownField, 1);
}

TEST(FromProtoTest, UnknownFieldsAreNotStoredWhereverTheyStand) {
  v1::Message plain = UserText("text");
  const std::string bytes = Stored(plain).SerializeAsString();
  AddUnknownField(plain);
  EXPECT_EQ(Stored(plain).SerializeAsString(), bytes);

  // In every message that a message may hold.
  const auto* const descriptor = v1::Message::descriptor();
  int nested = 0;
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const auto* const field = descriptor->field(i);
    if (field->message_type() == nullptr) continue;
    ++nested;
    v1::Message message = UserText("text");
    if (field->is_repeated()) {
      message.clear_text();
      message.add_parts()->set_json("1");
      AddUnknownField(*message.GetReflection()->MutableRepeatedMessage(&message, field, 0));
    } else {
      google::protobuf::Message* const inner =
          message.GetReflection()->MutableMessage(&message, field);
      if (auto* const time = dynamic_cast<google::protobuf::Timestamp*>(inner)) {
        time->set_seconds(253'370'764'800);  // An `expire_time` must be to come.
      }
      AddUnknownField(*inner);
    }
    std::string stored = Stored(message).SerializeAsString();
    v1::Message read;
    ASSERT_TRUE(read.ParseFromString(stored));
    read.DiscardUnknownFields();
    EXPECT_EQ(read.SerializeAsString(), stored) << field->full_name();
  }
  EXPECT_EQ(nested, 4);
}

TEST(FromProtoTest, BytesOfTextAreKeptAsTheyAre) {
  const std::string text("nul \0 and \xF0\x9F\xA6\x89", 14);
  EXPECT_EQ(Stored(UserText(text)).text(), text);
}

TEST(FromProtoTest, PartsAreCountedForWhatTheyHold) {
  v1::Message message;
  message.set_role("assistant");
  message.add_parts()->set_text("words");
  message.add_parts()->mutable_image()->set_token_count(7);
  v1::ToolCall* call = message.add_parts()->mutable_tool_call();
  call->set_name("search");
  call->set_arguments_json("not json: models write what they like");
  call->set_call_id("c1");
  message.add_parts()->mutable_tool_result()->set_call_id("c0");

  v1::PutRequest request = Request(message);
  const auto messages = FromProto(*request.mutable_messages());
  ASSERT_TRUE(messages.ok()) << messages.status();
  const IncomingMessage& incoming = messages->front();
  ASSERT_THAT(incoming.parts, SizeIs(4));
  EXPECT_EQ(incoming.parts[0].text, "words");
  EXPECT_EQ(incoming.parts[1].token_count, 7);
  EXPECT_EQ(incoming.parts[2].text, "search");
  EXPECT_EQ(incoming.parts[2].second_text, call->arguments_json());
  EXPECT_THAT(incoming.message.ids->calls, ElementsAre("c1"));
  EXPECT_THAT(incoming.message.ids->results, ElementsAre("c0"));
  EXPECT_EQ(incoming.message.role, Role::kAssistant);
  EXPECT_EQ(incoming.role, "assistant");
}

TEST(FromProtoTest, TokenCountsTimesAndJsonAreChecked) {
  const auto refused = [](const std::string& field, std::function<void(v1::Message&)> change) {
    v1::Message message = UserText("x");
    change(message);
    ExpectNames(StatusOf(message), "messages[0]." + field);
  };
  refused("token_count", [](auto& m) { m.set_token_count(-1); });
  refused("token_count", [](auto& m) { m.set_token_count(std::int64_t{1} << 31); });
  refused("create_time", [](auto& m) { m.mutable_create_time()->set_seconds(253402300800); });
  refused("create_time", [](auto& m) { m.mutable_create_time()->set_seconds(-62135596801); });
  refused("create_time", [](auto& m) { m.mutable_create_time()->set_nanos(-1); });
  refused("create_time", [](auto& m) { m.mutable_create_time()->set_nanos(1000000000); });
  refused("expire_time", [](auto& m) { m.mutable_expire_time()->set_seconds(253402300800); });
  refused("expire_time", [](auto& m) { m.mutable_expire_time()->set_nanos(1000000000); });
  refused("expire_time", [](auto& m) { m.mutable_expire_time()->set_seconds(-1); });
  refused("expire_time", [](auto& m) { m.mutable_expire_time(); });
  refused("metadata_json", [](auto& m) { m.set_metadata_json("[]"); });
  refused("metadata_json", [](auto& m) { m.set_metadata_json("{'a': 1}"); });
  refused("metadata_json",
          [](auto& m) { m.set_metadata_json(R"({"k":")" + std::string(256 << 10, 'x') + "\"}"); });
  refused("metadata_json", [](auto& m) {
    m.set_metadata_json(R"({"k":)" + std::string(200, '[') + std::string(200, ']') + "}");
  });
  refused("parts[0].json", [](auto& m) { m.clear_text(), m.add_parts()->set_json(""); });
  refused("parts[0].json", [](auto& m) { m.clear_text(), m.add_parts()->set_json("{"); });
  refused("parts[0].thinking.additional_json", [](auto& m) {
    m.clear_text();
    m.add_parts()->mutable_thinking()->set_additional_json("x");
  });
  refused("parts[0].citation.location_json", [](auto& m) {
    m.clear_text();
    m.add_parts()->mutable_citation()->set_location_json("x");
  });
  refused("parts[0].video.token_count", [](auto& m) {
    m.clear_text();
    m.add_parts()->mutable_video()->set_token_count(-1);
  });

  v1::Message edge = UserText("x");
  edge.set_token_count((std::int64_t{1} << 31) - 1);
  edge.mutable_create_time()->set_seconds(253402300799);
  edge.mutable_create_time()->set_nanos(999999999);
  edge.set_metadata_json(R"({"b":1,"a":1.0})");
  EXPECT_EQ(Stored(edge).metadata_json(), R"({"b":1,"a":1.0})") << "order and form are kept";
}

TEST(FromProtoTest, AMessageIdGivenTwiceIsNamedWhereItRepeats) {
  v1::PutRequest request;
  for (const char* id : {"a", "", "b", "", "a"}) {
    v1::Message message = UserText("x");
    message.set_message_id(id);
    *request.add_messages() = message;
  }
  ExpectNames(FromProto(*request.mutable_messages()).status(), "messages[4].message_id");
}

TEST(FromProtoTest, AConfigurationIsReadFieldByField) {
  v1::SessionConfig proto;
  EXPECT_EQ(*FromProto(proto), SessionSettings());
  proto.set_profile("llama-index");
  proto.set_token_limit(50);
  proto.set_token_flush_size(10);
  proto.set_chat_history_token_ratio(0.7);
  proto.set_insert_method(v1::INSERT_METHOD_USER);
  proto.set_tokenizer("whitespace");
  proto.set_policy("buffer");
  proto.set_feed(v1::FEED_AFTER_COMMIT);
  proto.set_image_token_count(1);
  proto.set_audio_token_count(2);
  proto.set_video_token_count(3);
  proto.set_document_token_count(4);
  v1::Retrieval& retrieval = *proto.mutable_retrieval();
  retrieval.set_bm25_k1(1.2);
  retrieval.set_bm25_b(0.75);
  retrieval.set_vector_weight(0.1);
  retrieval.set_vector_threshold(-0.5);
  retrieval.set_author_weight(0.2);
  retrieval.set_neighbour_weight(0.3);
  retrieval.set_neighbour_tokens(200);
  retrieval.set_answer_factor(1.5);
  retrieval.set_thread_weight(0.25);
  retrieval.set_length_weight(0.4);
  retrieval.set_length_tokens(50);
  retrieval.set_user_weight(0.5);
  retrieval.set_recency_weight(0.6);
  retrieval.set_expansion(false);
  retrieval.set_dates(false);
  retrieval.set_embedder("minilm");
  retrieval.set_embedder_worker("agent");
  retrieval.set_embedder_weight(0.7);
  retrieval.set_language("de");
  proto.set_subject("user 7");
  proto.set_time_zone("UTC");
  proto.set_cut_highest_first(false);
  proto.mutable_retention()->mutable_session_ttl()->set_seconds(90);
  proto.mutable_retention()->mutable_session_ttl()->set_nanos(1000);
  proto.mutable_retention()->set_refresh_on_read(true);
  proto.mutable_retention()->set_keep_messages(9);
  proto.mutable_retention()->set_keep_bytes(10);
  proto.mutable_retention()->mutable_message_ttl()->set_seconds(315'360'000);
  const auto settings = FromProto(proto);
  ASSERT_TRUE(settings.ok()) << settings.status();
  const auto config = SessionConfig::Resolve(*settings);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(ToProto(*config).SerializeAsString(), proto.SerializeAsString());
}

TEST(FromProtoTest, AnUnknownConfigurationNamesItsField) {
  const auto refused = [](const std::string& field, std::function<void(v1::SessionConfig&)> set) {
    v1::SessionConfig proto;
    set(proto);
    ExpectNames(FromProto(proto).status(), field);
  };
  refused("config.profile", [](auto& c) { c.set_profile("langchain"); });
  refused("config.policy", [](auto& c) { c.set_policy("lifo"); });
  refused("config.retrieval.embedder",
          [](auto& c) { c.mutable_retrieval()->set_embedder(std::string(129, 'x')); });
  refused("config.retrieval.embedder_worker",
          [](auto& c) { c.mutable_retrieval()->set_embedder_worker("a\nb"); });
  refused("config.insert_method",
          [](auto& c) { c.set_insert_method(static_cast<v1::InsertMethod>(9)); });
  refused("config.subject", [](auto& c) { c.set_subject(std::string(257, 'x')); });
  refused("config.subject", [](auto& c) { c.set_subject("a\n"); });
  refused("config.time_zone", [](auto& c) { c.set_time_zone("Mars/Olympus"); });
  refused("config.time_zone", [](auto& c) { c.set_time_zone("/etc/localtime"); });
  refused("config.feed", [](auto& c) { c.set_feed(static_cast<v1::Feed>(9)); });
  refused("config.blocks[0].options_json", [](auto& c) { c.add_blocks()->set_options_json("[]"); });
  refused("config.blocks[0].worker", [](auto& c) { c.add_blocks()->set_worker("\n"); });
  refused("config.blocks[1].content[0]", [](auto& c) {
    c.add_blocks();
    c.add_blocks()->add_content();
  });
  refused("config.blocks", [](auto& c) {
    for (int i = 0; i < 33; ++i) c.add_blocks();
  });
}

TEST(FromProtoTest, BlocksComeBackAsTheyWere) {
  v1::SessionConfig config;
  v1::Block& block = *config.add_blocks();
  block.set_name("core");
  block.set_kind("static");
  block.set_priority(2);
  block.set_worker("w");
  block.set_options_json(R"({"template":"{content}"})");
  block.add_content()->set_text(std::string("a\0b", 3));
  block.add_content()->mutable_image()->set_data("\xff\xfe");
  const auto settings = FromProto(config);
  ASSERT_TRUE(settings.ok()) << settings.status();
  const auto stored = SessionSettings::FromJson(settings->ToJson());
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_EQ(*stored, *settings);
  const auto resolved = SessionConfig::Resolve(*stored);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(ToProto(*resolved).blocks(0).SerializeAsString(), block.SerializeAsString());
}

TEST(FromProtoTest, EveryResetScopeHasItsOwnMeaning) {
  EXPECT_EQ(FromProto(v1::RESET_SCOPE_UNSPECIFIED), ResetScope::kProfile);
  EXPECT_EQ(FromProto(v1::RESET_SCOPE_MESSAGES), ResetScope::kMessages);
  EXPECT_EQ(FromProto(v1::RESET_SCOPE_ACTIVE), ResetScope::kActive);
  EXPECT_EQ(FromProto(v1::RESET_SCOPE_ARCHIVED), ResetScope::kArchived);
  EXPECT_EQ(FromProto(v1::RESET_SCOPE_EVERYTHING), ResetScope::kEverything);
}

// The fingerprint of a request after its messages were checked.
std::string Checked(v1::PutRequest request) {
  EXPECT_TRUE(FromProto(*request.mutable_messages()).ok());
  return Fingerprint("Put", request);
}

TEST(FingerprintTest, EqualRequestsHaveOneFingerprintHoweverTheyWereWritten) {
  const std::string text = Checked(Request(UserText("hello")));
  EXPECT_THAT(text, SizeIs(32));
  EXPECT_EQ(Checked(Request(UserText("hello"))), text);
  v1::Message part;
  part.set_role("user");
  part.add_parts()->set_text("hello");
  EXPECT_EQ(Checked(Request(part)), text);
  v1::Message with_output = UserText("hello");
  with_output.set_position(9);
  EXPECT_EQ(Checked(Request(with_output)), text) << "what the server adds does not count";
}

TEST(FingerprintTest, EveryDifferenceThatCountsChangesIt) {
  std::vector<v1::PutRequest> requests(9, Request(UserText("hello")));
  requests[1].set_session_id("t");
  requests[2].mutable_messages(0)->set_text("hellp");
  requests[3].mutable_messages(0)->set_message_id("m");
  requests[4].mutable_messages(0)->set_token_count(0);
  requests[5].set_expected_revision(0);
  requests[6].mutable_config();
  requests[7].mutable_messages(0)->set_metadata_json("{}");
  *requests[8].add_messages() = UserText("");
  std::set<std::string> fingerprints;
  for (const v1::PutRequest& request : requests) fingerprints.insert(Checked(request));
  EXPECT_THAT(fingerprints, SizeIs(requests.size()));
  EXPECT_NE(Fingerprint("Set", requests[0]), Fingerprint("Put", requests[0]));
}

}  // namespace
}  // namespace memoryd
