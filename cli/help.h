// What the program says of its commands.
#ifndef MEMORYD_CLI_HELP_H_
#define MEMORYD_CLI_HELP_H_

#include <CLI/App.hpp>
#include <string>

namespace memoryd::cli {

struct HelpStyle {
  bool colour = false;
  int width = 100;  // Columns that lines may take.
};

// That of standard output.
HelpStyle StyleOfOutput();

// All commands by their groups, for whoever knows none; `version` is that of the program.
std::string Overview(const CLI::App& app, const std::string& version, const HelpStyle& style);

// A command's line, what it does and takes.
std::string HelpOf(const CLI::App& command, const HelpStyle& style);

// All commands and their options in Markdown, for docs/COMMANDS.md.
std::string CommandReference(const CLI::App& app);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_HELP_H_
