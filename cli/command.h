// What all commands have in common: how they are declared, and their options.
#ifndef MEMORYD_CLI_COMMAND_H_
#define MEMORYD_CLI_COMMAND_H_

#include <CLI/App.hpp>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "cli/connection.h"
#include "cli/printer.h"

namespace memoryd::cli {

// What the command line asks for.
struct Invocation {
  ConnectionOptions connection;
  bool json = false;
  std::function<absl::Status(Connection&, Printer&)> run;
};

// Adds a command that takes the options of all, and runs `run` when it is the one asked for.
// `invocation` outlives `parent`; what `run` refers to must live as long.
CLI::App& AddCommand(CLI::App& parent, const std::string& name, const std::string& help,
                     Invocation& invocation,
                     std::function<absl::Status(Connection&, Printer&)> run);

// Adds a command that stands for others alone.
CLI::App& AddGroup(CLI::App& parent, const std::string& name, const std::string& help);

// Asks on the terminal; OK when the answer is yes, or `yes` says so already. INVALID_ARGUMENT where
// standard input is no terminal.
absl::Status Confirm(bool yes, const std::string& question);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_COMMAND_H_
