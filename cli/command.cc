#include "cli/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "cli/connection.h"
#include "cli/printer.h"
#include "cli/terminal_text.h"

namespace memoryd::cli {
namespace {

// Those of every command that asks a server, in its help.
constexpr char kServerOptions[] = "How to reach the server";

}  // namespace

CLI::App& AddCommand(CLI::App& parent, const std::string& name, const std::string& help,
                     Invocation& invocation,
                     std::function<absl::Status(Connection&, Printer&)> run) {
  CLI::App& command = *parent.add_subcommand(name, help);
  // Its own, since a variable counts for the commands beside the one that was given, too.
  auto connection = std::make_shared<ConnectionOptions>(invocation.connection);
  const auto add = [&command](const char* option, auto& value, const char* type, const char* text) {
    return command.add_option(option, value, text)->type_name(type)->group(kServerOptions);
  };
  add("--target", connection->target, "ADDRESS",
      "Address of the server: HOST:PORT or unix:PATH [localhost:50051].")
      ->envname("MEMORYD_TARGET");
  add("--token-file", connection->token_file, kFile,
      "File with a bearer token; read again for each call.")
      ->envname("MEMORYD_TOKEN_FILE");
  add("--ca-file", connection->ca_file, kFile,
      "PEM file: turns TLS on; the CAs that may have signed the server's certificate.")
      ->envname("MEMORYD_CA_FILE");
  add("--client-cert-file", connection->client_cert_file, kFile,
      "PEM file: the client's certificate, with its intermediates.")
      ->envname("MEMORYD_CLIENT_CERT_FILE");
  add("--client-key-file", connection->client_key_file, kFile,
      "PEM file: the key of --client-cert-file.")
      ->envname("MEMORYD_CLIENT_KEY_FILE");
  add("--timeout", connection->timeout_s, "SECONDS", "Seconds that a call may take [10].")
      ->check(Between(0.001, 3600));
  command
      .add_flag("--json", invocation.json, "Print one JSON object on each line, also for errors.")
      ->group(kServerOptions);
  command.callback([&invocation, connection, run = std::move(run)] {
    invocation.connection = *connection;
    invocation.run = run;
  });
  return command;
}

CLI::App& AddCommandHere(CLI::App& parent, const std::string& name, const std::string& help,
                         Invocation& invocation, std::function<absl::Status(Printer&)> run) {
  CLI::App& command = *parent.add_subcommand(name, help);
  command.callback([&invocation, run = std::move(run)] { invocation.run_here = run; });
  return command;
}

CLI::App& AddGroup(CLI::App& parent, const std::string& name, const std::string& help) {
  CLI::App& group = *parent.add_subcommand(name, help);
  group.require_subcommand(1);
  return group;
}

CLI::Option& AddRepeatable(CLI::App& command, const std::string& name,
                           std::vector<std::string>& values, const std::string& help) {
  return *command.add_option(name, values, help)->allow_extra_args(false);
}

CLI::Validator Between(double least, double most) {
  // CLI::Range takes what is no number for one that lies between any two.
  const auto check = [least, most](const std::string& text) {
    double value = 0;
    if (absl::SimpleAtod(text, &value) && value >= least && value <= most) return std::string();
    return fmt::format("must be {} to {}", least, most);
  };
  return {check, ""};
}

CLI::Validator OneOf(std::vector<std::string> words) {
  CLI::Validator offering = Offering(words);
  return offering.operation([words = std::move(words)](const std::string& text) {
    if (std::ranges::find(words, text) != words.end()) return std::string();
    return fmt::format("must be one of {}", fmt::join(words, ", "));
  });
}

// CLI11 puts what a validator says of itself behind the option's type: `TEXT:{open,done}`.
CLI::Validator Offering(const std::vector<std::string>& words) {
  return {[](const std::string&) { return std::string(); },
          fmt::format("{{{}}}", fmt::join(words, ","))};
}

CLI::Validator OfferingRoles() { return Offering({"user", "assistant", "system", "tool"}); }

std::vector<std::string> OfferedWords(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find(":{");
  if (begin == std::string::npos) return {};
  return absl::StrSplit(type.substr(begin + 2, type.find('}', begin) - begin - 2), ',');
}

bool NamesFile(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  // Behind a colon CLI11 says what is checked.
  return type.substr(0, type.find(':')) == kFile;
}

std::vector<const CLI::App*> CommandsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

const CLI::App* FindCommand(const CLI::App& app, const std::string& name) {
  for (const CLI::App* const command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

std::vector<const CLI::Option*> OptionsOf(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) {
    return !option->get_positional() && !option->get_group().empty();
  });
}

std::vector<std::string> SpellingsOf(const CLI::Option& option) {
  std::vector<std::string> spellings;
  for (const std::string& name : option.get_snames()) spellings.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) spellings.push_back("--" + name);
  return spellings;
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
