#include "cli/command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <array>
#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>

#include "cli/terminal_text.h"

namespace memoryd::cli {

CLI::App& AddCommand(CLI::App& parent, const std::string& name, const std::string& help,
                     Invocation& invocation,
                     std::function<absl::Status(Connection&, Printer&)> run) {
  CLI::App& command = *parent.add_subcommand(name, help);
  // Its own, since a variable counts for the commands beside the one that was given, too.
  auto connection = std::make_shared<ConnectionOptions>(invocation.connection);
  command
      .add_option("--target", connection->target,
                  "The server: HOST:PORT or unix:PATH [127.0.0.1:50051].")
      ->envname("MEMORYD_TARGET");
  command
      .add_option("--token-file", connection->token_file,
                  "File with a bearer token; read again for each call.")
      ->envname("MEMORYD_TOKEN_FILE");
  command
      .add_option("--ca-file", connection->ca_file,
                  "PEM file: TLS, with a server whose certificate one of these signed.")
      ->envname("MEMORYD_CA_FILE");
  command
      .add_option("--client-cert-file", connection->client_cert_file,
                  "PEM file: the certificate to show, with its intermediates.")
      ->envname("MEMORYD_CLIENT_CERT_FILE");
  command
      .add_option("--client-key-file", connection->client_key_file,
                  "PEM file: the key of --client-cert-file.")
      ->envname("MEMORYD_CLIENT_KEY_FILE");
  command.add_option("--timeout", connection->timeout_s, "Seconds that a call may take [10].")
      ->check(CLI::Range(0.001, 3600.0));
  command.add_flag("--json", invocation.json, "One JSON object a line.");
  command.callback([&invocation, connection, run = std::move(run)] {
    invocation.connection = *connection;
    invocation.run = run;
  });
  return command;
}

CLI::App& AddGroup(CLI::App& parent, const std::string& name, const std::string& help) {
  CLI::App& group = *parent.add_subcommand(name, help);
  group.require_subcommand(1);
  return group;
}

absl::Status Confirm(bool yes, const std::string& question) {
  if (yes) return absl::OkStatus();
  if (::isatty(STDIN_FILENO) == 0) {
    return absl::InvalidArgumentError("--yes: is needed where nobody can be asked");
  }
  fmt::print(stderr, "{} [y/N] ", EscapeForTerminal(question));
  std::array<char, 16> line{};
  const char* const read = std::fgets(line.data(), line.size(), stdin);
  const std::string_view answer = read != nullptr ? read : "";
  if (answer == "y\n" || answer == "yes\n") return absl::OkStatus();
  return absl::CancelledError("nothing was changed");
}

}  // namespace memoryd::cli
