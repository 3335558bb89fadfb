#include <fmt/format.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/program.h"
#include "cli/run.h"
#include "core/base/error_cause.h"
#include "core/base/server_command.h"
#include "core/base/status_macros.h"
#include "core/model/time_zone.h"
#include "core/storage/store.h"
#include "server/access.h"
#include "server/announcement.h"
#include "server/command_line.h"
#include "server/config.h"
#include "server/dev.h"
#include "server/exposure.h"
#include "server/migrated_store.h"
#include "server/ops/build_info.h"
#include "server/ops/log.h"
#include "server/server.h"
#include "server/start_watch.h"
#include "server/system_certificates.h"

namespace {

// What a caller reads of a pipe is there before whatever follows.
void Print(std::string_view text) {
  fmt::print("{}", text);
  std::fflush(stdout);
}

int Fail(int exit_code, const absl::Status& status) {
  fmt::print(stderr, "memoryd: {}\n", memoryd::TextForLog(status));
  return exit_code;
}

std::string ZoneFiles(const memoryd::Config& config) { return config.vocabulary_dir + "/zoneinfo"; }

memoryd::LogOptions LogOptionsOf(const memoryd::Config& config) {
  memoryd::LogOptions options;
  options.descriptor = STDERR_FILENO;
  options.json = config.log_format == "auto" ? !memoryd::IsTerminal(options.descriptor)
                                             : config.log_format == "json";
  options.level = config.log_level;
  return options;
}

// As many descriptors as may be: each connection takes one.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// Those of the process, of its threads' event loops, of listeners, and some for callers.
constexpr rlim_t kOwnDescriptors = 64;
// A connection to SQLite has a descriptor of the file and one of its log.
constexpr rlim_t kDescriptorsOfAConnection = 4;

// Without descriptors libraries end the process, or wait for ever, and say nothing of the kind.
absl::Status CheckDescriptorLimit(const memoryd::Config& config) {
  rlimit limit{};
  const rlim_t needed =
      kOwnDescriptors +
      kDescriptorsOfAConnection * static_cast<rlim_t>(config.committers + 1 + config.readers);
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      fmt::format("may open {} files, and needs {}, beside one for each connection: raise the hard "
                  "limit (ulimit -n, LimitNOFILE)",
                  limit.rlim_cur, needed));
}

memoryd::DevDefaults WithCommands(memoryd::DevDefaults defaults) {
  defaults.commands = memoryd::cli::CommandNames();
  return defaults;
}

// Help tells of no address that happens to be free.
memoryd::cli::Program ToldProgram() {
  return {memoryd::Version(), memoryd::Revision(), memoryd::CommandLineParser().Options(),
          memoryd::CommandLineParser(memoryd::UsualDevDefaults()).Options()};
}

// Whether whoever started this process wants SIGHUP to do nothing, as nohup has it.
bool IgnoresHangup() {
  struct sigaction action {};
  return ::sigaction(SIGHUP, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// Blocks them, for this thread and those that it makes. One before whom `memoryd dev` runs ends it
// by closing the terminal, and need not wait for a drain.
memoryd::StopSignals BlockStopSignals(bool is_dev) {
  memoryd::StopSignals stop{};
  sigemptyset(&stop.drain);
  sigemptyset(&stop.at_once);
  sigaddset(&stop.drain, SIGTERM);
  sigaddset(&stop.drain, SIGINT);
  sigset_t blocked = stop.drain;
  if (!is_dev) {
    sigaddset(&blocked, SIGHUP);
  } else {
    sigaddset(&stop.at_once, SIGINT);
    // A shell that starts it in the background has SIGINT ignored.
    std::signal(SIGINT, SIG_DFL);
    // What is ignored and not blocked never comes.
    if (!IgnoresHangup()) {
      sigaddset(&stop.drain, SIGHUP);
      sigaddset(&blocked, SIGHUP);
    }
  }
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  return stop;
}

// As far as words tell that can't be parsed.
bool WantsCheckedJson(const std::vector<const char*>& words) {
  const auto has = [&words](std::string_view flag) {
    return std::ranges::any_of(words, [flag](const char* word) { return word == flag; });
  };
  return has("--json") && has("--check-config");
}

int FailToParse(const absl::Status& why, const std::vector<const char*>& words,
                const std::string& hint) {
  const absl::Status error(why.code(), std::string(why.message()) + hint);
  if (WantsCheckedJson(words)) Print(memoryd::CheckedJson(error, {}));
  return Fail(2, error);
}

absl::Status CheckSettings(memoryd::Config& config) {
  MEMORYD_RETURN_IF_ERROR(memoryd::CheckTemplates(config));
  const memoryd::Log log(LogOptionsOf(config));
  return memoryd::Access::Open(config).status();
}

int TellChecked(memoryd::CommandLine& line) {
  memoryd::UseZoneFiles(ZoneFiles(line.config));
  const absl::Status status = CheckSettings(line.config);
  if (line.json) {
    Print(memoryd::CheckedJson(status, memoryd::UnguardedListeners(line.config)));
  } else if (status.ok()) {
    Print("the settings are valid\n");
  }
  return status.ok() ? 0 : Fail(2, status);
}

absl::Status Migrate(const memoryd::CommandLine& line, const sigset_t& stop,
                     memoryd::StartWatch& start) {
  MEMORYD_ASSIGN_OR_RETURN(const std::unique_ptr<memoryd::Store> store,
                           memoryd::OpenMigratedStore(line.config, stop, start));
  MEMORYD_ASSIGN_OR_RETURN(const memoryd::StoreInfo info, store->Describe());
  Print(line.json ? memoryd::MigratedJson(info.kind, info.schema_version)
                  : fmt::format("the store's schema is {}\n", info.schema_version));
  return absl::OkStatus();
}

// `parse` reads the command line, the environment and the settings' file again.
absl::Status MigrateOrServe(const memoryd::CommandLine& line, const memoryd::ReadAgain& parse,
                            const memoryd::StopSignals& stop, bool is_dev) {
  memoryd::Log log(LogOptionsOf(line.config));
  memoryd::StartWatch start([is_dev](const std::string& step) {
    // Also where dev logs warnings alone: somebody waits.
    spdlog::log(is_dev ? spdlog::level::warn : spdlog::level::info, "still {}", step);
  });
  if (line.command == memoryd::Command::kMigrate) return Migrate(line, stop.drain, start);
  const auto on_started = [&line, is_dev](const memoryd::Listening& listening) {
    if (line.json) return Print(memoryd::ListeningJson(listening));
    Print(memoryd::ListeningLines(listening));
    if (is_dev) Print(memoryd::DevGreeting(line.config, listening));
  };
  const auto read_again = [&parse]() -> absl::StatusOr<memoryd::CommandLine> {
    auto again = parse();
    if (again.ok()) MEMORYD_RETURN_IF_ERROR(memoryd::CheckTemplates(again->config));
    return again;
  };
  return memoryd::Serve(line, read_again, stop, log, start, on_started);
}

// Returns the process's exit code, when the work has ended or is stopped.
int Work(memoryd::CommandLine& line, const memoryd::ReadAgain& parse,
         const memoryd::StopSignals& stop, bool is_dev) {
  // A caller that has gone ends no server; whoever reads what the others print ends them.
  std::signal(SIGPIPE, SIG_IGN);
  // Before the second thread: it changes the environment.
  memoryd::UseZoneFiles(ZoneFiles(line.config));
  memoryd::UseSystemCertificates();
  absl::Status status = memoryd::CheckTemplates(line.config);
  if (!status.ok()) return Fail(2, status);
  status = CheckDescriptorLimit(line.config);
  if (!status.ok()) return Fail(1, status);
  status = MigrateOrServe(line, parse, stop, is_dev);
  // A server that is stopped while it waits for its store has done what it was told; migrate has
  // not.
  const bool is_stopped = absl::IsCancelled(status) && line.command == memoryd::Command::kServe;
  if (status.ok() || is_stopped) return 0;
  return Fail(absl::IsInvalidArgument(status) ? 2 : 1, status);
}

// What the command line asks the server for; nullptr where it is a command's that does not serve.
const memoryd::ServerCommandWord* ServerCommandOf(int argc, const char* const* argv) {
  const memoryd::ServerCommandWord& serve = memoryd::WordOf(memoryd::ServerCommand::kServe);
  if (argc < 2) return &serve;
  const std::string_view first = argv[1];
  const auto* const word =
      std::ranges::find(memoryd::kServerCommands, first, &memoryd::ServerCommandWord::word);
  if (word != std::end(memoryd::kServerCommands)) return word;
  // A program's --help tells of all that it does.
  const bool is_help = argc == 2 && (first == "--help" || first == "-h");
  return first.starts_with('-') && !is_help ? &serve : nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  const memoryd::ServerCommandWord* const command = ServerCommandOf(argc, argv);
  if (command == nullptr) return memoryd::cli::Run(argc, argv, ToldProgram());
  const bool is_dev = command->command == memoryd::ServerCommand::kDev;
  std::vector<const char*> words(argv, argv + argc);
  // The parser knows migrate, before or behind settings, by itself.
  const bool is_named =
      argc > 1 && words[1] == command->word && command->command != memoryd::ServerCommand::kMigrate;
  if (is_named) words.erase(words.begin() + 1);

  const auto parser =
      is_dev
          ? std::make_unique<memoryd::CommandLineParser>(WithCommands(memoryd::FindDevDefaults()))
          : std::make_unique<memoryd::CommandLineParser>();
  const auto parse = [&words, &parser, is_dev] {
    // What is set for a server that stays is not meant for one to try things out.
    const auto environment =
        is_dev ? std::map<std::string, std::string>() : memoryd::MemorydEnvironment();
    return parser->Parse(static_cast<int>(words.size()), words.data(), environment);
  };
  auto line = parse();
  if (!line.ok()) {
    const std::string hint =
        absl::IsInvalidArgument(line.status()) && !is_dev ? memoryd::cli::HintFor(argc, argv) : "";
    return FailToParse(line.status(), words, hint);
  }
  if (is_named && line->command == memoryd::Command::kMigrate) {
    return Fail(
        2, absl::InvalidArgumentError("serve: migrate is a command of its own: memoryd migrate"));
  }

  // Before the first thread, so that every thread inherits it and sigwait() gets the signal.
  const memoryd::StopSignals stop = BlockStopSignals(is_dev);
  RaiseDescriptorLimit();

  switch (line->command) {
    case memoryd::Command::kHelp:
      return memoryd::cli::PrintHelp(std::string(command->word), ToldProgram());
    case memoryd::Command::kPrintConfig:
    case memoryd::Command::kPrintReference:
      fmt::print("{}", line->text);
      return 0;
    case memoryd::Command::kVersion:
      fmt::print("memoryd {}\n", memoryd::Version());
      return 0;
    case memoryd::Command::kCheckConfig:
      return TellChecked(*line);
    case memoryd::Command::kMigrate:
    case memoryd::Command::kServe:
      break;
  }
  return Work(*line, parse, stop, is_dev);
}
