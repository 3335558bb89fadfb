// The commands of the program itself: those that serve, and those that tell of it.
#ifndef MEMORYD_CLI_PROGRAM_H_
#define MEMORYD_CLI_PROGRAM_H_

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "core/base/server_command.h"

namespace memoryd::cli {

// What the commands tell of the server that they are one program with.
struct Program {
  std::string version;
  std::string revision;
  std::vector<CommandLineOption> serve;
  std::vector<CommandLineOption> dev;
};

// Their group.
inline constexpr char kServing[] = "Start a server";

// serve, dev and migrate, which main() runs: here they stand for help and completion.
void AddServing(CLI::App& app, const Program& program);

// Commands that are no part of this program.
void AddElsewhere(CLI::App& app, Invocation& invocation);

// version, help and completion. `app` outlives the invocation.
void AddAbout(CLI::App& app, Invocation& invocation, const Program& program);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_PROGRAM_H_
