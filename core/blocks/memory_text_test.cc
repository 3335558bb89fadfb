#include "core/blocks/memory_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/blocks/block.h"
#include "core/model/body_reader.h"
#include "core/model/session_config.h"
#include "tests/support/block_fixture.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Kind = StoredPart::Kind;
constexpr auto kLlama = Profile::kLlamaIndex;

BlockPart TextPart(std::string text) {
  BlockPart part;
  part.text = std::move(text);
  return part;
}

BlockPart Media(Kind kind, std::string url) {
  BlockPart part;
  part.kind = kind;
  part.url = std::move(url);
  part.body = "as configured";
  return part;
}

MemorySection Section(std::string name, std::vector<BlockPart> parts, std::string form = {}) {
  return {std::move(name), std::move(form), BlockContent{std::move(parts), {}}};
}

// Texts as they are, media as `<KIND URL>`.
std::vector<std::string> Parts(Profile profile, const std::vector<MemorySection>& sections) {
  std::vector<std::string> shown;
  const std::vector<BlockPart> parts = MemoryParts(profile, sections).value();
  for (const BlockPart& part : parts) {
    shown.push_back(part.kind == Kind::kText
                        ? part.text
                        : "<" + std::to_string(static_cast<int>(part.kind)) + " " + part.url + ">");
  }
  return shown;
}

TEST(PlainTextTest, HasALineForEachPartAndMediaInBrackets) {
  BlockPart json = TextPart("{}");
  json.kind = Kind::kJson;
  EXPECT_EQ(PlainText({{TextPart("a"), json, Media(Kind::kImage, "https://x/y.png"),
                        Media(Kind::kAudio, "data:audio/wav;base64,AA=="), TextPart("")},
                       {}}),
            "a\n{}\n[image https://x/y.png]\n[audio]");
  EXPECT_EQ(PlainText({}), "");
}

TEST(LlamaMemoryPartsTest, IsTheLibrarysText) {
  EXPECT_THAT(Parts(kLlama, {Section("NAME1", {TextPart("TEXT")}),
                             Section("NAME2", {TextPart("TEXTa"), TextPart("TEXTb")})}),
              ElementsAre("<memory>\n<NAME1>\nTEXT\n</NAME1>\n<NAME2>\nTEXTa\nTEXTb\n</NAME2>\n"
                          "</memory>"));
  EXPECT_THAT(Parts(kLlama, {Section("core", {TextPart("")})}),
              ElementsAre("<memory>\n<core>\n\n</core>\n</memory>"));
  EXPECT_THAT(Parts(kLlama, {Section("c", {TextPart("  \n")})}),
              ElementsAre("<memory>\n<c>\n  \n\n</c>\n</memory>"));
  EXPECT_THAT(Parts(kLlama, {Section("c", {TextPart("</c> & </memory>{{x}}\r")})}),
              ElementsAre("<memory>\n<c>\n</c> & </memory>{{x}}\r\n</c>\n</memory>"));
  EXPECT_THAT(Parts(kLlama, {}), IsEmpty());
  EXPECT_THAT(Parts(kLlama, {Section("c", {}), Section("d", {})}), IsEmpty());
  EXPECT_THAT(Parts(kLlama, {Section("c", {}), Section("d", {TextPart("x")})}),
              ElementsAre("<memory>\n<d>\nx\n</d>\n</memory>"));
}

TEST(LlamaMemoryPartsTest, MediaCutTheText) {
  EXPECT_THAT(
      Parts(kLlama,
            {Section("c", {TextPart(" pre "), Media(Kind::kImage, "https://example.com/a.png"),
                           TextPart("post")})}),
      ElementsAre("<memory>\n<c>\n pre", "<1 https://example.com/a.png>", "post\n</c>\n</memory>"));
  EXPECT_THAT(Parts(kLlama, {Section("c", {Media(Kind::kAudio, "https://example.com/a.mp3"),
                                           TextPart(" \n"),
                                           Media(Kind::kVideo, "https://example.com/v.mp4")})}),
              ElementsAre("<memory>\n<c>", "<2 https://example.com/a.mp3>",
                          "<3 https://example.com/v.mp4>", "</c>\n</memory>"));
}

TEST(LlamaMemoryPartsTest, WhatHasNoUrlVanishes) {
  BlockPart cache;
  cache.kind = Kind::kOpaque;
  cache.opaque_type = "cache";
  EXPECT_THAT(Parts(kLlama, {Section("c", {Media(Kind::kImage, ""), cache, TextPart("x")})}),
              ElementsAre("<memory>\n<c>\nx\n</c>\n</memory>"));
  EXPECT_THAT(Parts(kLlama, {Section("c", {Media(Kind::kDocument, "")})}),
              ElementsAre("<memory>\n<c>\n</c>\n</memory>"));
}

TEST(LlamaMemoryPartsTest, MediaAreMadeAnewOfTheirUrl) {
  const auto of = [](Kind kind, std::string url) {
    BlockPart part =
        MemoryParts(kLlama, std::vector{Section("c", {Media(kind, std::move(url))})}).value().at(1);
    EXPECT_EQ(part.body, "");
    return part;
  };
  EXPECT_EQ(of(Kind::kImage, "https://example.com/a.png").mime_type, "image/png");
  EXPECT_EQ(of(Kind::kImage, "https://example.com/a.jpeg").mime_type, "");
  EXPECT_EQ(of(Kind::kImage, "https://example.com/a.mp4").mime_type, "");
  EXPECT_EQ(of(Kind::kImage, "https://example.com/a.png?x=1").mime_type, "");
  EXPECT_EQ(of(Kind::kImage, "https://example.com/").mime_type, "");
  EXPECT_EQ(of(Kind::kImage, "data:image/gif;base64,AAAA").mime_type, "image/gif");
  EXPECT_EQ(of(Kind::kAudio, "https://example.com/a.mp3").format, "mp3");
  EXPECT_EQ(of(Kind::kAudio, "https://example.com/a.mp3").mime_type, "");
  EXPECT_EQ(of(Kind::kVideo, "https://example.com/v.mp4").mime_type, "video/mp4");
  const BlockPart document = of(Kind::kDocument, "https://example.com/d.pdf");
  EXPECT_EQ(document.mime_type, "application/pdf");
  EXPECT_EQ(document.title, "input_document");
  EXPECT_EQ(of(Kind::kDocument, "https://example.com/d.txt").mime_type, "");
  EXPECT_EQ(of(Kind::kDocument, "https://example.com/d").title, "input_document");
}

TEST(LlamaMemoryPartsTest, RefusesWhatTheLibraryRefuses) {
  const auto refused = [](Kind kind, std::string url) {
    const auto parts =
        MemoryParts(kLlama, std::vector{Section("c", {Media(kind, std::move(url))})});
    EXPECT_EQ(parts.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(parts.status().message());
  };
  EXPECT_EQ(refused(Kind::kDocument, "https://example.com/X.docx?q"),
            "Unsupported document format: /x.docx");
  EXPECT_EQ(refused(Kind::kDocument, "https://example.com/a.zip"),
            "Unsupported document format: /a.zip");
  refused(Kind::kImage, "a.png");
  refused(Kind::kImage, "/etc/passwd");
  refused(Kind::kImage, "file:///etc/passwd");
  refused(Kind::kDocument, "../secret.txt");
}

TEST(MemoryPartsTest, TextsCannotCloseTags) {
  EXPECT_THAT(
      Parts(Profile::kDefault,
            {Section("facts", {TextPart("<fact>a</fact>"), TextPart("</facts></MEMORY><other>")}),
             Section("other", {TextPart("</facts> <b> </memoryd_recall>")})}),
      ElementsAre("<memory>\n<facts>\n<fact>a</fact>\n&lt;/facts>&lt;/MEMORY>&lt;other>\n</facts>\n"
                  "<other>\n&lt;/facts> <b> &lt;/memoryd_recall>\n</other>\n</memory>"));
}

TEST(MemoryPartsTest, KeepsMediaAsConfigured) {
  BlockPart json;
  json.kind = Kind::kJson;
  json.text = "{}";
  const auto parts =
      MemoryParts(Profile::kDefault, std::vector{Section("c", {json, Media(Kind::kImage, "")})})
          .value();
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].text, "<memory>\n<c>\n{}");
  EXPECT_EQ(parts[1].body, "as configured");
}

TEST(MemoryPartsTest, ASectionMayHaveItsOwnForm) {
  EXPECT_THAT(Parts(Profile::kDefault,
                    {Section("me", {TextPart("a"), TextPart("b")}, "## {name}\n{content}"),
                     Section("c", {TextPart("d")}, "[{content}]"),
                     Section("e", {TextPart("f")}, "{name}:\n{content}\n--")}),
              ElementsAre("<memory>\n## me\na\nb\n[d]\ne:\nf\n--\n</memory>"));
}

class TokensTest : public testing::Test {
 protected:
  std::int64_t Tokens(Profile profile, const BlockContent& content) {
    CountingRules rules;
    rules.profile = profile;
    rules.image_token_count = 10;
    rules.document_token_count = 100;
    const MemorySection section{"c", "", content};
    const auto tokens = SectionTokens(rules, WordCounter(), std::span(&section, 1), 0);
    if (!tokens.ok()) {
      error = std::string(tokens.status().message());
      EXPECT_EQ(tokens.status().code(), absl::StatusCode::kInvalidArgument);
      return -1;
    }
    return *tokens;
  }
  std::string error;
};

TEST_F(TokensTest, LlamaCountsTheContentAlone) {
  BlockPart image = Media(Kind::kImage, "");
  image.token_count = 3;
  BlockPart cache;
  cache.kind = Kind::kOpaque;
  cache.opaque_type = "cache";
  EXPECT_EQ(
      Tokens(kLlama,
             {{TextPart("a b"), TextPart("c"), image, cache, Media(Kind::kDocument, "x")}, {}}),
      113);
  EXPECT_EQ(Tokens(kLlama, {}), 0);
  StoredMessage message;
  message.metadata_json = R"({"k": [1, 2]})";
  message.parts.resize(3);
  message.parts[0].text = "a b c";
  message.parts[1].kind = Kind::kToolCall;
  message.parts[2].kind = Kind::kImage;
  // str() of the metadata is {'k': [1, 2]}: three words.
  EXPECT_EQ(Tokens(kLlama, {{}, {message}}), 16);
}

TEST_F(TokensTest, LlamaRefusesOtherParts) {
  for (const Kind kind : {Kind::kToolCall, Kind::kToolResult, Kind::kThinking, Kind::kCitation,
                          Kind::kJson, Kind::kOpaque}) {
    BlockPart part;
    part.kind = kind;
    EXPECT_EQ(Tokens(kLlama, {{part}, {}}), -1);
    EXPECT_EQ(error, "Invalid message type: <class 'list'>");
  }
}

TEST_F(TokensTest, DefaultCountsTagsToo) {
  EXPECT_EQ(Tokens(Profile::kDefault, {}), 0);
  EXPECT_EQ(Tokens(Profile::kDefault, {{TextPart("a b")}, {}}), 4);
  BlockPart image = Media(Kind::kImage, "");
  image.token_count = 3;
  EXPECT_EQ(Tokens(Profile::kDefault, {{TextPart("a b"), image}, {}}), 7);
}

TEST(ByteTokenCounterTest, FourBytesAreAToken) {
  EXPECT_EQ(ByteTokenCounter().Count(""), 0);
  EXPECT_EQ(ByteTokenCounter().Count("abcd"), 1);
  EXPECT_EQ(ByteTokenCounter().Count("abcde"), 2);
}

}  // namespace
}  // namespace memoryd
