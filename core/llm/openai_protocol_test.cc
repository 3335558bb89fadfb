#include "core/llm/openai_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/llm/model.h"
#include "core/llm/model_settings.h"
#include "core/model/body_reader.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;
using Kind = StoredPart::Kind;

StoredPart Text(std::string text) {
  StoredPart part;
  part.text = std::move(text);
  return part;
}

StoredPart Of(Kind kind, std::string text = "") {
  StoredPart part = Text(std::move(text));
  part.kind = kind;
  return part;
}

StoredPart Call(std::string id, std::string name = "f", std::string arguments = "{}") {
  StoredPart part = Of(Kind::kToolCall);
  part.call_id = std::move(id);
  part.tool_name = std::move(name);
  part.arguments_json = std::move(arguments);
  return part;
}

StoredPart Answer(std::string id, std::string text, std::string name = "f") {
  StoredPart part = Of(Kind::kToolResult, std::move(text));
  part.call_id = std::move(id);
  part.tool_name = std::move(name);
  return part;
}

StoredPart Media(Kind kind, std::string type, std::string url, std::string data = "") {
  StoredPart part = Of(kind);
  part.mime_type = std::move(type);
  part.url = std::move(url);
  part.data = std::move(data);
  return part;
}

StoredMessage Message(std::string role, std::vector<StoredPart> parts, std::string name = "") {
  StoredMessage message;
  message.role = std::move(role);
  message.name = std::move(name);
  message.parts = std::move(parts);
  return message;
}

Json Sent(std::vector<StoredMessage> messages, const ModelSettings& settings = {}) {
  ChatRequest request;
  request.messages = std::move(messages);
  return Json::parse(ChatBody(settings, request))["messages"];
}

// The content of the one message that is sent for `parts`.
Json Content(std::vector<StoredPart> parts, std::string role = "user") {
  const Json sent = Sent({Message(std::move(role), std::move(parts))});
  EXPECT_EQ(sent.size(), 1);
  return sent[0]["content"];
}

TEST(OpenAiProtocolTest, TextIsJoinedByLines) {
  EXPECT_EQ(Content({Text("a"), Text("b\nc")}), "a\nb\nc");
  EXPECT_EQ(Content({}), "");
  EXPECT_EQ(Content({Text("")}), "");
  EXPECT_EQ(Content({Text("a"), Of(Kind::kCitation, "c"), Of(Kind::kJson, "{}")}), "a\nc\n{}");
  // The model's own reasoning is not for its next turn.
  EXPECT_EQ(Content({Of(Kind::kThinking, "hm"), Text("a"), Of(Kind::kOpaque)}, "assistant"), "a");
}

TEST(OpenAiProtocolTest, RolesOfTheApiAreKeptOthersAreNamed) {
  for (const char* role : {"system", "developer", "user", "assistant"}) {
    EXPECT_EQ(Sent({Message(role, {Text("a")})}),
              Json::array({{{"role", role}, {"content", "a"}}}));
  }
  EXPECT_EQ(Sent({Message("critic", {Text("a")})}),
            Json::array({{{"role", "user"}, {"content", "critic:\na"}}}));
  EXPECT_EQ(Sent({Message("tool", {Text("a")})}),
            Json::array({{{"role", "user"}, {"content", "tool:\na"}}}));
  EXPECT_EQ(Sent({}), Json::array());
}

TEST(OpenAiProtocolTest, NamesThatTheApiTakesAreSent) {
  EXPECT_EQ(Sent({Message("user", {Text("a")}, "Jane_1")})[0]["name"], "Jane_1");
  for (const std::string& name :
       {std::string(), std::string("Jane Doe"), std::string("Zoë"), std::string(65, 'a')}) {
    EXPECT_FALSE(Sent({Message("user", {Text("a")}, name)})[0].contains("name")) << name;
  }
}

TEST(OpenAiProtocolTest, ImagesOfAUserAreSentByUrlOrWhole) {
  EXPECT_EQ(Content({Text("a"), Media(Kind::kImage, "image/png", "https://h/i.png"), Text("b"),
                     Media(Kind::kImage, "image/gif", "", "GIF")}),
            Json::parse(R"([{"type":"text","text":"a"},
                            {"type":"image_url","image_url":{"url":"https://h/i.png"}},
                            {"type":"text","text":"b"},
                            {"type":"image_url","image_url":{"url":"data:image/gif;base64,R0lG"}}])"));
  EXPECT_EQ(Content({Media(Kind::kImage, "", "", "x")})[0]["image_url"]["url"],
            "data:image/png;base64,eA==");
  // What only this machine could read, and what the API does not take from others.
  EXPECT_EQ(Content({Media(Kind::kImage, "", "file:///i.png")}), "[image file:///i.png]");
  EXPECT_EQ(Content({Media(Kind::kImage, "image/png", "", "x")}, "assistant"), "[image image/png]");
  ModelSettings blind;
  blind.takes_images = false;
  EXPECT_EQ(
      Sent({Message("user", {Media(Kind::kImage, "image/png", "", "x")})}, blind)[0]["content"],
      "[image image/png]");
}

TEST(OpenAiProtocolTest, OtherMediaAreNamed) {
  EXPECT_EQ(Content({Media(Kind::kAudio, "audio/wav", "https://h/a.wav"),
                     Media(Kind::kVideo, "video/mp4", "data:video/mp4;base64,AAAA"),
                     Media(Kind::kDocument, "", "", "data")}),
            "[audio audio/wav https://h/a.wav]\n[video video/mp4]\n[document]");
}

TEST(OpenAiProtocolTest, CallsAndTheirAnswersAreSentAsSuch) {
  EXPECT_EQ(Sent({Message("assistant", {Text("Let me see."), Call("1", "f", R"({"a": 1})")}),
                  Message("tool", {Answer("1", "42")}), Message("assistant", {Call("2")}),
                  Message("user", {Answer("2", ""), Text("and?")})}),
            Json::parse(R"([
              {"role":"assistant","content":"Let me see.","tool_calls":[
                {"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}]},
              {"role":"tool","tool_call_id":"1","content":"42"},
              {"role":"assistant","content":null,"tool_calls":[
                {"id":"2","type":"function","function":{"name":"f","arguments":"{}"}}]},
              {"role":"tool","tool_call_id":"2","content":""},
              {"role":"user","content":"and?"}])"));
}

TEST(OpenAiProtocolTest, ACallWithoutAnswerAndAnAnswerWithoutCallAreNamed) {
  EXPECT_EQ(Sent({Message("tool", {Answer("0", "41", "g")}),
                  Message("assistant", {Call("1"), Call("2", "g", R"({"a":1})")}),
                  Message("tool", {Answer("1", "42")}), Message("tool", {Answer("1", "43")}),
                  Message("user", {Call("1"), Call("")})}),
            Json::parse(R"([
              {"role":"user","content":"tool:\n[tool result g] 41"},
              {"role":"assistant","content":"[tool call g {\"a\":1}]","tool_calls":[
                {"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},
              {"role":"tool","tool_call_id":"1","content":"42"},
              {"role":"user","content":"tool:\n[tool result f] 43"},
              {"role":"user","content":"[tool call f {}]\n[tool call f {}]"}])"));
}

TEST(OpenAiProtocolTest, PassesOverIdsWhoseWordsStandBesideThem) {
  StoredPart call = Call("1");
  call.tool_name.clear();
  call.arguments_json.clear();
  EXPECT_EQ(Sent({Message("assistant", {Text("Let me see."), call}),
                  Message("tool", {Text("42"), Answer("1", "", "")})}),
            Json::parse(R"([
              {"role":"assistant","content":"Let me see."},
              {"role":"user","content":"tool:\n42"}])"));
}

TEST(OpenAiProtocolTest, ARequestSaysWhatTheSettingsSay) {
  ModelSettings settings;
  settings.model = "m";
  ChatRequest request;
  EXPECT_EQ(ChatBody(settings, request), R"({"model":"m","messages":[]})");
  settings.temperature = 0.5;
  settings.max_tokens_key = "max_completion_tokens";
  request.max_tokens = 9;
  EXPECT_EQ(ChatBody(settings, request),
            R"({"model":"m","messages":[],"max_completion_tokens":9,"temperature":0.5})");
}

TEST(OpenAiProtocolTest, BytesThatAreNotTextDoNoHarm) {
  EXPECT_EQ(Content({Text("a\xFF")}), "a\uFFFD");
  EXPECT_EQ(Content({Text(std::string("a\0b", 3))}), std::string("a\0b", 3));
}

TEST(OpenAiProtocolTest, TextsAreEmbeddedWithThePrefixOfTheirPurpose) {
  ModelSettings settings;
  settings.model = "m";
  const std::vector<std::string> texts = {"a", ""};
  EXPECT_EQ(EmbeddingBody(settings, EmbedPurpose::kText, texts),
            R"({"model":"m","input":["a"," "],"encoding_format":"float"})");
  settings.text_prefix = "passage: ";
  settings.query_prefix = "query: ";
  EXPECT_EQ(Json::parse(EmbeddingBody(settings, EmbedPurpose::kText, texts))["input"],
            Json::array({"passage: a", "passage: "}));
  EXPECT_EQ(Json::parse(EmbeddingBody(settings, EmbedPurpose::kQuery, texts))["input"],
            Json::array({"query: a", "query: "}));
}

std::string ChatText(const std::string& answer) {
  const auto reply = ParseChatAnswer(answer);
  EXPECT_TRUE(reply.ok()) << reply.status() << answer;
  return reply.ok() ? reply->text : "";
}

TEST(OpenAiProtocolTest, SaysWhyTheAnswerEnds) {
  const auto reason = [](const std::string& choice) {
    return ParseChatAnswer(R"({"choices":[)" + choice + "]}")->finish_reason;
  };
  EXPECT_EQ(reason(R"({"finish_reason":"length","message":{"content":"a"}})"), "length");
  EXPECT_EQ(reason(R"({"message":{"content":"a"},"finish_reason":"stop"})"), "stop");
  EXPECT_EQ(reason(R"({"message":{"content":"a","finish_reason":"length"}})"), "");
  EXPECT_EQ(reason(R"({"message":{"content":"a"}},{"message":{},"finish_reason":"length"})"), "");
  EXPECT_EQ(reason(R"({"message":{"content":"a"},"finish_reason":null})"), "");
  EXPECT_EQ(reason(R"({"message":{},"finish_reason":")" + std::string(65, 'x') + "\"}"), "");
}

TEST(OpenAiProtocolTest, ReasoningAndRefusalsAreNoText) {
  for (
      const char* const message :
      {R"({"content":"a","reasoning_content":"no","reasoning":"no","refusal":"no"})",
       R"({"content":[{"type":"reasoning","text":"no"},{"type":"text","text":"a"}]})",
       R"({"content":[{"text":"no","type":"thinking"},{"text":"a","type":"text"}]})",
       R"({"content":[{"type":"thinking","thinking":[{"type":"text","text":"no"}]},{"text":"a"}]})",
       R"({"content":[{"type":"text","text":"a"},{"type":"refusal","refusal":"no","text":"no"}]})"}) {
    EXPECT_EQ(ParseChatAnswer(R"({"choices":[{"message":)" + std::string(message) + "}]}")->text,
              "a")
        << message;
  }
  EXPECT_EQ(
      ParseChatAnswer(R"({"choices":[{"message":{"content":null,"reasoning_content":"no"}}]})")
          ->text,
      "");
}

TEST(OpenAiProtocolTest, TheFirstChoiceIsTheAnswer) {
  EXPECT_EQ(ChatText(R"({"choices":[{"message":{"content":"a"}},{"message":{"content":"b"}}]})"),
            "a");
  EXPECT_EQ(ChatText(R"({"id":1,"x":{"choices":[{"message":{"content":"no"}}]},"choices":[
                       {"finish_reason":"stop","index":0,"logprobs":{"content":["n"]},
                        "message":{"role":"assistant","refusal":null,"content":"a\u00e9\n"}}]})"),
            "aé\n");
  EXPECT_EQ(ChatText(R"({"choices":[{"message":{"content":null}}]})"), "");
  EXPECT_EQ(ChatText(R"({"choices":[{"message":{"role":"assistant"}}]})"), "");
  EXPECT_EQ(ChatText(R"({"choices":[{"message":{"content":[{"type":"text","text":"a"},
                       {"type":"thinking","thinking":"no"},{"type":"text","text":"b"}]}}]})"),
            "ab");
  EXPECT_EQ(ChatText(R"({"choices":[{"message":{"content":[]}}]})"), "");
}

TEST(OpenAiProtocolTest, UsageIsReadWhereThereIsOne) {
  const auto usage = [](const std::string& json) {
    return ParseChatAnswer(R"({"choices":[{"message":{}}],"usage":)" + json + "}")->usage;
  };
  EXPECT_EQ(usage(R"({"prompt_tokens":5,"completion_tokens":7,"total_tokens":12})"),
            (Usage{0, 5, 7}));
  EXPECT_EQ(usage("null"), Usage());
  EXPECT_EQ(usage(R"({"prompt_tokens":-5,"completion_tokens":1e300})"), Usage());
  EXPECT_EQ(usage(R"({"prompt_tokens":"5","prompt_tokens_details":{"completion_tokens":7}})"),
            Usage());
}

TEST(OpenAiProtocolTest, WhatIsNoAnswerIsRefusedWithoutBeingQuoted) {
  const std::string deep = R"({"choices":)" + std::string(100'000, '[');
  for (const std::string& answer :
       {std::string(),
        std::string("secret"),
        std::string("{\"choices\":[{\"message\":{\"cont"),
        std::string("[]"),
        std::string("null"),
        std::string("{}"),
        std::string(R"({"error":{}})"),
        std::string(R"({"choices":[]})"),
        std::string(R"({"choices":{}})"),
        std::string(R"({"choices":[{"text":"secret"}]})"),
        std::string(R"({"choices":[{"message":"secret"}]})"),
        std::string(R"({"choices":[{},{"message":{"content":"secret"}}]})"),
        std::string(R"({"choices":[{"message":{"content":5}}]})"),
        std::string(R"({"choices":[{"message":{"content":{"text":"secret"}}}]})"),
        std::string(R"({"choices":[{"message":{"content":true}}]})"),
        std::string("{\"choices\":[{\"message\":{\"content\":\"\xFF\"}}]}"),
        std::string(R"({"choices":[{"message":{"content":"a"}}]} x)"),
        std::string(R"({"choices":[{"message":{"content":"\ud800"}}]})"),
        std::string(R"({"choices":[{"message":{"content":"a"}}],"n":1e999})"),
        deep,
        deep + std::string(100'000, ']') + "}"}) {
    const absl::Status status = ParseChatAnswer(answer).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status << answer.substr(0, 100);
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
  }
}

TEST(OpenAiProtocolTest, EmbeddingsAreOrderedByTheirIndex) {
  const auto reply = ParseEmbeddingAnswer(
      R"({"object":"list","data":[{"embedding":[1,-2.5e0],"index":1,"object":"embedding"},
          {"index":0,"embedding":[3,0]}],"model":"m","usage":{"prompt_tokens":4}})",
      2, 2);
  ASSERT_TRUE(reply.ok()) << reply.status();
  ASSERT_EQ(reply->vectors.size(), 2);
  EXPECT_THAT(reply->vectors[0], ElementsAre(3.0F, 0.0F));
  EXPECT_THAT(reply->vectors[1], ElementsAre(1.0F, -2.5F));
  EXPECT_EQ(reply->usage, (Usage{0, 4, 0}));
  const auto unnumbered =
      ParseEmbeddingAnswer(R"({"data":[{"embedding":[1]},{"embedding":[2]}]})", 2, 0);
  ASSERT_TRUE(unnumbered.ok()) << unnumbered.status();
  EXPECT_THAT(unnumbered->vectors[1], ElementsAre(2.0F));
}

TEST(OpenAiProtocolTest, OnlyWholeEmbeddingsAreTaken) {
  for (const char* data : {"[]",
                           "null",
                           R"([{"embedding":[1,2]}])",
                           R"([{"embedding":[1,2]},{"embedding":[1,2]},{"embedding":[1,2]}])",
                           R"([{"embedding":[1,2]},{}])",
                           R"([{"embedding":[1,2]},5])",
                           R"([{"embedding":[1,2]},{"embedding":[]}])",
                           R"([{"embedding":[1,2]},{"embedding":[1]}])",
                           R"([{"embedding":[1,2]},{"embedding":[1,2,3]}])",
                           R"([{"embedding":[1,2]},{"embedding":"AAAA"}])",
                           R"([{"embedding":[1,2]},{"embedding":null}])",
                           R"([{"embedding":[1,2]},{"embedding":{"a":1}}])",
                           R"([{"embedding":[1,2]},{"embedding":[1,"2"]}])",
                           R"([{"embedding":[1,2]},{"embedding":[1,null]}])",
                           R"([{"embedding":[1,2]},{"embedding":[1,NaN]}])",
                           R"([{"embedding":[1,2]},{"embedding":[1,1e39]}])",
                           R"([{"embedding":[1,2]},{"embedding":[1,1e999]}])",
                           R"([{"embedding":[1,2]},{"embedding":[[1,2]]}])",
                           R"([{"embedding":[1,2]},{"embedding":[1],"embedding":[1,2]}])",
                           R"([{"embedding":[1,2],"index":0},{"embedding":[1,2],"index":0}])",
                           R"([{"embedding":[1,2],"index":0},{"embedding":[1,2],"index":2}])",
                           R"([{"embedding":[1,2],"index":0},{"embedding":[1,2],"index":-1}])",
                           R"([{"embedding":[1,2],"index":0},{"embedding":[1,2],"index":0.5}])",
                           R"([{"embedding":[1,2],"index":1},{"embedding":[1,2]}])"}) {
    const absl::Status status =
        ParseEmbeddingAnswer(std::string(R"({"data":)") + data + "}", 2, 2).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status << data;
  }
  const char* const good = R"({"data":[{"embedding":[1,2]},{"embedding":[1,2]}]})";
  EXPECT_TRUE(ParseEmbeddingAnswer(good, 2, 2).ok());
  EXPECT_TRUE(ParseEmbeddingAnswer(good, 2, 0).ok());
  EXPECT_TRUE(absl::IsDataLoss(ParseEmbeddingAnswer(good, 2, 3).status()));
  EXPECT_TRUE(absl::IsDataLoss(ParseEmbeddingAnswer(good, 2, 1).status()));
  // At the first number too many, whatever comes behind it.
  for (const std::size_t dimensions : {std::size_t{0}, std::size_t{10'000}}) {
    std::string numbers = "1";
    for (std::size_t i = 1; i < kMaxEmbeddingSize; ++i) numbers += ",1";
    const std::string start = R"({"data":[{"embedding":[)" + numbers;
    EXPECT_EQ(ParseEmbeddingAnswer(start + "]}]}", 1, 0).ok(), true);
    EXPECT_EQ(ParseEmbeddingAnswer(start + ",1 and no JSON", 1, dimensions).status().message(),
              "its answer has an embedding of more than 8192 numbers");
  }
}

}  // namespace
}  // namespace memoryd
