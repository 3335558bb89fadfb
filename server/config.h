// The server's settings: flags over environment over file over defaults.
#ifndef MEMORYD_SERVER_CONFIG_H_
#define MEMORYD_SERVER_CONFIG_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/storage/stores.h"

namespace memoryd {

// Every field is checked; docs/OPERATIONS.md has the table.
struct Config {
  std::vector<std::string> listen;  // `HOST:PORT` or `unix:PATH`; port 0 picks a free one.
  bool allow_plaintext = false;     // Listen without TLS beyond loopback.
  std::string store;                // See StoreOptions::url.
  Coherence coherence = Coherence::kExclusive;
  int committers = 0;
  int readers = 0;
  int store_timeout_ms = 0;
  bool transaction_pooling = false;
  std::int64_t max_pending_calls = 0;
  std::int64_t cache_mib = 0;
  std::string vocabulary_dir;
  std::string reflection;  // `auto`, `on`, `off`.
  int drain_seconds = 0;
  std::string log_level;
};

// What the command line asks for.
enum class Command { kServe, kMigrate, kCheckConfig, kPrintConfig, kVersion, kHelp };

struct CommandLine {
  Command command = Command::kServe;
  Config config;
  // For kPrintConfig and kHelp: what to print.
  std::string text;
};

// `environment` holds the variables that begin with MEMORYD_. INVALID_ARGUMENT with one line that
// names the key or the flag and where it stands.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv,
                                             const std::map<std::string, std::string>& environment);

// MEMORYD_* of this process.
std::map<std::string, std::string> MemorydEnvironment();

// Whether an address of Config::listen can be reached from this machine only.
bool IsLocalAddress(std::string_view address);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_CONFIG_H_
