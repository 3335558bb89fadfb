#include "cli/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <string>

#include "cli/commands.h"

namespace memoryd::cli {
namespace {

using ::testing::HasSubstr;

class CompletionTest : public ::testing::Test {
 protected:
  CompletionTest() { AddCommands(app_, invocation_, program_); }

  const Program program_{
      "1", "r", {{"--listen", "Where it's.", true}}, {{"PATH", "A file.", true}}};
  Invocation invocation_;
  CLI::App app_;
};

TEST_F(CompletionTest, OfBashHasTheCommandsAndOptionsOfEachPath) {
  const std::string script = BashCompletion(app_);
  EXPECT_THAT(script, HasSubstr("'') words='serve dev migrate put get query context sessions "));
  EXPECT_THAT(script,
              HasSubstr("'sessions') words='list show create update fork delete --help' ;;"));
  EXPECT_THAT(script, HasSubstr("'sessions list') words='--help --target "));
  EXPECT_THAT(script, HasSubstr(" --json --subject --limit' ;;"));
  EXPECT_THAT(script, HasSubstr("'serve') words='--help --listen' ;;"));
  EXPECT_THAT(script, HasSubstr("|'jobs list'|"));
}

TEST_F(CompletionTest, OfZshTellsWhatEachIs) {
  const std::string script = ZshCompletion(app_);
  EXPECT_TRUE(script.starts_with("#compdef memoryd\n"));
  EXPECT_THAT(script,
              HasSubstr("'sessions') choices=('list:Lists the tenant'\\''s sessions by id.'"));
  EXPECT_THAT(script, HasSubstr("'--listen:Where it'\\''s.'"));
}

TEST_F(CompletionTest, OfFishTellsWhereEachMayStand) {
  const std::string script = FishCompletion(app_);
  EXPECT_THAT(script, HasSubstr("-n '__fish_seen_subcommand_from sessions; and not "
                                "__fish_seen_subcommand_from list show create update fork delete' "
                                "-f -a 'fork' -d "));
  EXPECT_THAT(script, HasSubstr("-n '__fish_seen_subcommand_from sessions; and "
                                "__fish_seen_subcommand_from list' -l limit -r -d "));
  EXPECT_THAT(script, HasSubstr("-l json -d "));
}

}  // namespace
}  // namespace memoryd::cli
