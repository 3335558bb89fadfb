#include "cli/program.h"

#include <fmt/format.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "cli/command.h"
#include "cli/completion.h"
#include "cli/help.h"
#include "cli/printer.h"
#include "cli/unknown_word.h"
#include "core/base/server_command.h"

namespace memoryd::cli {
namespace {

constexpr char kAbout[] = "About this program";

void AddOptions(CLI::App& command, const std::vector<CommandLineOption>& options) {
  for (const CommandLineOption& option : options) {
    CLI::Option* const added =
        option.takes_value ? command.add_option(option.name) : command.add_flag(option.name);
    added->description(option.help)->group("Settings");
    if (option.takes_value) added->type_name(kAnyValue);
  }
}

absl::Status Help(const CLI::App& app, Printer& printer, const Program& program,
                  const std::vector<std::string>& words, bool markdown) {
  const CLI::App* command = &app;
  for (const std::string& word : words) {
    const CLI::App* const next = FindCommand(*command, word);
    if (next == nullptr) return UnknownCommand(*command, word);
    command = next;
  }
  const HelpStyle style = StyleOfOutput();
  if (markdown) {
    printer.Print(CommandReference(app));
  } else {
    printer.Print(command == &app ? Overview(app, program.version, style)
                                  : HelpOf(*command, style));
  }
  return absl::OkStatus();
}

}  // namespace

void AddServing(CLI::App& app, const Program& program) {
  for (const ServerCommandWord& word : kServerCommands) {
    CLI::App& command = *app.add_subcommand(std::string(word.word), std::string(word.help));
    command.group(kServing);
    if (word.command == ServerCommand::kServe) AddOptions(command, program.serve);
    if (word.command == ServerCommand::kDev) AddOptions(command, program.dev);
  }
}

void AddElsewhere(CLI::App& app, Invocation& invocation) {
  CLI::App& mcp = AddCommandHere(app, "mcp", "Serves MCP.", invocation, [](Printer&) {
    return absl::UnimplementedError(
        "mcp: needs Python and is no part of this binary: pip install 'memoryd[mcp]', and run "
        "that package's memoryd mcp");
  });
  // So that help lists what there is here.
  mcp.group("");
  mcp.prefix_command();
}

void AddAbout(CLI::App& app, Invocation& invocation, const Program& program) {
  const auto json = std::make_shared<bool>(false);
  CLI::App& version = AddCommandHere(
      app, "version", "Shows the version.", invocation, [json, &program](Printer& printer) {
        printer.Print(
            *json ? fmt::format("{{\"version\":\"{}\",\"revision\":\"{}\"}}\n", program.version,
                                program.revision)
                  : fmt::format("memoryd {}, revision {}\n", program.version, program.revision));
        return absl::OkStatus();
      });
  version.add_flag("--json", *json, "Print a JSON object.");
  version.group(kAbout);

  struct HelpArguments {
    std::vector<std::string> words;
    bool markdown = false;
  };
  const auto words = std::make_shared<HelpArguments>();
  CLI::App& help = AddCommandHere(
      app, "help", "Explains a command and its options; without one, lists all commands.",
      invocation, [&app, words, &program](Printer& printer) {
        return Help(app, printer, program, words->words, words->markdown);
      });
  help.add_option("COMMAND", words->words, "A command, such as sessions, or sessions fork.");
  help.add_flag("--markdown", words->markdown, "All commands, for docs/COMMANDS.md.")->group("");
  help.group(kAbout);

  const auto shell = std::make_shared<std::string>();
  CLI::App& completion =
      AddCommandHere(app, "completion", "Prints a shell's completion script, and how to load it.",
                     invocation, [&app, shell](Printer& printer) {
                       printer.Print(*shell == "bash"  ? BashCompletion(app)
                                     : *shell == "zsh" ? ZshCompletion(app)
                                                       : FishCompletion(app));
                       return absl::OkStatus();
                     });
  completion.add_option("SHELL", *shell, "bash, zsh or fish.")
      ->required()
      ->check(OneOf({"bash", "zsh", "fish"}));
  completion.group(kAbout);
}

}  // namespace memoryd::cli
