#include "server/rpc/reply.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/model/message.h"
#include "core/model/session_config.h"
#include "core/reads/context.h"
#include "core/reads/page.h"
#include "core/sessions/session_info.h"
#include "core/writes/write.h"
#include "memoryd/v1/memory_service.pb.h"
#include "memoryd/v1/session_service.pb.h"

namespace memoryd {
namespace {

absl::Status NoLimit(std::size_t /*bytes*/) { return absl::OkStatus(); }

using ::testing::ElementsAre;
using ::testing::SizeIs;

template <typename Proto>
Proto Read(const std::string& bytes) {
  Proto proto;
  EXPECT_TRUE(proto.ParseFromString(bytes));
  return proto;
}

MessagePtr NewMessage(std::int64_t position, std::string message_id, const v1::Message& body) {
  MessageDraft message;
  message.position = position;
  message.SetMessageId(std::move(message_id));
  message.token_count = 12;
  message.ingest_us = 1'700'000'000'123'456;
  message.body = body.SerializeAsString();
  return message;
}

v1::Message Body(const std::string& text) {
  v1::Message body;
  body.set_role("user");
  body.set_text(text);
  return body;
}

void ExpectEqual(const google::protobuf::Message& actual,
                 const google::protobuf::Message& expected) {
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(actual, expected))
      << actual.DebugString() << "is not\n"
      << expected.DebugString();
}

WriteResult Result() {
  WriteResult result;
  result.revision = 4;
  result.generation = 0xABCDEF0123456789;
  result.messages = {NewMessage(7, "", Body("a")), NewMessage(8, "given", Body("b"))};
  result.archived_count = 3;
  result.removed_active = 10;
  result.removed_archived = 20;
  result.row.generation = result.generation;
  result.row.revision = 4;
  result.row.active_count = 5;
  result.row.active_tokens = 60;
  result.row.archived_count = 7;
  result.row.content_count = 8;
  result.row.create_us = 1'000'001;
  result.row.update_us = 2'000'002;
  result.config = std::make_shared<const SessionConfig>();
  return result;
}

TEST(MessageIdTest, IsTheGivenOneOrMadeFromGenerationAndPosition) {
  EXPECT_EQ(MessageId(*NewMessage(7, "given", {}), 1), "given");
  EXPECT_EQ(MessageId(*NewMessage(7, "", {}), 0xAB), "00000000000000ab-7");
  constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(MessageId(*NewMessage(kLast, "", {}), ~std::uint64_t{0}),
            "ffffffffffffffff-9223372036854775807");
}

TEST(ReplyTest, APutReplyTellsWhatWasStored) {
  const auto reply = Read<v1::PutResponse>(PutReply(Result()));
  v1::PutResponse expected;
  expected.set_revision(4);
  expected.set_generation(0xABCDEF0123456789);
  expected.add_message_ids("abcdef0123456789-7");
  expected.add_message_ids("given");
  expected.add_positions(7);
  expected.add_positions(8);
  expected.set_archived_count(3);
  ExpectEqual(reply, expected);
}

TEST(ReplyTest, SetResetAndDeleteTellWhatWent) {
  const auto set = Read<v1::SetResponse>(SetReply(Result()));
  EXPECT_EQ(set.removed_count(), 30);
  EXPECT_EQ(set.archived_count(), 3);
  EXPECT_THAT(set.positions(), ElementsAre(7, 8));
  EXPECT_THAT(set.message_ids(), SizeIs(2));
  EXPECT_EQ(set.revision(), 4);

  v1::ResetResponse expected;
  expected.set_revision(4);
  expected.set_generation(0xABCDEF0123456789);
  expected.set_active_count(10);
  expected.set_archived_count(20);
  ExpectEqual(Read<v1::ResetResponse>(ResetReply(Result())), expected);
  EXPECT_EQ(Read<v1::DeleteSessionResponse>(DeleteSessionReply(Result())).message_count(), 30);
}

TEST(ReplyTest, ContentsAreToldApartFromMessages) {
  WriteResult result = Result();
  result.content_generation = 0xCD;
  result.contents = {NewMessage(1, "", {}), NewMessage(2, "note", {})};
  result.removed_contents = 6;
  const auto put = Read<v1::PutResponse>(PutReply(result));
  EXPECT_THAT(put.content_ids(), ElementsAre("00000000000000cd-1", "note"));
  EXPECT_THAT(put.message_ids(), ElementsAre("abcdef0123456789-7", "given"));
  EXPECT_THAT(put.positions(), ElementsAre(7, 8));
  const auto set = Read<v1::SetResponse>(SetReply(result));
  EXPECT_THAT(set.content_ids(), ElementsAre("00000000000000cd-1", "note"));
  EXPECT_EQ(set.removed_content_count(), 6);
  EXPECT_EQ(set.removed_count(), 30);
  EXPECT_EQ(Read<v1::ResetResponse>(ResetReply(result)).content_count(), 6);
  EXPECT_EQ(Read<v1::DeleteSessionResponse>(DeleteSessionReply(result)).content_count(), 6);
}

TEST(ReplyTest, SessionRepliesCarryTheWholeSessionOnceTheIdIsAdded) {
  v1::GetSessionResponse expected;
  v1::Session* const session = expected.mutable_session();
  session->set_session_id("s/1");
  session->set_generation(0xABCDEF0123456789);
  session->set_revision(4);
  session->set_active_count(5);
  session->set_active_token_count(60);
  session->set_archived_count(7);
  session->set_content_count(8);
  session->mutable_create_time()->set_seconds(1);
  session->mutable_create_time()->set_nanos(1000);
  session->mutable_update_time()->set_seconds(2);
  session->mutable_update_time()->set_nanos(2000);
  v1::SessionConfig* const config = session->mutable_config();
  config->set_profile("default");
  config->set_token_limit(30000);
  config->set_token_flush_size(3000);
  config->set_chat_history_token_ratio(0.7);
  config->set_insert_method(v1::INSERT_METHOD_SYSTEM);
  config->set_tokenizer("cl100k_base");
  config->set_policy("fifo");
  config->set_feed(v1::FEED_AFTER_COMMIT);
  config->set_image_token_count(256);
  config->set_audio_token_count(256);
  config->set_video_token_count(256);
  config->set_document_token_count(2048);
  config->set_time_zone("UTC");
  config->set_cut_highest_first(true);
  v1::Retrieval* const retrieval = config->mutable_retrieval();
  retrieval->set_bm25_k1(0.9);
  retrieval->set_bm25_b(0.4);
  retrieval->set_vector_weight(0.6);
  retrieval->set_vector_threshold(-1);
  retrieval->set_author_weight(0.8);
  retrieval->set_neighbour_weight(0.2);
  retrieval->set_neighbour_tokens(100);
  retrieval->set_answer_factor(2);
  retrieval->set_thread_weight(0.2);
  retrieval->set_length_weight(0.35);
  retrieval->set_length_tokens(100);
  retrieval->set_user_weight(0.2);
  retrieval->set_recency_weight(0);
  retrieval->set_dates(true);
  retrieval->set_embedder("");
  retrieval->set_embedder_worker("");
  retrieval->set_embedder_weight(1);
  retrieval->set_language("");

  const WriteResult result = Result();
  const SessionInfo info{result.row, result.config};
  ExpectEqual(Read<v1::GetSessionResponse>(GetSessionReply("s/1", info)), expected);
  ExpectEqual(
      Read<v1::CreateSessionResponse>(WithSessionId(CreateSessionReply(result), "s/1")).session(),
      *session);
  ExpectEqual(
      Read<v1::UpdateSessionResponse>(WithSessionId(UpdateSessionReply(result), "s/1")).session(),
      *session);
  const auto list =
      Read<v1::ListSessionsResponse>(ListSessionsReply({{"s/1", info}, {"s/2", info}}, "token"));
  ASSERT_EQ(list.sessions_size(), 2);
  ExpectEqual(list.sessions(0), *session);
  EXPECT_EQ(list.sessions(1).session_id(), "s/2");
  EXPECT_EQ(list.next_page_token(), "token");
}

TEST(ReplyTest, AReplyHasItsSessionOnce) {
  // JSON is made of the bytes as they stand: fields that are there twice would be named twice.
  const std::string id(200, 's');
  const std::string created = WithSessionId(CreateSessionReply(Result()), id);
  EXPECT_EQ(created.size(), Read<v1::CreateSessionResponse>(created).ByteSizeLong());
  const std::string updated = WithSessionId(UpdateSessionReply(Result()), id);
  EXPECT_EQ(updated.size(), Read<v1::UpdateSessionResponse>(updated).ByteSizeLong());
  const std::string imported = WithSessionId(ImportSessionReply(Result()), id);
  EXPECT_EQ(imported.size(), Read<v1::ImportSessionResponse>(imported).ByteSizeLong());
  WriteResult copied = Result();
  copied.with_blocks = true;
  const std::string forked = WithSessionId(ForkSessionReply(copied), id);
  EXPECT_EQ(forked.size(), Read<v1::ForkSessionResponse>(forked).ByteSizeLong());
  EXPECT_TRUE(Read<v1::ForkSessionResponse>(forked).blocks_copied());
}

TEST(ReplyTest, WithoutASessionAReplyGetsOne) {
  EXPECT_EQ(Read<v1::CreateSessionResponse>(WithSessionId("", "s/1")).session().session_id(),
            "s/1");
}

TEST(ReplyTest, AReplayedReplyDiffersInNothingElse) {
  const auto plain = Read<v1::PutResponse>(PutReply(Result()));
  auto replayed =
      Read<v1::PutResponse>(Replayed(PutReply(Result()), v1::PutResponse::kReplayedFieldNumber));
  EXPECT_FALSE(plain.replayed());
  EXPECT_TRUE(replayed.replayed());
  replayed.clear_replayed();
  ExpectEqual(replayed, plain);
}

TEST(ReplyTest, AMessageComesBackAsItWasSentWithWhatTheServerAdds) {
  v1::Message body;
  body.set_role("assistant");
  body.set_name("n");
  body.set_metadata_json(R"({"b":1,"a":2.0})");
  body.set_thread_id("t");
  body.mutable_create_time()->set_seconds(-5);
  body.add_parts()->mutable_tool_call()->set_name("f");
  body.add_parts()->mutable_image()->set_data(std::string("\0\xFF", 2));

  Context context;
  context.messages = {NewMessage(1, "", body), NewMessage(2, "given", Body(""))};
  context.token_count = 24;
  context.limit = 100;
  context.over_limit_tokens = 3;
  context.revision = 9;
  context.generation = 0xAB;
  const auto bytes = GetReply(context, NoLimit);
  ASSERT_TRUE(bytes.ok()) << bytes.status();

  v1::GetResponse expected;
  v1::Message* const first = expected.add_messages();
  *first = body;
  first->set_message_id("00000000000000ab-1");
  first->set_token_count(12);
  first->set_position(1);
  first->set_status(v1::MESSAGE_STATUS_ACTIVE);
  first->mutable_ingest_time()->set_seconds(1'700'000'000);
  first->mutable_ingest_time()->set_nanos(123'456'000);
  v1::Message* const second = expected.add_messages();
  *second = Body("");
  second->set_message_id("given");
  second->set_token_count(12);
  second->set_position(2);
  second->set_status(v1::MESSAGE_STATUS_ACTIVE);
  *second->mutable_ingest_time() = first->ingest_time();
  expected.set_token_count(24);
  expected.set_limit(100);
  expected.set_over_limit_tokens(3);
  expected.set_revision(9);
  ExpectEqual(Read<v1::GetResponse>(*bytes), expected);
}

TEST(ReplyTest, APageTellsActiveFromArchived) {
  Page page;
  page.row.generation = 1;
  page.row.watermark = 3;
  page.row.pinned = {1};
  for (std::int64_t position = 1; position <= 3; ++position) {
    page.messages.push_back(NewMessage(position, "", Body("x")));
  }
  const auto reply = Read<v1::GetAllResponse>(GetAllReply(page, "next"));
  ASSERT_EQ(reply.messages_size(), 3);
  EXPECT_EQ(reply.messages(0).status(), v1::MESSAGE_STATUS_ACTIVE);
  EXPECT_EQ(reply.messages(1).status(), v1::MESSAGE_STATUS_ARCHIVED);
  EXPECT_EQ(reply.messages(2).status(), v1::MESSAGE_STATUS_ACTIVE);
  EXPECT_EQ(reply.next_page_token(), "next");
  EXPECT_EQ(Read<v1::GetAllResponse>(GetAllReply({}, "")).ByteSizeLong(), 0U);
}

TEST(ReplyTest, APageHoldsContentsBehindTheMessages) {
  v1::Content body;
  body.set_mime_type("text/plain");
  body.set_text("note");
  ContentDraft content;
  content.position = 3;
  content.ingest_us = 1'000'000;
  content.body = body.SerializeAsString();
  Page page;
  page.row.generation = 1;
  page.row.content_generation = 0xCD;
  page.messages = {NewMessage(1, "", Body("x"))};
  page.contents = {content};
  const std::string bytes = GetAllReply(page, "");
  EXPECT_LE(bytes.size(), GetAllReplySize(page, "")) << "that is what is taken for it";
  const auto reply = Read<v1::GetAllResponse>(bytes);
  ASSERT_EQ(reply.messages_size(), 1);
  ASSERT_EQ(reply.contents_size(), 1);
  body.set_content_id("00000000000000cd-3");
  body.set_position(3);
  body.mutable_ingest_time()->set_seconds(1);
  ExpectEqual(reply.contents(0), body);
}

TEST(ReplyTest, AReplyAboveSixtyFourMebibytesNamesTheWayOut) {
  Context context;
  const auto large = NewMessage(1, "", Body(std::string(1 << 20, 'x')));
  context.messages.assign(63, large);
  EXPECT_TRUE(GetReply(context, NoLimit).ok());
  context.messages.assign(64, large);
  const absl::Status status = GetReply(context, NoLimit).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_EQ(ErrorReason(status), "REPLY_TOO_LARGE");
  EXPECT_NE(status.message().find("GetAll"), absl::string_view::npos);
}

}  // namespace
}  // namespace memoryd
