#include "core/base/shell_word.h"

#include <gtest/gtest.h>

namespace memoryd {
namespace {

TEST(ShellWord, IsPlainWhereAShellTakesItAsItIs) {
  EXPECT_EQ(ShellWord("127.0.0.1:50051"), "127.0.0.1:50051");
  EXPECT_EQ(ShellWord("unix:/run/memoryd-1.sock"), "unix:/run/memoryd-1.sock");
}

TEST(ShellWord, IsQuotedElse) {
  EXPECT_EQ(ShellWord(""), "''");
  EXPECT_EQ(ShellWord("a b"), "'a b'");
  EXPECT_EQ(ShellWord("[::1]:1"), "'[::1]:1'");
  EXPECT_EQ(ShellWord("$(x)"), "'$(x)'");
  EXPECT_EQ(ShellWord("it's"), "'it'\\''s'");
  EXPECT_EQ(ShellWord("\xC3\xA4"), "'\xC3\xA4'");
  EXPECT_EQ(QuotedForShell("a"), "'a'");
}

}  // namespace
}  // namespace memoryd
