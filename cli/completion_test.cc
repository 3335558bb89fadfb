#include "cli/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstddef>
#include <string>

#include "cli/command.h"
#include "cli/commands.h"
#include "cli/program.h"

namespace memoryd::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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
  EXPECT_THAT(script,
              HasSubstr("'') words='serve dev migrate put get query context watch sessions "));
  EXPECT_THAT(script,
              HasSubstr("'sessions') words='list show create update fork delete --help' ;;"));
  EXPECT_THAT(script, HasSubstr("'sessions list') words='--help --target "));
  EXPECT_THAT(script, HasSubstr(" --json --subject --prefix --latest-first --limit' ;;"));
  EXPECT_THAT(script, HasSubstr("'serve') words='--help --listen' ;;"));
  EXPECT_THAT(script, HasSubstr("|'jobs list'|"));
}

TEST_F(CompletionTest, OfBashHasTheWordsThatOptionsAndArgumentsTake) {
  const std::string script = BashCompletion(app_);
  EXPECT_THAT(script,
              HasSubstr("'jobs list --state') files= words='open done failed cancelled' ;;"));
  EXPECT_THAT(script, HasSubstr("'completion') words='bash zsh fish --help' ;;"));
  EXPECT_THAT(script, HasSubstr("'help') words='serve dev migrate put "));
  EXPECT_THAT(script, HasSubstr("'help jobs') words='list show retry cancel' ;;"));
}

TEST_F(CompletionTest, OfBashHasFilesWhereTheyAreTaken) {
  const std::string script = BashCompletion(app_);
  EXPECT_THAT(script, HasSubstr("'import') words='--help "));
  EXPECT_THAT(script, HasSubstr("--dry-run' files=1 ;;"));
  const std::size_t files = script.find("'serve --listen'");
  const std::size_t others = script.find("'put --target'");
  EXPECT_LT(files, script.find("'put --token-file'"));
  EXPECT_LT(script.find("'export --output'"), script.find("words= files=1 ;;"));
  EXPECT_LT(script.find("words= files=1 ;;"), others);
  EXPECT_LT(others, script.find("words= files= ;;"));
}

TEST_F(CompletionTest, NoShellIsToldOfWhatHelpHides) {
  for (const std::string& script :
       {BashCompletion(app_), ZshCompletion(app_), FishCompletion(app_)}) {
    EXPECT_THAT(script, Not(HasSubstr("markdown")));
    EXPECT_THAT(script, Not(HasSubstr("mcp")));
  }
}

TEST_F(CompletionTest, OfZshTellsWhatEachIs) {
  const std::string script = ZshCompletion(app_);
  EXPECT_TRUE(script.starts_with("#compdef memoryd\n"));
  EXPECT_THAT(script, HasSubstr("'sessions') choices=('list:Lists the tenant'\\''s sessions by id, "
                                "with their bytes and last change.'"));
  EXPECT_THAT(script, HasSubstr("'--listen:Where it'\\''s.'"));
  EXPECT_THAT(script, HasSubstr("'jobs list --state') compadd -- open done failed cancelled;"));
  EXPECT_THAT(script, HasSubstr("'completion') choices=('bash' 'zsh' 'fish' '--help:"));
  EXPECT_THAT(script, HasSubstr("|'export --output'|"));
}

TEST_F(CompletionTest, OfFishTellsWhereEachMayStand) {
  const std::string script = FishCompletion(app_);
  EXPECT_THAT(script, HasSubstr("-n '__memoryd_at \"sessions\"' -a 'fork' -d "));
  EXPECT_THAT(script, HasSubstr("-n '__memoryd_at \"sessions list\"' -f\n"));
  EXPECT_THAT(script, HasSubstr("-n '__memoryd_at \"sessions list\"' -l limit -x -d "));
  EXPECT_THAT(script, HasSubstr("-n '__memoryd_at \"sessions list\"' -l json -d "));
  EXPECT_THAT(script, HasSubstr("-n '__memoryd_at \"jobs list\"' -l state -x -a 'open done failed "
                                "cancelled' -d "));
  EXPECT_THAT(script, HasSubstr("-n '__memoryd_at \"info\"' -l token-file -r -F -d "));
  EXPECT_THAT(script, HasSubstr("-n '__memoryd_at \"help jobs\"' -a 'cancel' -d "));
  EXPECT_THAT(script, HasSubstr("-n '__memoryd_at \"completion\"' -a 'fish'\n"));
  EXPECT_THAT(script, Not(HasSubstr("-n '__memoryd_at \"import\"' -f\n")));
}

}  // namespace
}  // namespace memoryd::cli
