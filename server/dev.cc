#include "server/dev.h"

#include <asm-generic/socket.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/shell_word.h"
#include "server/announcement.h"
#include "server/command_line.h"
#include "server/config.h"

namespace memoryd {
namespace {

constexpr int kPort = 50051;
constexpr int kMetricsPort = 9464;
constexpr int kHttpPort = 50080;
constexpr int kTries = 20;
constexpr char kInMemory[] = "sqlite::memory:";

bool IsFree(int port) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return false;
  const int on = 1;
  // As a listener has it: what a server that has just ended leaves behind keeps nobody away.
  ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool bound =
      ::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      ::listen(descriptor, 1) == 0;
  ::close(descriptor);
  return bound;
}

// The first free port from `first` on, or whichever the system gives.
std::string FreeAddress(int first) {
  for (int port = first; port < first + kTries; ++port) {
    if (IsFree(port)) return fmt::format("127.0.0.1:{}", port);
  }
  return "127.0.0.1:0";
}

// A line that names the inspector; empty where no browser on this machine gets there by it.
std::string UiLine(const Config& config, const Listening& listening) {
  if (listening.http.empty() || listening.http.front().starts_with("unix:")) return {};
  return fmt::format("Look at it in a browser: {}://{}/ui\n", config.UsesTls() ? "https" : "http",
                     listening.http.front());
}

// A line that reads the session over HTTP; empty where it would need more than an address.
std::string CurlLine(const Config& config, const Listening& listening) {
  if (listening.http.empty() || config.UsesTls()) return {};
  constexpr std::string_view kUnix = "unix:";
  const std::string& address = listening.http.front();
  const std::string place = address.starts_with(kUnix)
                                ? fmt::format("--unix-socket {} http://localhost",
                                              ShellWord(address.substr(kUnix.size())))
                                : fmt::format("http://{}", address);
  return fmt::format(
      "  curl -sS {}/memoryd.v1.MemoryService/Get -H 'Content-Type: application/json' "
      "-d '{{\"sessionId\": \"s1\"}}'\n",
      place);
}

}  // namespace

DevDefaults UsualDevDefaults() {
  return {{{"store", kInMemory},
           {"listen", fmt::format("127.0.0.1:{}", kPort)},
           {"metrics_listen", fmt::format("127.0.0.1:{}", kMetricsPort)},
           {"http_listen", fmt::format("127.0.0.1:{}", kHttpPort)},
           {"drain_seconds", "1"},
           {"log_level", "warning"},
           {"log_format", "text"}}};
}

DevDefaults FindDevDefaults() {
  DevDefaults defaults = UsualDevDefaults();
  defaults.settings["listen"] = FreeAddress(kPort);
  defaults.settings["metrics_listen"] = FreeAddress(kMetricsPort);
  defaults.settings["http_listen"] = FreeAddress(kHttpPort);
  return defaults;
}

std::string DevGreeting(const Config& config, const Listening& listening) {
  const std::string kept =
      config.store == kInMemory
          ? "All is in memory and goes when this ends; memoryd dev PATH keeps it."
          : "What is put is kept when this ends.";
  // The target also where clients look by themselves: a terminal may have another from before.
  return fmt::format(
      "\n{}\n"
      "{}"
      "Try in another terminal:\n"
      "  export MEMORYD_TARGET={}\n"
      "  memoryd put s1 \"My dog is called Bella.\"\n"
      "  memoryd get s1\n"
      "  memoryd query s1 \"What is the dog called?\"\n"
      "{}"
      "  memoryd help\n"
      "Ctrl+C ends it.\n",
      kept, UiLine(config, listening), ShellWord(TargetOf(listening)), CurlLine(config, listening));
}

}  // namespace memoryd
