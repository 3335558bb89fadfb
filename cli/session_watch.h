// memoryd watch.
#ifndef MEMORYD_CLI_SESSION_WATCH_H_
#define MEMORYD_CLI_SESSION_WATCH_H_

#include <CLI/App.hpp>
#include <string>

#include "cli/command.h"
#include "memoryd/v1/session_service.pb.h"

namespace memoryd::cli {

void AddSessionWatch(CLI::App& app, Invocation& invocation);

// What is new, as "messages 5 to 6 put, jobs"; empty for nothing. Escaped.
std::string NewsText(const v1::WatchSessionResponse& news);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_SESSION_WATCH_H_
