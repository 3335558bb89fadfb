#include "cli/namespace_text.h"

#include <gmock/gmock.h>
#include <google/protobuf/repeated_field.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace memoryd::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Names = std::vector<std::string>;

std::string TextOf(const Names& names) {
  return NamespaceText(google::protobuf::RepeatedPtrField<std::string>(names.begin(), names.end()));
}

TEST(NamespaceTextTest, NamesStandBetweenSlashes) {
  EXPECT_THAT(ParseNamespace("users/ada").value(), ElementsAre("users", "ada"));
  EXPECT_THAT(ParseNamespace("users").value(), ElementsAre("users"));
  // The server says that a name is empty.
  EXPECT_THAT(ParseNamespace("users/").value(), ElementsAre("users", ""));
  EXPECT_THAT(ParseNamespace("").value(), ElementsAre(""));
}

TEST(NamespaceTextTest, AnyNamesStandInJson) {
  EXPECT_THAT(ParseNamespace(R"(["a/b","[c"])").value(), ElementsAre("a/b", "[c"));
  EXPECT_THAT(ParseNamespace("[]").value(), ElementsAre());
  for (const char* wrong : {"[", R"(["a",1])", R"(["a"] b)", "[a]"}) {
    const absl::Status status = ParseNamespace(wrong).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << wrong;
    EXPECT_THAT(std::string(status.message()), HasSubstr("NAMESPACE"));
  }
}

TEST(NamespaceTextTest, WhatIsShownIsReadBack) {
  EXPECT_EQ(TextOf({"users", "ada"}), "users/ada");
  EXPECT_EQ(TextOf({"a/b", "c"}), R"(["a/b","c"])");
  for (const Names& names : {Names{"a"}, Names{"a", "["}, Names{"[a"}, Names{"/"}, Names{"\"", "é"},
                             Names{}, Names{"[\"a\"]", "b"}}) {
    EXPECT_EQ(ParseNamespace(TextOf(names)).value(), names) << TextOf(names);
  }
}

}  // namespace
}  // namespace memoryd::cli
