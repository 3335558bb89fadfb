#include "server/wire/stored_body.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "core/model/body_reader.h"

namespace memoryd {
namespace {

using Kind = ContentValue::Kind;

TEST(StoredBodyTest, AMessageIsItsRoleThreadTimeAndWords) {
  v1::Message message;
  message.set_role("assistant");
  message.set_thread_id("t");
  message.set_text("some words");
  auto read = StoredBodyReader().ReadMessage(message.SerializeAsString());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->role, "assistant");
  EXPECT_EQ(read->thread_id, "t");
  EXPECT_EQ(read->text, "some words");
  EXPECT_FALSE(read->create_us.has_value()) << "the caller gave none";
  EXPECT_EQ(read->name, "");

  message.set_name("Ann");
  message.mutable_create_time();
  read = StoredBodyReader().ReadMessage(message.SerializeAsString());
  EXPECT_EQ(read->create_us, 0) << "a time like any other";
  EXPECT_EQ(read->name, "Ann");

  message.mutable_create_time()->set_seconds(-2);
  message.mutable_create_time()->set_nanos(500'000'999);
  EXPECT_EQ(StoredBodyReader().ReadMessage(message.SerializeAsString())->create_us, -1'500'000);
  message.mutable_create_time()->set_seconds(253402300799);
  EXPECT_EQ(StoredBodyReader().ReadMessage(message.SerializeAsString())->create_us,
            253402300799'500'000);
}

TEST(StoredBodyTest, ATimeBeyondAllRangesStaysBeyondThem) {
  v1::Message message;
  message.mutable_create_time()->set_seconds(std::numeric_limits<std::int64_t>::max());
  message.mutable_create_time()->set_nanos(std::numeric_limits<std::int32_t>::max());
  EXPECT_GT(StoredBodyReader().ReadMessage(message.SerializeAsString())->create_us,
            253402300799'000'000);
  message.mutable_create_time()->set_seconds(std::numeric_limits<std::int64_t>::min());
  EXPECT_LT(StoredBodyReader().ReadMessage(message.SerializeAsString())->create_us,
            -62135596800'000'000);
}

TEST(StoredBodyTest, TheWordsOfPartsStandOnLinesOfTheirOwn) {
  v1::Message message;
  EXPECT_EQ(WordsOf(message), "");
  message.add_parts()->set_text("a text");
  message.add_parts()->mutable_document()->set_title("a title");
  v1::ToolCall* const call = message.add_parts()->mutable_tool_call();
  call->set_name("search");
  call->set_arguments_json("{\"q\":1}");
  call->set_call_id("id");
  v1::ToolResult* const result = message.add_parts()->mutable_tool_result();
  result->set_name("search");
  result->set_text("an answer");
  v1::Citation* const citation = message.add_parts()->mutable_citation();
  citation->set_title("a book");
  citation->set_cited_text("a quotation");
  citation->set_source("https://x");
  message.add_parts()->set_json("[\"json\"]");
  message.add_parts()->set_text("");
  message.add_parts()->set_text("the end");
  EXPECT_EQ(WordsOf(message),
            "a text\na title\nsearch\n{\"q\":1}\nsearch\nan answer\na book\na quotation\n"
            "[\"json\"]\nthe end");
}

TEST(StoredBodyTest, ReasoningAndMediaHaveNoWords) {
  v1::Message message;
  message.add_parts()->mutable_thinking()->set_text("reasoning");
  message.add_parts()->mutable_opaque()->set_data("opaque");
  for (v1::Media* media :
       {message.add_parts()->mutable_image(), message.add_parts()->mutable_audio(),
        message.add_parts()->mutable_video()}) {
    media->set_data("data");
    media->set_title("title");
  }
  message.add_parts();
  EXPECT_EQ(WordsOf(message), "");
}

TEST(StoredBodyTest, PartsTellTheirKind) {
  v1::Part part;
  part.mutable_opaque()->set_type("cache");
  auto read = StoredBodyReader().ReadPart(part.SerializeAsString());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->kind, StoredPart::Kind::kOpaque);
  EXPECT_EQ(read->opaque_type, "cache");
  part.mutable_image()->set_url("https://example.com/a.png");
  read = StoredBodyReader().ReadPart(part.SerializeAsString());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->kind, StoredPart::Kind::kImage);
  EXPECT_EQ(read->url, "https://example.com/a.png");
  EXPECT_EQ(StoredBodyReader().ReadPart("\xFF").status().code(), absl::StatusCode::kDataLoss);
}

TEST(StoredBodyTest, EveryKindOfContentIsTold) {
  const auto read = [](const v1::Content& content) {
    const auto value = StoredBodyReader().ReadContent(content.SerializeAsString());
    EXPECT_TRUE(value.ok()) << value.status();
    return value.value_or(ContentValue());
  };
  v1::Content content;
  content.set_mime_type("x/y");
  content.set_text("");
  EXPECT_EQ(read(content).kind, Kind::kText);
  EXPECT_EQ(read(content).mime_type, "x/y");
  content.set_text("words");
  EXPECT_EQ(read(content).value, "words");
  content.set_json("{\"b\":1}");
  EXPECT_EQ(read(content).kind, Kind::kJson);
  EXPECT_EQ(read(content).value, "{\"b\":1}");
  content.set_bytes_value(std::string("\0\xFF", 2));
  EXPECT_EQ(read(content).kind, Kind::kBytes);
  EXPECT_EQ(read(content).value, std::string("\0\xFF", 2));
  content.mutable_image()->set_data("png");
  EXPECT_EQ(read(content).kind, Kind::kImage);
  EXPECT_EQ(read(content).value, "");
}

TEST(StoredBodyTest, WhatCannotBeParsedIsDataLoss) {
  for (const std::string& body : {std::string("\xFF"), std::string("\x12\x7Fshort")}) {
    EXPECT_TRUE(absl::IsDataLoss(StoredBodyReader().ReadMessage(body).status()));
    EXPECT_TRUE(absl::IsDataLoss(StoredBodyReader().ReadContent(body).status()));
  }
}

}  // namespace
}  // namespace memoryd
