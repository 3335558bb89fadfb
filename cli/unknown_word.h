// Words of a command line that no command takes.
#ifndef MEMORYD_CLI_UNKNOWN_WORD_H_
#define MEMORYD_CLI_UNKNOWN_WORD_H_

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace memoryd::cli {

// INVALID_ARGUMENT for the first word of `words` that is neither a command nor an option there,
// with what it may have meant; for a group without a command behind it, with those that there are.
// `app` is the program.
absl::Status CheckWords(const CLI::App& app, const std::vector<std::string>& words);

// INVALID_ARGUMENT for a word that is no command below `app`, with what it may have meant.
absl::Status UnknownCommand(const CLI::App& app, const std::string& word);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_UNKNOWN_WORD_H_
