#include "cli/help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstddef>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/commands.h"
#include "cli/program.h"
#include "cli/terminal_text.h"

namespace memoryd::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class HelpTest : public ::testing::Test {
 protected:
  HelpTest() { AddCommands(app_, invocation_, program_); }

  void ForEach(const CLI::App& command, const std::function<void(const CLI::App&)>& visit) {
    visit(command);
    for (const CLI::App* const below : CommandsOf(command)) ForEach(*below, visit);
  }

  const Program program_{
      "1.2.3", "r", {{"--listen", "Addresses.", true}}, {{"PATH", "A file.", true}}};
  Invocation invocation_;
  CLI::App app_;
};

TEST_F(HelpTest, TheOverviewHasAllCommandsInGroups) {
  const std::string text = Overview(app_, "1.2.3", {});
  EXPECT_TRUE(text.starts_with("memoryd 1.2.3: ")) << text;
  const std::size_t start = text.find("\nStart a server\n");
  const std::size_t put = text.find("\nPut in and read\n");
  EXPECT_LT(start, put);
  EXPECT_LT(put, text.find("\nAbout this program\n"));
  EXPECT_THAT(text,
              HasSubstr("\n  sessions    Sessions and their configuration: list, show, create, "
                        "update, fork, delete.\n"));
  for (const CLI::App* const command : CommandsOf(app_)) {
    EXPECT_THAT(text, HasSubstr("\n  " + command->get_name() + " "));
  }
  EXPECT_THAT(text, Not(HasSubstr("mcp")));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST_F(HelpTest, OnlyWithColourHeadingsAreBold) {
  EXPECT_THAT(Overview(app_, "1", {.colour = true}), HasSubstr("\n\x1b[1mStart a server\x1b[0m\n"));
}

TEST_F(HelpTest, NoLineIsWiderThanAsked) {
  for (const int width : {60, 80, 100}) {
    ForEach(app_, [&](const CLI::App& command) {
      std::istringstream lines(HelpOf(command, {.width = width}));
      for (std::string line; std::getline(lines, line);) {
        // A usage is one line, to be copied.
        if (line.starts_with("Usage: ")) continue;
        EXPECT_LE(DisplayWidth(line), width) << line;
      }
    });
  }
}

TEST_F(HelpTest, ACommandTellsItsLineAndItsOptions) {
  const std::string text = HelpOf(*FindCommand(*FindCommand(app_, "sessions"), "fork"), {});
  EXPECT_THAT(text, HasSubstr("\nUsage: memoryd sessions fork SESSION NEW_SESSION [options]\n"));
  EXPECT_THAT(text, HasSubstr("\n  --up-to MESSAGE_ID "));
  EXPECT_THAT(text, HasSubstr("\nHow to reach the server\n"));
  EXPECT_THAT(text, HasSubstr("MEMORYD_TARGET."));
  const std::string dev = HelpOf(*FindCommand(app_, "dev"), {});
  EXPECT_THAT(dev, HasSubstr("\nUsage: memoryd dev [PATH] [options]\n"));
  EXPECT_THAT(dev, HasSubstr("prints the address of its page"));
  EXPECT_THAT(HelpOf(*FindCommand(app_, "serve"), {}),
              HasSubstr("\n  --listen VALUE  Addresses.\n"));
}

TEST_F(HelpTest, EachCommandAndOptionSaysWhatItIs) {
  ForEach(app_, [](const CLI::App& command) {
    const std::string text = command.get_description();
    EXPECT_FALSE(text.empty()) << command.get_name();
    // Behind a group's stand those below it.
    EXPECT_EQ(text.ends_with('.'), CommandsOf(command).empty() || command.get_parent() == nullptr)
        << text;
    for (const CLI::Option* const option : command.get_options()) {
      EXPECT_FALSE(option->get_description().empty()) << command.get_name() << option->get_name();
    }
  });
}

TEST_F(HelpTest, EachCommandAndOptionIsInAGroup) {
  std::vector<std::string> hidden;
  for (const CLI::App* const command : app_.get_subcommands([](const CLI::App*) { return true; })) {
    const std::string group = command->get_group();
    // CLI11's, for those that are given none.
    EXPECT_NE(group, CLI::App().add_subcommand("x")->get_group()) << command->get_name();
    if (group.empty()) hidden.push_back(command->get_name());
  }
  EXPECT_THAT(hidden, ElementsAre("mcp"));
  hidden.clear();
  ForEach(app_, [&hidden](const CLI::App& command) {
    const std::string text = HelpOf(command, {});
    for (const CLI::Option* const option : command.get_options()) {
      if (option->get_group().empty()) {
        hidden.push_back(option->get_lnames().front());
      } else if (!option->check_lname("help")) {
        EXPECT_THAT(text, HasSubstr("  " + option->get_name())) << command.get_name();
      }
    }
  });
  EXPECT_THAT(hidden, ElementsAre("markdown"));
}

TEST_F(HelpTest, TheReferenceHasARowForEachCommand) {
  const std::string text = CommandReference(app_);
  EXPECT_THAT(text, HasSubstr("## Put in and read\n\n| command | |\n|---|---|\n| `memoryd put "
                              "SESSION TEXT` | Stores a message"));
  EXPECT_THAT(text, HasSubstr("| `memoryd export [SESSION…]` |"));
  EXPECT_THAT(text, HasSubstr(" `--limit N`"));
  EXPECT_THAT(text, Not(HasSubstr("--target")));
  EXPECT_THAT(text, Not(HasSubstr("--listen")));
}

}  // namespace
}  // namespace memoryd::cli
