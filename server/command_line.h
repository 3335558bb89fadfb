// The server's settings as they are given: flags over environment over file over defaults.
#ifndef MEMORYD_SERVER_COMMAND_LINE_H_
#define MEMORYD_SERVER_COMMAND_LINE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/server_command.h"
#include "server/config.h"

namespace memoryd {

// What the command line asks for.
enum class Command {
  kServe,
  kMigrate,
  kCheckConfig,
  kPrintConfig,
  kPrintReference,
  kVersion,
  kHelp
};

struct CommandLine {
  Command command = Command::kServe;
  Config config;
  // What is printed on standard output is one JSON object.
  bool json = false;
  // For kPrintConfig and kPrintReference: what to print.
  std::string text;
  // Every setting by its name as it was given, lists as --print-config shows them.
  std::map<std::string, std::string> settings;
};

// For `memoryd dev`.
struct DevDefaults {
  // Settings, by their names, that have another default than usual.
  std::map<std::string, std::string> settings;
  // Words that are no PATH: who types one of them meant the command.
  std::vector<std::string> commands = {};
};

// Made once, for any number of command lines; by one thread at a time.
class CommandLineParser {
 public:
  CommandLineParser();
  // Of `memoryd dev`: takes a PATH and `--port` too, and no `migrate`.
  explicit CommandLineParser(const DevDefaults& defaults);
  ~CommandLineParser();
  CommandLineParser(const CommandLineParser&) = delete;
  CommandLineParser& operator=(const CommandLineParser&) = delete;

  // `environment` holds the variables that begin with MEMORYD_. INVALID_ARGUMENT with one line that
  // names the key or the flag and where it stands.
  absl::StatusOr<CommandLine> Parse(int argc, const char* const* argv,
                                    const std::map<std::string, std::string>& environment);

  std::vector<CommandLineOption> Options() const;

 private:
  struct Declared;
  const std::unique_ptr<Declared> options_;
};

// MEMORYD_* of this process.
std::map<std::string, std::string> MemorydEnvironment();

}  // namespace memoryd

#endif  // MEMORYD_SERVER_COMMAND_LINE_H_
