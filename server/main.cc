#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <string>

#include "cli/run.h"
#include "core/base/error_cause.h"
#include "core/model/time_zone.h"
#include "server/access.h"
#include "server/build_info.h"
#include "server/config.h"
#include "server/log.h"
#include "server/server.h"

namespace {

int Fail(int exit_code, const absl::Status& status) {
  fmt::print(stderr, "memoryd: {}\n", memoryd::TextForLog(status));
  return exit_code;
}

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

// What is freed goes back at once where it is large, and early where it is not: a limit of memory
// counts what the allocator keeps. By default glibc keeps up to 64 MiB in each of many arenas.
void KeepLittleFreedMemory() {
  const long processors = std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN));
  ::mallopt(M_MMAP_THRESHOLD, 256 << 10);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 20);
  ::mallopt(M_ARENA_MAX, static_cast<int>(2 + processors));
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
      kDescriptorsOfAConnection * static_cast<rlim_t>(config.committers + config.readers);
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      fmt::format("may open {} files, and needs {}, beside one for each connection: raise the hard "
                  "limit (ulimit -n, LimitNOFILE)",
                  limit.rlim_cur, needed));
}

}  // namespace

int main(int argc, char** argv) {
  if (memoryd::cli::IsCommand(argc, argv)) return memoryd::cli::Run(argc, argv);

  memoryd::CommandLineParser parser;
  const auto line = parser.Parse(argc, argv, memoryd::MemorydEnvironment());
  if (!line.ok()) return Fail(2, line.status());

  // Before the first thread, so that every thread inherits it and sigwait() gets the signal.
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  sigset_t blocked = stop;
  sigaddset(&blocked, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  RaiseDescriptorLimit();
  KeepLittleFreedMemory();

  absl::Status status;
  switch (line->command) {
    case memoryd::Command::kHelp:
      fmt::print("{}{}", parser.Help(), memoryd::cli::Summary());
      return 0;
    case memoryd::Command::kPrintConfig:
    case memoryd::Command::kPrintReference:
      fmt::print("{}", line->text);
      return 0;
    case memoryd::Command::kVersion:
      fmt::print("memoryd {}\n", memoryd::Version());
      return 0;
    case memoryd::Command::kCheckConfig: {
      const memoryd::Log log(LogOptionsOf(line->config));
      status = memoryd::Access::Open(line->config).status();
      if (!status.ok()) return Fail(2, status);
      fmt::print("the settings are valid\n");
      return 0;
    }
    case memoryd::Command::kMigrate:
    case memoryd::Command::kServe: {
      // Before the second thread: it changes the environment.
      memoryd::UseZoneFiles(line->config.vocabulary_dir + "/zoneinfo");
      if (status = CheckDescriptorLimit(line->config); !status.ok()) return Fail(1, status);
      memoryd::Log log(LogOptionsOf(line->config));
      const auto read_again = [argc, argv, &parser] {
        return parser.Parse(argc, argv, memoryd::MemorydEnvironment());
      };
      status = line->command == memoryd::Command::kServe
                   ? memoryd::Serve(*line, read_again, stop, log)
                   : memoryd::OpenMigratedStore(line->config, stop).status();
      break;
    }
  }
  if (status.ok() || absl::IsCancelled(status)) return 0;
  return Fail(absl::IsInvalidArgument(status) ? 2 : 1, status);
}
