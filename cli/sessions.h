// memoryd sessions list | show | create | update | fork | delete.
#ifndef MEMORYD_CLI_SESSIONS_H_
#define MEMORYD_CLI_SESSIONS_H_

#include <CLI/App.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "cli/command.h"
#include "cli/connection.h"
#include "memoryd/v1/memory.pb.h"

namespace memoryd::cli {

void AddSessions(CLI::App& app, Invocation& invocation);

// NOT_FOUND where there is none.
absl::StatusOr<v1::Session> GetSession(Connection& connection, const std::string& session_id);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_SESSIONS_H_
