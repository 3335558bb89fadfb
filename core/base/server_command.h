// What the server's command line and the program's help have in common.
#ifndef MEMORYD_CORE_BASE_SERVER_COMMAND_H_
#define MEMORYD_CORE_BASE_SERVER_COMMAND_H_

#include <string>
#include <string_view>

namespace memoryd {

// An option of a command that serves, for help and completion.
struct CommandLineOption {
  std::string name;  // Such as `--listen`, or `PATH` for what has no flag.
  std::string help;
  bool takes_value = true;
};

enum class ServerCommand { kServe, kDev, kMigrate };

struct ServerCommandWord {
  std::string_view word;
  ServerCommand command;
  std::string_view help;
};

// The first words that begin a command line of the server. Without one, or with an option first, it
// is that of serve.
inline constexpr ServerCommandWord kServerCommands[] = {
    {"serve", ServerCommand::kServe,
     "Runs a server; `memoryd` alone, or with settings, does the same."},
    {"dev", ServerCommand::kDev,
     "Runs a server for this machine only, to try things out, and prints the address of its page "
     "in a browser; it keeps data only in a PATH."},
    {"migrate", ServerCommand::kMigrate,
     "Upgrades the store's schema; takes the settings of serve."},
};

constexpr const ServerCommandWord& WordOf(ServerCommand command) {
  const ServerCommandWord* word = kServerCommands;
  while (word->command != command) ++word;
  return *word;
}

}  // namespace memoryd

#endif  // MEMORYD_CORE_BASE_SERVER_COMMAND_H_
