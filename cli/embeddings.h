// memoryd embeddings: which model made them, and how far re-embedding has come.
#ifndef MEMORYD_CLI_EMBEDDINGS_H_
#define MEMORYD_CLI_EMBEDDINGS_H_

#include <CLI/App.hpp>

#include "cli/command.h"

namespace memoryd::cli {

void AddEmbeddings(CLI::App& app, Invocation& invocation);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_EMBEDDINGS_H_
