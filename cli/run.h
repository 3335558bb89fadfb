// The operators' commands: memoryd sessions, messages, jobs, export, info, against a running
// server.
#ifndef MEMORYD_CLI_RUN_H_
#define MEMORYD_CLI_RUN_H_

#include <string>

namespace memoryd::cli {

// Whether the first argument names one of the commands. Others are the server's.
bool IsCommand(int argc, const char* const* argv);

// Runs the command and returns the exit code, see ExitCode. Reads the variables MEMORYD_TARGET,
// MEMORYD_TOKEN_FILE, MEMORYD_CA_FILE, MEMORYD_CLIENT_CERT_FILE and MEMORYD_CLIENT_KEY_FILE, and
// none of the server's.
int Run(int argc, const char* const* argv);

// A line for each command, for the help of the whole program.
std::string Summary();

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_RUN_H_
