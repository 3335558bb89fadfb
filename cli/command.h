// What all commands have in common: how they are declared, and their options. The tree of the
// declared commands is the one table from which dispatch, help, completion and docs/COMMANDS.md
// are.
#ifndef MEMORYD_CLI_COMMAND_H_
#define MEMORYD_CLI_COMMAND_H_

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/connection.h"
#include "cli/printer.h"

namespace memoryd::cli {

// What the command line asks for: one of the two functions, or none for `help`.
struct Invocation {
  ConnectionOptions connection;
  bool json = false;
  std::function<absl::Status(Connection&, Printer&)> run;
  std::function<absl::Status(Printer&)> run_here;  // Asks no server.
};

// Adds a command that takes the options of all, and runs `run` when it is the one asked for.
// `invocation` outlives `parent`; what `run` refers to must live as long.
CLI::App& AddCommand(CLI::App& parent, const std::string& name, const std::string& help,
                     Invocation& invocation,
                     std::function<absl::Status(Connection&, Printer&)> run);

// Adds a command that asks no server, and takes no options but its own.
CLI::App& AddCommandHere(CLI::App& parent, const std::string& name, const std::string& help,
                         Invocation& invocation, std::function<absl::Status(Printer&)> run);

// Adds a command that stands for others alone. `help` says what they are about, without an end.
CLI::App& AddGroup(CLI::App& parent, const std::string& name, const std::string& help);

// Adds an option that may be given again and again, each time with one value: what stands behind
// that is an argument of the command.
CLI::Option& AddRepeatable(CLI::App& command, const std::string& name,
                           std::vector<std::string>& values, const std::string& help);

// Lets an option take numbers from `least` to `most`, and nothing else.
CLI::Validator Between(double least, double most);

// Lets an option take one of `words`, and completion offer them.
CLI::Validator OneOf(std::vector<std::string> words);

// Completion offers `words` for an option, which takes others too.
CLI::Validator Offering(const std::vector<std::string>& words);

// Offers those of messages that are most used.
CLI::Validator OfferingRoles();

// Those of either; empty for none.
std::vector<std::string> OfferedWords(const CLI::Option& option);

// The type of options that name a file.
inline constexpr char kFile[] = "FILE";
// That of settings, of which nothing else is known.
inline constexpr char kAnyValue[] = "VALUE";

// Whether an option names a file, by its type. Names of files are any bytes, other values UTF-8.
bool NamesFile(const CLI::Option& option);

// Commands below `app`, in the order in which they were added, but those of no group, which help
// and completion do not tell of.
std::vector<const CLI::App*> CommandsOf(const CLI::App& app);

// The one below `app` with this name, told of or not; nullptr for none.
const CLI::App* FindCommand(const CLI::App& app, const std::string& name);

// Options of `command`, not of those below it, that help and completion tell of, in the order in
// which they were added: neither positionals nor those of no group.
std::vector<const CLI::Option*> OptionsOf(const CLI::App& command);

// How `option` is written, as `-n` and `--limit`; nothing for a positional.
std::vector<std::string> SpellingsOf(const CLI::Option& option);

// Asks on the terminal; OK when the answer is yes, or `yes` says so already. INVALID_ARGUMENT where
// standard input is no terminal.
absl::Status Confirm(bool yes, const std::string& question);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_COMMAND_H_
