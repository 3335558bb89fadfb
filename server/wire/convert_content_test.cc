// Contents of a request: what is refused, by name, and what is stored.
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
#include "core/writes/incoming.h"
#include "server/wire/convert.h"

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

v1::Content TextContent(const std::string& text) {
  v1::Content content;
  content.set_mime_type("text/plain");
  content.set_text(text);
  return content;
}

v1::PutRequest Request(v1::Content content) {
  v1::PutRequest request;
  request.set_session_id("s");
  *request.add_contents() = std::move(content);
  return request;
}

absl::Status StatusOf(v1::Content content) {
  v1::PutRequest request = Request(std::move(content));
  return FromProto(*request.mutable_contents()).status();
}

v1::Content Stored(v1::Content content) {
  v1::PutRequest request = Request(std::move(content));
  auto contents = FromProto(*request.mutable_contents());
  EXPECT_TRUE(contents.ok()) << contents.status();
  v1::Content body;
  if (contents.ok()) {
    EXPECT_TRUE(body.ParseFromString(contents->front().content.body));
  }
  return body;
}

TEST(FromContentTest, EveryLimitHoldsToTheByte) {
  struct Limit {
    std::string field;
    std::size_t bytes;
    std::function<void(v1::Content&, std::string)> set;
  };
  const std::vector<Limit> limits = {
      {"content_id", 128, [](auto& c, std::string v) { c.set_content_id(v); }},
      {"mime_type", 128, [](auto& c, std::string v) { c.set_mime_type(v); }},
      {"text", kMebibyte, [](auto& c, std::string v) { c.set_text(v); }},
      {"json", kMebibyte,
       [](auto& c, std::string v) {
         v.front() = v.back() = '"';
         c.set_json(v);
       }},
      {"metadata_json", kMebibyte / 4,
       [](auto& c, std::string v) { c.set_metadata_json(R"({"k":")" + v.substr(8) + "\"}"); }},
  };
  for (const Limit& limit : limits) {
    v1::Content content = TextContent("x");
    limit.set(content, std::string(limit.bytes, 'a'));
    EXPECT_TRUE(StatusOf(content).ok()) << limit.field << ": " << StatusOf(content);
    content = TextContent("x");
    limit.set(content, std::string(limit.bytes + 1, 'a'));
    ExpectNames(StatusOf(content), "contents[0]." + limit.field);
  }
}

TEST(FromContentTest, EveryBadFieldIsNamed) {
  const auto refused = [](const std::string& field, std::function<void(v1::Content&)> change) {
    v1::Content content = TextContent("x");
    change(content);
    ExpectNames(StatusOf(content), "contents[0]" + field);
  };
  refused("", [](auto& c) { c.clear_text(); });
  refused(".mime_type", [](auto& c) { c.clear_mime_type(); });
  refused(".mime_type", [](auto& c) { c.set_mime_type("text/plain\n"); });
  refused(".mime_type", [](auto& c) { c.set_mime_type("text/\u200Bplain"); });
  refused(".content_id", [](auto& c) { c.set_content_id("a\tb"); });
  refused(".content_id", [](auto& c) { c.set_content_id("\u202Eb"); });
  refused(".json", [](auto& c) { c.set_json(""); });
  refused(".json", [](auto& c) { c.set_json("{"); });
  refused(".json", [](auto& c) { c.set_json("{'a':1}"); });
  refused(".json", [](auto& c) { c.set_json("1 2"); });
  refused(".json", [](auto& c) { c.set_json(std::string(65, '[') + std::string(65, ']')); });
  refused(".image.token_count", [](auto& c) { c.mutable_image()->set_token_count(-1); });
  refused(".image.token_count",
          [](auto& c) { c.mutable_image()->set_token_count(std::int64_t{1} << 31); });
  refused(".metadata_json", [](auto& c) { c.set_metadata_json("[]"); });
  refused(".metadata_json", [](auto& c) { c.set_metadata_json("null"); });
  refused(".metadata_json", [](auto& c) { c.set_metadata_json("{"); });
}

TEST(FromContentTest, TheIndexIsThatOfTheContent) {
  v1::PutRequest request;
  for (int i = 0; i < 3; ++i) *request.add_contents() = TextContent("x");
  request.mutable_contents(2)->clear_mime_type();
  ExpectNames(FromProto(*request.mutable_contents()).status(), "contents[2].mime_type");
}

TEST(FromContentTest, AtMostAThousand) {
  v1::PutRequest request;
  for (int i = 0; i < kMaxMessagesPerRequest; ++i) *request.add_contents() = TextContent("x");
  EXPECT_TRUE(FromProto(*request.mutable_contents()).ok());
  *request.add_contents() = TextContent("x");
  ExpectNames(FromProto(*request.mutable_contents()).status(), "contents");
}

TEST(FromContentTest, AContentIdGivenTwiceIsNamedWhereItRepeats) {
  v1::PutRequest request;
  for (const char* id : {"a", "", "b", "", "a"}) {
    *request.add_contents() = TextContent("x");
    request.mutable_contents()->rbegin()->set_content_id(id);
  }
  ExpectNames(FromProto(*request.mutable_contents()).status(), "contents[4].content_id");
}

TEST(FromContentTest, EveryKindIsStoredAsItCameAndCountedForWhatItIs) {
  using Kind = CountedPart::Kind;
  const std::string bytes("\0\xFF bytes", 8);
  std::vector<v1::Content> contents(5, TextContent("some words"));
  contents[1].set_json(R"({"b": 1, "a":1.0})");
  contents[2].set_bytes_value(bytes);
  contents[3].mutable_image()->set_data(bytes);
  contents[3].mutable_image()->set_token_count(7);
  contents[4].set_text("");
  v1::PutRequest request;
  for (const v1::Content& content : contents) *request.add_contents() = content;
  const auto incoming = FromProto(*request.mutable_contents());
  ASSERT_TRUE(incoming.ok()) << incoming.status();
  ASSERT_THAT(*incoming, SizeIs(5));
  for (std::size_t i = 0; i < contents.size(); ++i) {
    EXPECT_EQ((*incoming)[i].content.body, contents[i].SerializeAsString()) << i;
  }
  EXPECT_EQ((*incoming)[0].value.kind, Kind::kText);
  EXPECT_EQ((*incoming)[0].value.text, "some words");
  EXPECT_EQ((*incoming)[1].value.text, contents[1].json());
  EXPECT_EQ((*incoming)[2].value.kind, Kind::kOther);
  EXPECT_EQ((*incoming)[2].value.text, "");
  EXPECT_EQ((*incoming)[3].value.kind, Kind::kImage);
  EXPECT_TRUE(Stored(contents[4]).has_text()) << "set to nothing is set";
}

TEST(FromContentTest, AnyMimeTypeIsTakenWhateverTheValue) {
  for (const char* mime_type : {"image/png", "x", "text/plain; charset=utf-8", "späť/日本"}) {
    v1::Content content = TextContent("x");
    content.set_mime_type(mime_type);
    EXPECT_EQ(Stored(content).mime_type(), mime_type);
  }
}

TEST(FromContentTest, TheBodyLeavesOutWhatTheServerAdds) {
  v1::Content content = TextContent("x");
  content.set_metadata_json(R"({"k":1})");
  const std::string expected = content.SerializeAsString();
  content.set_content_id("given");
  content.set_position(9);
  content.mutable_ingest_time()->set_seconds(1);
  EXPECT_EQ(Stored(content).SerializeAsString(), expected);

  v1::PutRequest request = Request(content);
  const auto contents = FromProto(*request.mutable_contents());
  ASSERT_TRUE(contents.ok());
  EXPECT_EQ(contents->front().content.ids->message_id, "given");
  // The fingerprint covers it, so it stays in the request.
  EXPECT_EQ(request.contents(0).content_id(), "given");
  EXPECT_EQ(request.contents(0).position(), 0);
  EXPECT_FALSE(request.contents(0).has_ingest_time());
}

std::string Checked(v1::PutRequest request) {
  EXPECT_TRUE(FromProto(*request.mutable_contents()).ok());
  return Fingerprint("Put", request);
}

TEST(FromContentTest, EveryDifferenceThatCountsChangesTheFingerprint) {
  std::vector<v1::PutRequest> requests(7, Request(TextContent("x")));
  requests[1].mutable_contents(0)->set_text("y");
  requests[2].mutable_contents(0)->set_json("\"x\"");
  requests[3].mutable_contents(0)->set_content_id("id");
  requests[4].mutable_contents(0)->set_mime_type("text/markdown");
  requests[5].mutable_contents(0)->set_metadata_json("{}");
  *requests[6].add_contents() = TextContent("x");
  std::set<std::string> fingerprints;
  for (const v1::PutRequest& request : requests) fingerprints.insert(Checked(request));
  EXPECT_THAT(fingerprints, SizeIs(requests.size()));

  v1::PutRequest output = requests[0];
  output.mutable_contents(0)->set_position(9);
  EXPECT_EQ(Checked(output), Checked(requests[0])) << "what the server adds does not count";
}

}  // namespace
}  // namespace memoryd
