#include "core/blocks/block_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "core/base/json_check.h"
#include "core/model/body_reader.h"

namespace memoryd {
namespace {

TEST(PythonStripTest, TakesWhatPythonTakes) {
  EXPECT_EQ(PythonStrip(" \t\r\n\v\f\x1c\x1d\x1e\x1f"
                        "a b\xC2\x85\xC2\xA0\xE1\x9A\x80\xE2\x80\x80\xE2\x80\x8A\xE2\x80\xA8"
                        "\xE2\x80\xA9\xE2\x80\xAF\xE2\x81\x9F\xE3\x80\x80"),
            "a b");
  EXPECT_EQ(PythonStrip(" \n "), "");
  EXPECT_EQ(PythonStrip(""), "");
}

TEST(PythonStripTest, LeavesZeroWidthSpaceByteOrderMarkAndBrokenBytes) {
  for (const std::string text : {"\xE2\x80\x8B", "\xEF\xBB\xBF", "\x80", "a\xC2", "\xA0"}) {
    EXPECT_EQ(PythonStrip(text), text);
  }
}

TEST(FillTemplateTest, ReplacesKnownNamesOnce) {
  EXPECT_EQ(FillTemplate("{a}-{b}-{c} {{a}} {a", {{"a", "{b}"}, {"b", "2"}}), "{b}-2-{c} {{b}} {a");
  EXPECT_EQ(FillTemplate("", {{"a", "1"}}), "");
  EXPECT_EQ(FillTemplate("{}{ab}", {{"a", "1"}}), "{}{ab}");
}

TEST(EscapeTagsTest, EscapesTheNamedTagsAlone) {
  constexpr std::array<std::string_view, 2> kNames = {"fact", "memory"};
  EXPECT_EQ(EscapeTags("a </fact> <FACT x='1'> < / fact> <facts> <b> <memory", kNames),
            "a &lt;/fact> &lt;FACT x='1'> &lt; / fact> <facts> <b> &lt;memory");
  EXPECT_EQ(EscapeTags("1 < 2 &lt;", kNames), "1 < 2 &lt;");
  EXPECT_EQ(EscapeTags("<facts>", kNames, /*whole_names=*/false), "&lt;facts>");
}

TEST(EscapeTagsTest, WhiteSpaceAndWhatDoesNotShowMakeNoOtherTag) {
  constexpr std::array<std::string_view, 1> kNames = {"memory"};
  for (const std::string& rest : std::vector<std::string>{
           "/memory >", "/memory\n>", " / memory\n>", "\n/\nmemory>", "\t/memory>", "/\r\nmemory>",
           "\u00A0/memory>", "\u200B/\u2060memory>", "/me\nmory>", "/me\u200Bmory>",
           "/memor\u00ADy>", "/\u2003memory\u2003>", "//memory>", std::string("/\0memory>", 9)}) {
    EXPECT_EQ(EscapeTags("a<" + rest + "b", kNames), "a&lt;" + rest + "b");
  }
  for (const std::string other : {"a < me mory", "<\n1", "< \xFF/memory", "<", "< ", "</"}) {
    EXPECT_EQ(EscapeTags(other, kNames), other);
  }
}

TEST(EntitiesTest, AttributesComeBack) {
  EXPECT_EQ(EscapeAttribute("a&b<c\"d"), "a&amp;b&lt;c&quot;d");
  EXPECT_EQ(UnescapeEntities("a&amp;b&lt;c&quot;d&#39;&apos;&gt;&nbsp;&"), "a&b<c\"d''>&nbsp;&");
}

TEST(HeadTest, CutsBetweenCharacters) {
  EXPECT_EQ(Head("a\xC3\xA9z", 2), "a");
  EXPECT_EQ(Head("a\xC3\xA9z", 3), "a\xC3\xA9");
  EXPECT_EQ(Tail("a\xC3\xA9z", 2), "z");
  EXPECT_EQ(Tail("abc", 9), "abc");
}

TEST(MessageWordsTest, NamesToolsAndMedia) {
  StoredMessage message;
  message.parts.resize(4);
  message.parts[0].text = "hello";
  message.parts[1].kind = StoredPart::Kind::kToolCall;
  message.parts[1].tool_name = "search";
  message.parts[1].arguments_json = "{\"q\":1}";
  message.parts[2].kind = StoredPart::Kind::kImage;
  message.parts[2].url = "data:image/png;base64,AAAA";
  message.parts[3].kind = StoredPart::Kind::kThinking;
  message.parts[3].text = "hm";
  EXPECT_EQ(MessageWords(message), "hello\n[calls search: {\"q\":1}]\n[image]");
}

TEST(MessageWordsTest, PassesOverIdsWhoseWordsStandBesideThem) {
  StoredMessage message;
  message.parts.emplace_back().text = "42";
  StoredPart& answer = message.parts.emplace_back();
  answer.kind = StoredPart::Kind::kToolResult;
  answer.call_id = "1";
  EXPECT_EQ(MessageWords(message), "42");
  message.parts.erase(message.parts.begin());
  EXPECT_EQ(MessageWords(message), "[a tool answers: ]");
}

TEST(JsonMembersTest, SetsAMemberInItsPlaceOrAtTheEnd) {
  EXPECT_EQ(WithStringMember("", "session_id", "s\"1"), R"({"session_id": "s\"1"})");
  EXPECT_EQ(WithStringMember("{}", "k", "v"), R"({"k": "v"})");
  // Numbers keep their form: 1 and 1.0 differ, and integers may be of any size.
  EXPECT_EQ(WithStringMember(
                R"( {"a" : 1.0,"b":[{"k":"}"}], "n":123456789012345678901234567890 } )", "k", "v"),
            R"({"a": 1.0, "b": [{"k":"}"}], "n": 123456789012345678901234567890, "k": "v"})");
  EXPECT_EQ(WithStringMember(R"({"session\u005fid":{"x":1},"b":"\\\""})", "session_id", "s"),
            R"({"session\u005fid": "s", "b": "\\\""})");
}

TEST(JsonMembersTest, RemovesAMember) {
  EXPECT_EQ(WithoutMember(R"({"session_id":"x"})", "session_id"), "");
  EXPECT_EQ(WithoutMember(R"({"a":1,"session_id":"x","b":-2.5e3})", "session_id"),
            R"({"a": 1, "b": -2.5e3})");
  EXPECT_EQ(WithoutMember("", "a"), "");
}

// Any valid object stays one, with the same members.
TEST(JsonMembersPropertyTest, WritesValidJson) {
  std::mt19937 random(1);
  const auto value = [&random] {
    static const std::array<std::string, 8> kValues = {
        "1", "-0.5e9", "true", "null", R"("a,}]\"\\")", R"([1,{"x":[]}])", R"({"k":"{"})", "[]"};
    return kValues[random() % kValues.size()];
  };
  for (int round = 0; round < 500; ++round) {
    std::string object = "{";
    const std::size_t count = random() % 5;
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0) object += random() % 2 == 0 ? "," : " ,\n";
      object += "\"k" + std::to_string(i) + "\"" + (random() % 2 == 0 ? ":" : " :\t") + value();
    }
    object += '}';
    const std::string with = WithStringMember(object, "new", "x");
    ASSERT_TRUE(CheckJsonObject(with).ok()) << with;
    EXPECT_EQ(JsonMembers(with).size(), count + 1);
    const std::string without = WithoutMember(with, "new");
    EXPECT_EQ(JsonMembers(without).size(), count);
    EXPECT_EQ(WithoutMember(with, "absent"), with);
  }
}

// Whatever the bytes are, the functions end and stay within them.
TEST(JsonMembersPropertyTest, TakesAnyBytes) {
  std::mt19937 random(2);
  constexpr std::string_view kAlphabet = "{}[]\",:\\ a1";
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (std::size_t left = random() % 20; left > 0; --left) {
      text += kAlphabet[random() % kAlphabet.size()];
    }
    for (const JsonMember& member : JsonMembers(text)) {
      EXPECT_LE(member.value_text.size(), text.size());
    }
  }
}

}  // namespace
}  // namespace memoryd
