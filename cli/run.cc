#include "cli/run.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "cli/call_error.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/connection.h"
#include "cli/diagnostic.h"
#include "cli/printer.h"
#include "cli/program.h"
#include "cli/target.h"
#include "cli/unknown_word.h"
#include "core/base/status_macros.h"
#include "core/base/utf8_decode.h"

namespace memoryd::cli {
namespace {

int Fail(const absl::Status& status, bool json) {
  PrintError(status, json);
  return ExitCodeOf(status);
}

// Whether one of `words` is one of `wanted`, before what stands behind `--`.
bool HasWord(const std::vector<std::string>& words,
             std::initializer_list<std::string_view> wanted) {
  return std::ranges::any_of(
      words.begin(), std::ranges::find(words, "--"),
      [&](const std::string& word) { return std::ranges::find(wanted, word) != wanted.end(); });
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

// INVALID_ARGUMENT for a value that no request can hold, of the command that was given.
absl::Status CheckUtf8(const CLI::App& command) {
  for (const CLI::Option* const option : command.get_options()) {
    if (NamesFile(*option) || std::ranges::all_of(option->results(), &IsUtf8)) continue;
    return absl::InvalidArgumentError(fmt::format("{}: is not UTF-8", option->get_name()));
  }
  for (const CLI::App* const given : command.get_subcommands()) {
    MEMORYD_RETURN_IF_ERROR(CheckUtf8(*given));
  }
  return absl::OkStatus();
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
  // Also of a line that is wrong, and says nothing else that is certain.
  const bool json = HasWord(words, {"--json"});
  if (HasWord(words, {"--help", "-h"})) {
    std::vector<std::string> help = {"help"};
    const CLI::App* command = &app;
    for (const std::string& word : words) {
      if (CommandsOf(*command).empty() || word.starts_with('-')) break;
      const CLI::App* const next = FindCommand(*command, word);
      if (next == nullptr) return Fail(UnknownCommand(*command, word), json);
      command = next;
      help.push_back(word);
    }
    return RunWords(help, program);
  }
  if (const absl::Status status = CheckWords(app, words); !status.ok()) return Fail(status, json);
  try {
    // CLI11 takes them from the back.
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    return Fail(absl::InvalidArgumentError(error.what()), json);
  }
  if (const absl::Status status = CheckUtf8(app); !status.ok()) return Fail(status, json);
  if (old.has_value() && invocation.run != nullptr && invocation.connection.target == old->target) {
    PrintWarning(
        fmt::format("{} is an old name: set MEMORYD_TARGET={}", old->variable, old->target),
        invocation.json);
  }
  const absl::Status status = RunInvocation(invocation);
  return status.ok() ? kDone : Fail(status, invocation.json);
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
