#include "server/wire/wire_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/model/message.h"
#include "memoryd/v1/memory_service.pb.h"

namespace memoryd {
namespace {

TEST(WireWriterTest, IntegersAreReadBackAtTheirExtremes) {
  for (const std::int64_t value :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{127}, std::int64_t{128}, std::int64_t{-1},
        std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
    std::string bytes;
    AppendInt(bytes, v1::GetResponse::kRevisionFieldNumber, value);
    v1::GetResponse read;
    ASSERT_TRUE(read.ParseFromString(bytes));
    EXPECT_EQ(read.revision(), value);
  }
}

TEST(WireWriterTest, DoublesAreReadBackToTheBit) {
  for (const double value : {0.0, 1.0, 0.1, -2.5, 1e-300, std::numeric_limits<double>::max(),
                             std::numeric_limits<double>::denorm_min()}) {
    std::string bytes;
    AppendDouble(bytes, v1::QueryResult::kScoreFieldNumber, value);
    v1::QueryResult read;
    ASSERT_TRUE(read.ParseFromString(bytes));
    EXPECT_EQ(read.score(), value);
  }
}

TEST(WireWriterTest, BytesOfEveryLengthAreReadBack) {
  for (const std::size_t size : {0U, 1U, 127U, 128U, 16384U, 1U << 20}) {
    std::string bytes;
    AppendBytes(bytes, v1::Opaque::kDataFieldNumber, std::string(size, '\xFF'));
    v1::Opaque read;
    ASSERT_TRUE(read.ParseFromString(bytes));
    EXPECT_EQ(read.data(), std::string(size, '\xFF'));
  }
}

MessagePtr Row(std::string body) {
  MessageDraft row;
  row.position = std::numeric_limits<std::int64_t>::max();
  row.token_count = 3;
  row.ingest_us = 1'700'000'000'123'456;
  row.body = std::move(body);
  return row;
}

TEST(WireWriterTest, AContentIsItsBodyAndWhatTheServerAdds) {
  v1::Content body;
  body.set_mime_type("image/png");
  body.mutable_image()->set_data(std::string("\0\xFF", 2));
  body.set_metadata_json("{}");
  v1::Content expected = body;
  expected.set_content_id("00000000000000cd-9223372036854775807");
  expected.set_position(std::numeric_limits<std::int64_t>::max());
  expected.mutable_ingest_time()->set_seconds(1'700'000'000);
  expected.mutable_ingest_time()->set_nanos(123'456'000);

  std::string bytes;
  MessageWriter writer(bytes);
  const MessagePtr row = Row(body.SerializeAsString());
  writer.AppendContent(v1::GetAllResponse::kContentsFieldNumber, *row, 0xCD);
  MessageDraft named(*row);
  named.SetMessageId("given");
  writer.AppendContent(v1::GetAllResponse::kContentsFieldNumber, *MessagePtr(named), 0xCD);
  v1::GetAllResponse read;
  ASSERT_TRUE(read.ParseFromString(bytes));
  ASSERT_EQ(read.contents_size(), 2);
  EXPECT_EQ(read.contents(0).SerializeAsString(), expected.SerializeAsString());
  expected.set_content_id("given");
  EXPECT_EQ(read.contents(1).SerializeAsString(), expected.SerializeAsString());
}

TEST(WireWriterTest, MessagesAndContentsOfOneReplyDoNotMix) {
  v1::Message message;
  message.set_role("user");
  message.set_text("words");
  v1::Content content;
  content.set_mime_type("text/plain");
  content.set_text("note");
  std::string bytes;
  MessageWriter writer(bytes);
  for (int i = 0; i < 2; ++i) {
    writer.Append(v1::GetAllResponse::kMessagesFieldNumber, *Row(message.SerializeAsString()), 1,
                  v1::MESSAGE_STATUS_ARCHIVED);
    writer.AppendContent(v1::GetAllResponse::kContentsFieldNumber,
                         *Row(content.SerializeAsString()), 2);
  }
  v1::GetAllResponse read;
  ASSERT_TRUE(read.ParseFromString(bytes));
  ASSERT_EQ(read.messages_size(), 2);
  ASSERT_EQ(read.contents_size(), 2);
  EXPECT_EQ(read.messages(1).text(), "words");
  EXPECT_EQ(read.messages(1).status(), v1::MESSAGE_STATUS_ARCHIVED);
  EXPECT_EQ(read.messages(1).token_count(), 3);
  EXPECT_EQ(read.contents(1).text(), "note");
}

TEST(WireWriterTest, WireSizeIsNoLessThanWhatIsWritten) {
  std::vector<MessagePtr> rows;
  std::string bytes;
  MessageWriter writer(bytes);
  for (int i = 0; i < 50; ++i) {
    rows.push_back(Row(std::string(static_cast<std::size_t>(i) * 7, 'b')));
    writer.Append(v1::GetAllResponse::kMessagesFieldNumber, *rows.back(),
                  std::numeric_limits<std::uint64_t>::max(), v1::MESSAGE_STATUS_ARCHIVED);
  }
  EXPECT_GE(WireSize(rows), bytes.size());
  EXPECT_GE(WireSize({}), 0U);
}

}  // namespace
}  // namespace memoryd
