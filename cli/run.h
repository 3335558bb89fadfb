// The commands of the program, but those that serve.
#ifndef MEMORYD_CLI_RUN_H_
#define MEMORYD_CLI_RUN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/program.h"

namespace memoryd::cli {

// Runs the command and returns the exit code, see ExitCode. Reads the variables MEMORYD_TARGET,
// MEMORYD_TOKEN_FILE, MEMORYD_CA_FILE, MEMORYD_CLIENT_CERT_FILE and MEMORYD_CLIENT_KEY_FILE, for an
// address older names too, and none of the server's.
int Run(int argc, const char* const* argv, const Program& program);

// The first words of all commands, those that serve too.
std::vector<std::string> CommandNames();

// Prints what `memoryd help COMMAND` does, and returns the exit code.
int PrintHelp(const std::string& command, const Program& program);

// What a wrong command line of the server may have meant, behind its error: options of a command
// that stand before it. Empty for nothing.
std::string HintFor(int argc, const char* const* argv);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_RUN_H_
