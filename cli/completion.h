// Scripts by which shells complete a command line of the program.
#ifndef MEMORYD_CLI_COMPLETION_H_
#define MEMORYD_CLI_COMPLETION_H_

#include <CLI/App.hpp>
#include <string>

namespace memoryd::cli {

// Each completes commands, those below them and options of `app`, and where neither stands files.
std::string BashCompletion(const CLI::App& app);
std::string ZshCompletion(const CLI::App& app);
std::string FishCompletion(const CLI::App& app);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_COMPLETION_H_
