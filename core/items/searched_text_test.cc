#include "core/items/searched_text.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "core/items/item.h"

namespace memoryd {
namespace {

constexpr char kValue[] =
    R"({"a":"one","b":{"c":"two","d":["three",{"e":"four"},{"e":"five"}]},"n":6,"x.y":"seven"})";

std::string Texts(std::string paths, std::string value = kValue) {
  ItemContent content;
  content.value = std::move(value);
  content.search = std::move(paths);
  return SearchedText(content, R"(["$"])");
}

TEST(SearchedTextTest, PathsLeadToTexts) {
  EXPECT_EQ(Texts(R"(["a"])"), "one\n");
  EXPECT_EQ(Texts(R"(["b.c"])"), "two\n");
  EXPECT_EQ(Texts(R"(["b.d[0]"])"), "three\n");
  EXPECT_EQ(Texts(R"(["b.d[1].e","a"])"), "one\nfour\n");
  EXPECT_EQ(Texts(R"(["b.d[*].e"])"), "four\nfive\n");
  EXPECT_EQ(Texts(R"(["b.*"])"), "two\nthree\nfour\nfive\n");
  EXPECT_EQ(Texts(R"(["$"])"), "one\ntwo\nthree\nfour\nfive\nseven\n");
}

TEST(SearchedTextTest, ATextIsThereOnceHoweverManyPathsLeadToIt) {
  EXPECT_EQ(Texts(R"(["$","$","a"])"), "one\ntwo\nthree\nfour\nfive\nseven\n");
  EXPECT_EQ(Texts(R"(["a","a","b.d[1].e","b.d","b.*","b"])"), "one\ntwo\nthree\nfour\nfive\n");
  EXPECT_EQ(Texts(R"(["b","b.c","*.c","b.d[*].e"])"), "two\nthree\nfour\nfive\n");
}

TEST(SearchedTextTest, PathsThatLeadNowhereAreIgnored) {
  EXPECT_EQ(Texts(R"(["n","z","a.b","b[0]","b.d[9]","b.d[x]","b.d[","[","b.d[-1]"])"), "");
  EXPECT_EQ(Texts("[]"), "");
}

TEST(SearchedTextTest, TheNamespaceDecidesWhereTheItemDoesNot) {
  ItemContent content;
  content.value = kValue;
  EXPECT_EQ(SearchedText(content, R"(["a"])"), "one\n");
  EXPECT_EQ(SearchedText(content, "[]"), "");
}

TEST(SearchedTextTest, BytesHaveNoText) {
  ItemContent content;
  content.kind = ItemValueKind::kBytes;
  content.value = "\"text\"";
  EXPECT_EQ(SearchedText(content, R"(["$"])"), "");
}

TEST(SearchedTextTest, AValueMayBeATextOrAList) {
  EXPECT_EQ(Texts(R"(["$"])", R"("alone")"), "alone\n");
  EXPECT_EQ(Texts(R"(["[1]"])", R"(["a","b"])"), "b\n");
  EXPECT_EQ(Texts(R"(["[*].t"])", R"([{"t":"a"},{"t":"b"}])"), "a\nb\n");
}

TEST(SearchedTextTest, TextsComeAsTheyStandInTheValue) {
  EXPECT_EQ(Texts(R"(["$"])", R"({"b":"two","a":["one",["x"]]})"), "two\none\nx\n");
  EXPECT_EQ(Texts(R"(["[1][0]","[3]"])", R"([[],["a","b"],{},"c",["d"]])"), "a\nc\n");
}

TEST(SearchedTextTest, ATextBesideALargeIntegerIsFound) {
  EXPECT_EQ(Texts(R"(["$"])", "[" + std::string(350, '9') + R"(,"text"])"), "text\n");
}

// The most memory that this process has had so far, in KiB.
std::int64_t PeakMemory() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST(SearchedTextTest, NoTreeIsMadeOfAValue) {
  ItemContent content;
  content.value = R"({"a":[{})";
  while (content.value.size() < std::size_t{16} << 20) content.value += ",{},[],{}";
  content.value += R"(,"text"]})";
  const std::int64_t before = PeakMemory();
  EXPECT_EQ(SearchedText(content, R"(["$","a[*].b"])"), "text\n");
  EXPECT_LT(PeakMemory() - before, 8 << 10);
}

}  // namespace
}  // namespace memoryd
