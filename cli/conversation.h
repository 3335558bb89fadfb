// memoryd put, get, query and context.
#ifndef MEMORYD_CLI_CONVERSATION_H_
#define MEMORYD_CLI_CONVERSATION_H_

#include <CLI/App.hpp>

#include "cli/command.h"

namespace memoryd::cli {

void AddConversation(CLI::App& app, Invocation& invocation);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_CONVERSATION_H_
