#include "cli/run.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/call_error.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/target.h"
#include "cli/terminal_text.h"
#include "cli/unknown_word.h"

namespace memoryd::cli {
namespace {

int Fail(const absl::Status& status) {
  fmt::print(stderr, "memoryd: {}\n", EscapeForTerminal(std::string(status.message())));
  return ExitCodeOf(status);
}

absl::Status RunInvocation(const Invocation& invocation) {
  Printer printer(invocation.json);
  absl::Status status;
  if (invocation.run_here != nullptr) {
    status = invocation.run_here(printer);
  } else {
    MEMORYD_ASSIGN_OR_RETURN(const auto connection, Connection::Open(invocation.connection));
    status = invocation.run(*connection, printer);
  }
  const absl::Status printed = printer.Finish();
  return status.ok() ? printed : status;
}

int RunWords(const std::vector<std::string>& words, const Program& program) {
  Invocation invocation;
  const std::optional<OldTarget> old = FindOldTarget();
  if (old.has_value()) invocation.connection.target = old->target;
  CLI::App app;
  AddCommands(app, invocation, program);
  if (words.empty() || words.front() == "--help" || words.front() == "-h") {
    return RunWords({"help"}, program);
  }
  const bool wants_help =
      std::ranges::any_of(words.begin(), std::ranges::find(words, "--"),
                          [](const std::string& word) { return word == "--help" || word == "-h"; });
  if (wants_help) {
    std::vector<std::string> help = {"help"};
    const CLI::App* command = &app;
    for (const std::string& word : words) {
      command = FindCommand(*command, word);
      if (command == nullptr) break;
      help.push_back(word);
    }
    return RunWords(help, program);
  }
  if (const absl::Status status = CheckWords(app, words); !status.ok()) return Fail(status);
  try {
    // CLI11 takes them from the back.
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    return Fail(absl::InvalidArgumentError(error.what()));
  }
  if (old.has_value() && invocation.run != nullptr && invocation.connection.target == old->target) {
    fmt::print(stderr, "memoryd: warning: {} is an old name: set MEMORYD_TARGET={}\n",
               old->variable, EscapeForTerminal(old->target));
  }
  const absl::Status status = RunInvocation(invocation);
  return status.ok() ? kDone : Fail(status);
}

}  // namespace

int Run(int argc, const char* const* argv, const Program& program) {
  return RunWords(std::vector<std::string>(argv + 1, argv + argc), program);
}

std::vector<std::string> CommandNames() {
  Invocation invocation;
  const Program program;
  CLI::App app;
  AddCommands(app, invocation, program);
  std::vector<std::string> names;
  for (const CLI::App* const command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

int PrintHelp(const std::string& command, const Program& program) {
  return RunWords({"help", command}, program);
}

std::string HintFor(int argc, const char* const* argv) {
  Invocation invocation;
  const Program program;
  CLI::App app;
  AddCommands(app, invocation, program);
  if (argc < 2 || *argv[1] != '-') return {};
  const std::string_view first = argv[1];
  for (int i = 2; i < argc; ++i) {
    const CLI::App* const command = FindCommand(app, argv[i]);
    if (command != nullptr && command->get_group() != kServing) {
      return fmt::format(": options of {0} stand behind it, as in memoryd {0} {1}", argv[i],
                         first.substr(0, first.find('=')));
    }
  }
  return {};
}

}  // namespace memoryd::cli
