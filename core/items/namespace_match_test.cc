#include "core/items/namespace_match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/items/namespace_path.h"

namespace memoryd {
namespace {

using ::testing::HasSubstr;

using Names = std::vector<std::string>;
using End = NamespaceMatch::End;

NamespacePath Path(const Names& names) {
  return NamespacePath::MakePrefix(FieldPath(), "namespace", names).value();
}

NamespaceFilter Filter(std::vector<NamespaceMatch> matches) {
  return NamespaceFilter::Make("matches", std::move(matches)).value();
}

TEST(NamespaceMatchTest, AWildcardStandsForOneName) {
  const NamespaceFilter filter = Filter({{End::kPrefix, {"users", "*", "notes"}}});
  EXPECT_TRUE(filter.Passes(Path({"users", "ada", "notes"})));
  EXPECT_TRUE(filter.Passes(Path({"users", "ada", "notes", "2026"})));
  EXPECT_FALSE(filter.Passes(Path({"users", "notes"})));
  EXPECT_FALSE(filter.Passes(Path({"users", "ada", "lace", "notes"})));
}

TEST(NamespaceMatchTest, ASuffixIsComparedFromTheEnd) {
  const NamespaceFilter filter = Filter({{End::kSuffix, {"notes", "*"}}});
  EXPECT_TRUE(filter.Passes(Path({"users", "notes", "2026"})));
  EXPECT_FALSE(filter.Passes(Path({"notes", "2026", "may"})));
  EXPECT_FALSE(filter.Passes(Path({"notes"})));
}

TEST(NamespaceMatchTest, BeginsWhereTheLongestPrefixHasItsFirstWildcard) {
  EXPECT_EQ(Filter({}).begin(), NamespacePath());
  EXPECT_EQ(Filter({{End::kPrefix, {"a", "b", "*", "c"}}}).begin(), Path({"a", "b"}));
  EXPECT_EQ(Filter({{End::kPrefix, {"*"}}, {End::kPrefix, {"a"}}}).begin(), Path({"a"}));
  EXPECT_EQ(Filter({{End::kSuffix, {"a"}}}).begin(), NamespacePath());
}

TEST(NamespaceMatchTest, NamesTheBadNameInItsError) {
  const auto error = [](std::vector<NamespaceMatch> matches) {
    return std::string(NamespaceFilter::Make("matches", std::move(matches)).status().message());
  };
  EXPECT_THAT(error({{}, {End::kSuffix, {"a", ""}}}), HasSubstr("matches[1].names[1]:"));
  EXPECT_THAT(error({{End::kPrefix, Names(17, "*")}}), HasSubstr("matches[0].names: must have"));
  EXPECT_THAT(error(std::vector<NamespaceMatch>(17)), HasSubstr("matches: must have at most 16"));
}

// What the wire's comment says, name by name.
bool PassesNaively(const std::vector<NamespaceMatch>& matches, const Names& path) {
  for (const NamespaceMatch& match : matches) {
    if (path.size() < match.names.size()) return false;
    for (std::size_t i = 0; i < match.names.size(); ++i) {
      const std::size_t at = match.end == End::kPrefix ? i : path.size() - match.names.size() + i;
      if (match.names[i] != "*" && match.names[i] != path[at]) return false;
    }
  }
  return true;
}

TEST(NamespaceMatchTest, PassesWhatANaiveModelPassesSeed23) {
  std::mt19937 random(23);
  const auto any = [&random](std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(0, most)(random);
  };
  const Names kNames = {"a", "b", "c", "*"};
  int passed = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::vector<NamespaceMatch> matches(any(2));
    for (NamespaceMatch& match : matches) {
      match.end = any(1) == 0 ? End::kPrefix : End::kSuffix;
      match.names.resize(any(3));
      for (std::string& name : match.names) name = kNames[any(3)];
    }
    Names path(1 + any(3));
    for (std::string& name : path) name = kNames[any(2)];
    const NamespaceFilter filter = Filter(matches);
    const bool passes = PassesNaively(matches, path);
    passed += passes ? 1 : 0;
    ASSERT_EQ(filter.Passes(Path(path)), passes);
    if (passes) {
      ASSERT_TRUE(Path(path).StartsWith(filter.begin()));
    }
  }
  EXPECT_GT(passed, 4'000);
}

}  // namespace
}  // namespace memoryd
