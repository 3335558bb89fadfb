#include "server/rpc/recall_call.h"

#include <gmock/gmock.h>
#include <google/protobuf/repeated_field.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/model/message.h"
#include "core/recall/recall.h"
#include "core/recall/session_search.h"
#include "core/recall/update_context.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::SizeIs;

void ExpectNames(const absl::Status& status, const std::string& field) {
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << field << ": " << status;
  EXPECT_THAT(ErrorDetails(status), ElementsAre(Pair("field", field)));
}

void ExpectEqual(const google::protobuf::Message& actual,
                 const google::protobuf::Message& expected) {
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(actual, expected))
      << actual.DebugString() << "is not\n"
      << expected.DebugString();
}

template <typename Proto>
Proto Read(const absl::StatusOr<std::string>& bytes) {
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  Proto proto;
  EXPECT_TRUE(bytes.ok() && proto.ParseFromString(*bytes));
  return proto;
}

v1::QueryRequest AskQuery() {
  v1::QueryRequest request;
  request.set_session_id("s");
  request.set_query("words");
  return request;
}

TEST(QueryFromProtoTest, WhatIsNotSaidTakesItsDefault) {
  v1::QueryRequest asked;
  asked.set_session_id("s");
  const auto request = FromProto(asked);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->query, "");
  EXPECT_EQ(request->top_k, 10U);
  EXPECT_EQ(request->shape.neighbours, 0U);
  EXPECT_THAT(request->filter.roles, SizeIs(0));
  EXPECT_TRUE(request->filter.IsStatusAlone());
}

TEST(QueryFromProtoTest, EveryFieldIsRead) {
  v1::QueryRequest asked = AskQuery();
  asked.set_top_k(7);
  asked.set_neighbours(10);
  asked.mutable_filter()->add_roles("user");
  asked.mutable_filter()->add_roles("tool");
  asked.mutable_filter()->set_thread_id("");
  v1::TimeRange& create_time = *asked.mutable_filter()->mutable_create_time();
  create_time.mutable_start()->set_seconds(-1);
  create_time.mutable_start()->set_nanos(999'999'999);
  create_time.mutable_end()->set_seconds(1'700'000'000);
  create_time.mutable_end()->set_nanos(1500);
  const auto request = FromProto(asked);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->query, "words");
  EXPECT_EQ(request->top_k, 7U);
  EXPECT_EQ(request->shape.neighbours, 10U);
  EXPECT_THAT(request->filter.roles, ElementsAre("user", "tool"));
  EXPECT_EQ(request->filter.thread_id, "") << "set to nothing: those without a thread";
  EXPECT_EQ(request->filter.create.start_us, -1);
  EXPECT_EQ(request->filter.create.end_us, 1'700'000'000'000'001);

  asked.set_top_k(1001);
  EXPECT_EQ(FromProto(asked)->top_k, 1000U) << "more is capped";
  asked.set_query(std::string(65536, 'x'));
  EXPECT_TRUE(FromProto(asked).ok());
}

TEST(QueryFromProtoTest, EveryBadFieldIsNamed) {
  const auto refused = [](const std::string& field, std::function<void(v1::QueryRequest&)> set) {
    v1::QueryRequest asked = AskQuery();
    set(asked);
    ExpectNames(FromProto(asked).status(), field);
  };
  refused("session_id", [](auto& q) { q.clear_session_id(); });
  refused("session_id", [](auto& q) { q.set_session_id(std::string(257, 's')); });
  refused("query", [](auto& q) { q.set_query(std::string(65537, 'x')); });
  refused("top_k", [](auto& q) { q.set_top_k(-1); });
  refused("neighbours", [](auto& q) { q.set_neighbours(-1); });
  refused("neighbours", [](auto& q) { q.set_neighbours(11); });
  refused("filter.roles", [](auto& q) {
    for (int i = 0; i < 17; ++i) q.mutable_filter()->add_roles("user");
  });
  refused("filter.roles[1]", [](auto& q) {
    q.mutable_filter()->add_roles("user");
    q.mutable_filter()->add_roles("");
  });
  refused("filter.roles[0]", [](auto& q) { q.mutable_filter()->add_roles(std::string(65, 'r')); });
  refused("filter.thread_id", [](auto& q) { q.mutable_filter()->set_thread_id("a\nb"); });
  refused("filter.thread_id",
          [](auto& q) { q.mutable_filter()->set_thread_id(std::string(129, 't')); });
  refused("filter.create_time.start", [](auto& q) {
    q.mutable_filter()->mutable_create_time()->mutable_start()->set_nanos(-1);
  });
  refused("filter.ingest_time.end", [](auto& q) {
    q.mutable_filter()->mutable_ingest_time()->mutable_end()->set_seconds(253402300800);
  });
}

v1::Message UserText(const std::string& text) {
  v1::Message message;
  message.set_role("user");
  message.set_text(text);
  return message;
}

TEST(UpdateContextFromProtoTest, TheContextIsItsRolesAndItsTexts) {
  v1::UpdateContextRequest asked;
  asked.set_session_id("s");
  *asked.add_messages() = UserText("hello");
  *asked.add_messages() = UserText("");
  v1::Message* const parts = asked.add_messages();
  parts->set_role("tool");
  parts->add_parts()->set_text("a");
  parts->add_parts()->set_text("b");
  v1::Message* const one_part = asked.add_messages();
  one_part->set_role("system");
  one_part->add_parts()->set_text("one");
  asked.add_messages()->set_role("assistant");
  const auto request = FromProto(asked);
  ASSERT_TRUE(request.ok()) << request.status();
  ASSERT_THAT(request->messages, SizeIs(5));
  EXPECT_EQ(request->messages[0].role, "user");
  EXPECT_THAT(request->messages[0].texts, ElementsAre("hello"));
  EXPECT_EQ(request->messages[0].words(), "hello");
  EXPECT_TRUE(request->messages[0].only_text);
  EXPECT_THAT(request->messages[1].texts, ElementsAre(""));
  EXPECT_THAT(request->messages[2].texts, ElementsAre("a", "b"));
  EXPECT_TRUE(request->messages[2].only_text);
  EXPECT_EQ(request->messages[2].words(), "a\nb");
  EXPECT_THAT(request->messages[3].texts, ElementsAre("one"));
  EXPECT_THAT(request->messages[4].texts, SizeIs(0));
  EXPECT_FALSE(request->messages[4].only_text);
  EXPECT_GT(request->byte_size, 0U);
}

TEST(UpdateContextFromProtoTest, TextBesideOtherPartsIsNotAllThereIs) {
  v1::UpdateContextRequest asked;
  asked.set_session_id("s");
  v1::Message* const message = asked.add_messages();
  message->set_role("assistant");
  message->add_parts()->set_text("a");
  message->add_parts()->mutable_image();
  message->add_parts()->mutable_tool_call()->set_name("search");
  const auto request = FromProto(asked);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_THAT(request->messages[0].texts, ElementsAre("a"));
  EXPECT_FALSE(request->messages[0].only_text);
  EXPECT_EQ(request->messages[0].words(), "a\nsearch");
}

TEST(UpdateContextReplyTest, IdsPositionsAndTimesComeBackAsTheyAre) {
  v1::UpdateContextRequest asked;
  asked.set_session_id("s");
  UpdatedContext updated;
  for (std::size_t i = 0; i < 2; ++i) {
    v1::Message& message = *asked.add_messages();
    message = UserText("x");
    message.set_message_id("equal ids do not matter");
    message.set_position(-1);
    message.set_token_count(3);
    message.set_status(v1::MESSAGE_STATUS_ARCHIVED);
    message.mutable_ingest_time()->set_seconds(5);
    updated.kept.push_back({i});
  }
  const v1::UpdateContextRequest sent = asked;
  ASSERT_TRUE(FromProto(asked).ok()) << FromProto(asked).status();
  const auto reply = Read<v1::UpdateContextResponse>(UpdateContextReply(updated, asked));
  ASSERT_EQ(reply.messages_size(), 2);
  for (int i = 0; i < 2; ++i) ExpectEqual(reply.messages(i), sent.messages(i));
}

// What the server says of an updated message must be what it makes of it when it comes again.
TEST(UpdateContextReplyTest, AMessageLeftWithOneTextIsThatText) {
  const auto updated = [](const std::vector<std::string>& texts,
                          const std::vector<std::string>& left) {
    v1::UpdateContextRequest request;
    v1::Message* const message = request.add_messages();
    message->set_role("system");
    for (const std::string& text : texts) message->add_parts()->set_text(text);
    UpdatedContext context;
    context.kept = {{0, left}};
    return Read<v1::UpdateContextResponse>(UpdateContextReply(context, request)).messages(0);
  };
  EXPECT_EQ(updated({"a", "b"}, {"", "b"}).text(), "b");
  EXPECT_EQ(updated({"a", "b"}, {"", "b"}).parts_size(), 0);
  EXPECT_EQ(updated({"a", "b", "c"}, {"", "b", "c"}).parts_size(), 2);
  EXPECT_EQ(updated({"a", ""}, {"x", ""}).parts_size(), 2) << "what was empty before stays";
}

TEST(UpdateContextFromProtoTest, ResultsAreTold) {
  v1::UpdateContextRequest asked;
  asked.set_session_id("s");
  asked.set_alternate_roles(true);
  v1::Message* const message = asked.add_messages();
  message->set_role("user");
  message->add_parts()->mutable_tool_result()->set_call_id("c");
  EXPECT_TRUE(FromProto(asked)->alternate_roles);
  EXPECT_TRUE(FromProto(asked)->messages[0].has_results);
  EXPECT_TRUE(FromProto(asked)->messages[0].only_results);
  message->add_parts()->set_text("and now?");
  EXPECT_TRUE(FromProto(asked)->messages[0].has_results);
  EXPECT_FALSE(FromProto(asked)->messages[0].only_results);
  message->mutable_parts()->DeleteSubrange(0, 1);
  EXPECT_FALSE(FromProto(asked)->messages[0].has_results);
  EXPECT_FALSE(FromProto(asked)->messages[0].only_results);
}

TEST(UpdateContextFromProtoTest, EveryBadFieldIsNamed) {
  v1::UpdateContextRequest asked;
  ExpectNames(FromProto(asked).status(), "session_id");
  asked.set_session_id("s");
  EXPECT_TRUE(FromProto(asked).ok());
  *asked.add_messages() = UserText("x");
  asked.add_messages();
  ExpectNames(FromProto(asked).status(), "messages[1].role");
  asked.mutable_messages(1)->set_role("user");
  asked.mutable_messages(1)->set_metadata_json("x");
  ExpectNames(FromProto(asked).status(), "messages[1].metadata_json");
  asked.clear_messages();
  for (int i = 0; i < 10'000; ++i) asked.add_messages()->set_role("user");
  EXPECT_TRUE(FromProto(asked).ok());
  asked.add_messages()->set_role("user");
  ExpectNames(FromProto(asked).status(), "messages");
}

MessagePtr StoredMessage(std::int64_t position, const std::string& text) {
  MessageDraft message;
  message.position = position;
  message.token_count = 5;
  message.ingest_us = 2'000'001;
  message.body = UserText(text).SerializeAsString();
  return message;
}

ContentPtr StoredContent(std::int64_t position, const std::string& content_id = "") {
  v1::Content body;
  body.set_mime_type("text/plain");
  body.set_bytes_value(std::string("\0\xFF", 2));
  ContentDraft content;
  content.position = position;
  content.SetMessageId(content_id);
  content.ingest_us = 3'000'000;
  content.body = body.SerializeAsString();
  return content;
}

v1::Message WireMessage(std::int64_t position, const std::string& text, v1::MessageStatus status) {
  v1::Message message = UserText(text);
  message.set_message_id("00000000000000ab-" + std::to_string(position));
  message.set_position(position);
  message.set_token_count(5);
  message.set_status(status);
  message.mutable_ingest_time()->set_seconds(2);
  message.mutable_ingest_time()->set_nanos(1000);
  return message;
}

Found SomeFound() {
  Found found;
  found.row.revision = 9;
  found.row.generation = 0xAB;
  found.row.watermark = 5;
  found.row.content_generation = 0xCD;
  found.items.push_back({1,
                         StoredMessage(4, "best"),
                         nullptr,
                         {StoredMessage(3, "before"), StoredMessage(5, "behind")}});
  found.items.push_back({0.25, nullptr, StoredContent(2), {}});
  found.items.push_back({0, nullptr, StoredContent(3, "given"), {}});
  return found;
}

void AddSomeResults(google::protobuf::RepeatedPtrField<v1::QueryResult>& results) {
  v1::QueryResult& first = *results.Add();
  first.set_score(1);
  *first.mutable_message() = WireMessage(4, "best", v1::MESSAGE_STATUS_ARCHIVED);
  *first.add_neighbours() = WireMessage(3, "before", v1::MESSAGE_STATUS_ARCHIVED);
  *first.add_neighbours() = WireMessage(5, "behind", v1::MESSAGE_STATUS_ACTIVE);
  for (const std::int64_t position : {2, 3}) {
    v1::QueryResult& result = *results.Add();
    if (position == 2) result.set_score(0.25);
    v1::Content& content = *result.mutable_content();
    content.set_mime_type("text/plain");
    content.set_bytes_value(std::string("\0\xFF", 2));
    content.set_content_id(position == 2 ? "00000000000000cd-2" : "given");
    content.set_position(position);
    content.mutable_ingest_time()->set_seconds(3);
  }
}

TEST(QueryReplyTest, TellsWhatWasFoundBestFirst) {
  v1::QueryResponse expected;
  AddSomeResults(*expected.mutable_results());
  expected.set_revision(9);
  ExpectEqual(Read<v1::QueryResponse>(QueryReply(SomeFound(), {})), expected);
  EXPECT_EQ(Read<v1::QueryResponse>(QueryReply({}, {})).ByteSizeLong(), 0U);
}

TEST(QueryReplyTest, AReplyAboveSixtyFourMebibytesNamesTheWayOut) {
  Found found;
  const MessagePtr large = StoredMessage(1, std::string(std::size_t{1} << 20, 'x'));
  for (int i = 0; i < 63; ++i) found.items.push_back({1, large, nullptr, {}});
  EXPECT_TRUE(QueryReply(found, {}).ok());
  // Neighbours count too.
  found.items.back().neighbours = {large, large};
  const absl::Status status = QueryReply(found, {}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_EQ(ErrorReason(status), "REPLY_TOO_LARGE");
  EXPECT_NE(status.message().find("GetAll"), absl::string_view::npos);
}

// A context of three, of which the second is memory's own and the third is joined with it.
v1::UpdateContextRequest SomeContext() {
  v1::UpdateContextRequest request;
  request.set_session_id("s");
  *request.add_messages() = UserText("first");
  *request.add_messages() = UserText("of memory");
  *request.add_messages() = UserText("third\njoined");
  request.mutable_messages(2)->set_name("n");
  return request;
}

UpdatedContext SomeUpdate() {
  UpdatedContext updated;
  updated.kept = {{0, std::nullopt}, {2, std::vector<std::string>{"third"}}};
  updated.insertions.messages = {
      {0, "system", "prefix"}, {1, "system", "a"}, {1, "system", "b"}, {2, "user", "tail"}};
  updated.insertions.stable_prefix_hash = "0123";
  updated.found = SomeFound();
  updated.contents_left_out = 7;
  return updated;
}

TEST(UpdateContextReplyTest, InsertsWhereItIsToldTo) {
  v1::UpdateContextRequest request = SomeContext();
  const auto reply = Read<v1::UpdateContextResponse>(UpdateContextReply(SomeUpdate(), request));
  v1::UpdateContextResponse expected;
  const auto insert = [&expected](const std::string& role, const std::string& text) {
    v1::Insertion& insertion = *expected.add_insertions();
    insertion.set_index(expected.messages_size());
    insertion.mutable_message()->set_role(role);
    insertion.mutable_message()->set_text(text);
    *expected.add_messages() = insertion.message();
  };
  insert("system", "prefix");
  *expected.add_messages() = UserText("first");
  insert("system", "a");
  insert("system", "b");
  *expected.add_messages() = UserText("third");
  expected.mutable_messages()->rbegin()->set_name("n");
  insert("user", "tail");
  expected.set_stable_prefix_hash("0123");
  expected.set_contents_left_out(7);
  AddSomeResults(*expected.mutable_results());
  ExpectEqual(reply, expected);
  for (const v1::Insertion& insertion : reply.insertions()) {
    ExpectEqual(reply.messages(insertion.index()), insertion.message());
  }
}

// Three of one side, the second of which is a tool's, between what memory says.
TEST(UpdateContextReplyTest, WhatIsJoinedIsOneMessageOfAllParts) {
  v1::UpdateContextRequest request;
  request.set_session_id("s");
  v1::Message* const first = request.add_messages();
  first->set_role("tool");
  first->set_text("in words");
  first->set_message_id("first");
  first->set_token_count(2);
  v1::Message* const second = request.add_messages();
  second->set_role("human");
  second->set_name("n");
  second->set_token_count(3);
  second->add_parts()->mutable_image()->set_url("https://example.com/a.png");
  second->add_parts()->mutable_tool_result()->set_call_id("c");
  UpdatedContext updated;
  updated.kept = {{0}, {1}};
  updated.kept[1].joined = updated.kept[1].is_human = true;
  updated.insertions.messages = {{0, "user", "memory", InsertedMessage::Join::kNext},
                                 {2, "human", "recall", InsertedMessage::Join::kPrevious}};
  const auto reply = Read<v1::UpdateContextResponse>(UpdateContextReply(updated, request));
  v1::UpdateContextResponse expected;
  v1::Message& joined = *expected.add_messages();
  joined.set_role("human");
  joined.set_message_id("first");
  joined.set_token_count(5);
  joined.add_parts()->mutable_tool_result()->set_call_id("c");
  joined.add_parts()->set_text("memory");
  joined.add_parts()->set_text("in words");
  joined.add_parts()->mutable_image()->set_url("https://example.com/a.png");
  joined.add_parts()->set_text("recall");
  for (const char* const text : {"memory", "recall"}) {
    v1::Insertion& insertion = *expected.add_insertions();
    insertion.set_joined(true);
    insertion.mutable_message()->set_role(text[0] == 'm' ? "user" : "human");
    insertion.mutable_message()->set_text(text);
  }
  ExpectEqual(reply, expected);
}

TEST(UpdateContextReplyTest, UnchangedIsSaidOfAKnownPrefixOnly) {
  const auto unchanged = [](const std::string& hash, const std::string& known) {
    v1::UpdateContextRequest request;
    request.set_known_prefix_hash(known);
    UpdatedContext updated;
    updated.insertions.stable_prefix_hash = hash;
    return Read<v1::UpdateContextResponse>(UpdateContextReply(updated, request)).unchanged();
  };
  EXPECT_TRUE(unchanged("0123", "0123"));
  EXPECT_FALSE(unchanged("0123", "0124"));
  EXPECT_FALSE(unchanged("0123", ""));
  EXPECT_FALSE(unchanged("", ""));
}

TEST(UpdateContextReplyTest, AReplyAboveSixtyFourMebibytesIsRefused) {
  v1::UpdateContextRequest request = SomeContext();
  UpdatedContext updated;
  const MessagePtr large = StoredMessage(1, std::string(std::size_t{1} << 20, 'x'));
  for (int i = 0; i < 64; ++i) updated.found.items.push_back({0, large, nullptr, {}});
  EXPECT_EQ(ErrorReason(UpdateContextReply(updated, request).status()), "REPLY_TOO_LARGE");
}

}  // namespace
}  // namespace memoryd
