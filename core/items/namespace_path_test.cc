#include "core/items/namespace_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Names = std::vector<std::string>;

NamespacePath Path(const Names& names) {
  return NamespacePath::MakePrefix(FieldPath(), "namespace", names).value();
}

std::string ErrorOf(const Names& names) {
  const absl::StatusOr<NamespacePath> path = NamespacePath::Make(FieldPath(), "namespace", names);
  return path.ok() ? "" : std::string(path.status().message());
}

Names NamesOf(const NamespacePath& path) {
  const std::vector<std::string_view> names = path.names();
  return {names.begin(), names.end()};
}

TEST(NamespacePathTest, KeepsItsNames) {
  const NamespacePath path = Path({"users", "a/b.c", "*"});
  EXPECT_THAT(path.names(), ElementsAre("users", "a/b.c", "*"));
  EXPECT_EQ(path.depth(), 3u);
  EXPECT_EQ(NamespacePath::FromStored(path.stored()).value(), path);
}

TEST(NamespacePathTest, RefusesNoNamesAndSeventeen) {
  EXPECT_THAT(ErrorOf({}), HasSubstr("namespace: must have 1 to 16 names"));
  EXPECT_THAT(ErrorOf(Names(17, "a")), HasSubstr("namespace: must have at most 16 names; got 17"));
  EXPECT_EQ(ErrorOf(Names(16, std::string(256, 'x'))), "");
}

TEST(NamespacePathTest, NamesTheBadNameInItsError) {
  EXPECT_THAT(ErrorOf({"a", ""}), HasSubstr("namespace[1]: must be 1 to 256 bytes; got 0"));
  EXPECT_THAT(ErrorOf({std::string(257, 'x')}), HasSubstr("namespace[0]: must be 1 to 256 bytes"));
  EXPECT_THAT(ErrorOf({"a", "b", "c\x01"}), HasSubstr("namespace[2]: must not contain control"));
  EXPECT_THAT(ErrorOf({"memoryd", "a"}), HasSubstr("namespace[0]: `memoryd` is reserved"));
  EXPECT_EQ(ErrorOf({"a", "memoryd"}), "");
}

TEST(NamespacePathTest, NamesTheMessageThatItStandsIn) {
  const FieldPath batch("batches", 3);
  const absl::StatusOr<NamespacePath> path =
      NamespacePath::Make(batch, "namespace", std::vector<std::string>{""});
  EXPECT_THAT(std::string(path.status().message()), HasSubstr("batches[3].namespace[0]:"));
}

TEST(NamespacePathTest, RefusesAStoredPathThatNoneCanHave) {
  for (const char* stored : {"", "a", "a\001b", "\001", "a\001\001"}) {
    EXPECT_EQ(NamespacePath::FromStored(stored).status().code(), absl::StatusCode::kDataLoss)
        << stored;
  }
}

TEST(NamespacePathTest, IsCutAndMoved) {
  const NamespacePath path = Path({"a", "b", "c"});
  EXPECT_EQ(path.Cut(2), Path({"a", "b"}));
  EXPECT_EQ(path.Cut(0), NamespacePath());
  EXPECT_EQ(path.Cut(9), path);
  EXPECT_EQ(path.Moved(Path({"a"}), Path({"x", "y"})), Path({"x", "y", "b", "c"}));
}

// Names that share beginnings, with the least and the greatest characters that one may have.
Names RandomNames(std::mt19937& random) {
  static const Names kNames = {"a", "a!", "aa", "ab", " ", "z", "\xF4\x8F\xBF\xBD", "a/b"};
  Names names(std::uniform_int_distribution<std::size_t>(0, 4)(random));
  for (std::string& name : names) {
    name = kNames[std::uniform_int_distribution<std::size_t>(0, kNames.size() - 1)(random)];
  }
  return names;
}

TEST(NamespacePathTest, SortsAndPrefixesAsListsOfNamesDoSeed17) {
  std::mt19937 random(17);
  for (int i = 0; i < 20'000; ++i) {
    const Names a = RandomNames(random), b = RandomNames(random);
    const NamespacePath path_a = Path(a), path_b = Path(b);
    EXPECT_EQ(path_a < path_b, a < b);
    EXPECT_EQ(path_a == path_b, a == b);
    const bool begins = a.size() >= b.size() && std::equal(b.begin(), b.end(), a.begin());
    EXPECT_EQ(path_a.StartsWith(path_b), begins);
    // What a store scans.
    const bool in_range = path_a.stored() >= path_b.stored() &&
                          (path_b.StoredEnd().empty() || path_a.stored() < path_b.StoredEnd());
    EXPECT_EQ(in_range, begins);
    EXPECT_EQ(NamesOf(path_a), a);
  }
}

}  // namespace
}  // namespace memoryd
