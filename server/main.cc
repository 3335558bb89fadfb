#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <csignal>
#include <cstdio>
#include <string>

#include "absl/synchronization/mutex.h"
#include "server/config.h"
#include "server/server.h"

namespace {

int Fail(int exit_code, const absl::Status& status) {
  fmt::print(stderr, "memoryd: {}\n", std::string(status.message()));
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  const auto line = memoryd::ParseCommandLine(argc, argv, memoryd::MemorydEnvironment());
  if (!line.ok()) return Fail(2, line.status());

  // Before the first thread, so that every thread inherits it and sigwait() gets the signal.
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  spdlog::set_default_logger(spdlog::stderr_logger_mt("memoryd"));
  spdlog::set_level(spdlog::level::from_str(line->config.log_level));

  // Debian's Abseil looks for lock cycles inside gRPC at every lock: 6 % of a small call.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);

  absl::Status status;
  switch (line->command) {
    case memoryd::Command::kHelp:
    case memoryd::Command::kPrintConfig:
      fmt::print("{}", line->text);
      return 0;
    case memoryd::Command::kVersion:
      fmt::print("memoryd {}\n", memoryd::Version());
      return 0;
    case memoryd::Command::kCheckConfig:
      fmt::print("the settings are valid\n");
      return 0;
    case memoryd::Command::kMigrate:
      status = memoryd::OpenMigratedStore(line->config, stop).status();
      break;
    case memoryd::Command::kServe:
      status = memoryd::Serve(line->config, stop);
      break;
  }
  if (status.ok() || absl::IsCancelled(status)) return 0;
  return Fail(1, status);
}
