#include "cli/unknown_word.h"

#include <gtest/gtest.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/commands.h"
#include "cli/program.h"

namespace memoryd::cli {
namespace {

// What is said of a command line; empty where all of it is known.
std::string SaidOf(const std::vector<std::string>& words) {
  const Program program;
  Invocation invocation;
  CLI::App app;
  AddCommands(app, invocation, program);
  return std::string(CheckWords(app, words).message());
}

TEST(CheckWords, KnowsCommandsAndOptions) {
  const std::vector<std::vector<std::string>> lines = {
      {"info"},
      {"info", "--json", "--timeout=3"},
      {"sessions", "list", "--limit", "-1"},
      {"put", "s", "-"},
      {"put", "s", "--role", "--user", "text"},
      {"put", "s", "--", "--text"},
      {"put", "s", "- buy milk"},
      {"put", "s", "-\n- buy milk"},
      {"put", "s", "---\ntitle: x"},
      {"mcp", "--http", "x"},
      {"sessions", "--help"},
      {},
  };
  for (const auto& line : lines) EXPECT_EQ(SaidOf(line), "");
}

TEST(CheckWords, SaysWhatAWordMayHaveMeant) {
  EXPECT_EQ(SaidOf({"sesions"}), "unknown command sesions: did you mean sessions?");
  EXPECT_EQ(SaidOf({"frobnicate"}), "unknown command frobnicate: see memoryd help");
  EXPECT_EQ(SaidOf({"sessions", "lst"}), "unknown command sessions lst: did you mean list?");
  EXPECT_EQ(SaidOf({"sessions", "burn"}),
            "unknown command sessions burn: there are list, show, create, update, fork, delete");
  EXPECT_EQ(SaidOf({"jobs"}), "jobs needs a command: list, show, retry, cancel");
  EXPECT_EQ(SaidOf({"info", "--jsno"}), "unknown option --jsno: did you mean --json?");
  EXPECT_EQ(SaidOf({"info", "--traget=a:1"}), "unknown option --traget: did you mean --target?");
  EXPECT_EQ(
      SaidOf({"put", "s", "-5 degrees"}),
      "unknown option -5 degrees: see memoryd help put; a text that begins with - stands behind "
      "all options and --");
}

}  // namespace
}  // namespace memoryd::cli
