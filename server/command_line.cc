#include "server/command_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/nearest_word.h"
#include "core/base/server_command.h"
#include "core/base/status_macros.h"
#include "core/base/utf8_decode.h"
#include "core/storage/stores.h"
#include "server/config.h"
#include "server/config_file.h"
#include "server/printed_settings.h"
#include "server/setting_table.h"
#include "server/settings/masked_url.h"
#include "server/settings/setting_value.h"

extern char** environ;

namespace memoryd {
namespace {

// Variables of our prefix that are no settings: the file's path, those of the clients, the test
// suites', and what Kubernetes sets in every pod beside a Service named memoryd.
bool IsForeignVariable(std::string_view variable) {
  static constexpr std::string_view kForeign[] = {
      "MEMORYD_CONFIG",         "MEMORYD_URI",    "MEMORYD_TARGET",
      "MEMORYD_ADDRESS",        "MEMORYD_BINARY", "MEMORYD_CA_FILE",
      "MEMORYD_TOKEN_FILE",     "MEMORYD_PORT",   "MEMORYD_CLIENT_CERT_FILE",
      "MEMORYD_CLIENT_KEY_FILE"};
  return std::ranges::find(kForeign, variable) != std::end(kForeign) ||
         variable.starts_with("MEMORYD_TEST_") || variable.starts_with("MEMORYD_PORT_") ||
         variable.starts_with("MEMORYD_SERVICE_");
}

absl::Status SetAll(const std::vector<SettingValue>& values, Config& config) {
  for (std::size_t i = 0; i < SettingTable().size(); ++i) {
    const Setting& setting = SettingTable()[i];
    const SettingValue& value = values[i];
    // --print-config could not show it.
    if (!IsUtf8(value.text)) {
      return InvalidSetting(fmt::format("{}: is not UTF-8 ({})", setting.name, value.origin));
    }
    if (const std::string error = setting.set(config, value.text); !error.empty()) {
      return InvalidSetting(fmt::format("{}: {} ({})", setting.name, error, value.origin));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::map<std::string, std::string> MemorydEnvironment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    const std::size_t equals = variable.find('=');
    if (variable.starts_with("MEMORYD_") && equals != std::string_view::npos) {
      variables.emplace(variable.substr(0, equals), variable.substr(equals + 1));
    }
  }
  return variables;
}

struct CommandLineParser::Declared {
  // What the last command line has; CLI11 leaves alone what it does not have.
  struct Given {
    std::string file;
    bool check = false;
    bool json = false;
    bool print = false;
    bool reference = false;
    bool version = false;
    // Of `memoryd dev`.
    std::string path;
    std::optional<int> port;
  };

  CLI::App app{"", "memoryd"};
  Given given;
  // As SettingTable() has them; of value where the option was counted. They stay where they are:
  // CLI11 has their addresses.
  std::vector<std::string> texts = std::vector<std::string>(SettingTable().size());
  std::vector<const CLI::Option*> settings;
  std::vector<SettingValue> defaults;
  std::map<std::string, std::size_t> by_variable;
  const CLI::App* migrate = nullptr;
  const bool is_dev;
  std::vector<std::string> commands;  // DevDefaults::commands.

  explicit Declared(const DevDefaults* dev) : is_dev(dev != nullptr) {
    if (is_dev) {
      commands = dev->commands;
      app.add_option("PATH", given.path,
                     "SQLite file for the data, created if it does not exist, or a folder for it; "
                     "none: all data is lost when the server ends.");
      app.add_option("--port", given.port,
                     "Port to listen on; 0: a free one [50051, or the next free one].")
          ->check(CLI::Range(0, 65535));
    }
    app.add_option("--config", given.file, "YAML file of settings.");
    app.add_flag("--check-config", given.check, "Check the settings and exit.");
    app.add_flag("--json", given.json,
                 "Print where it listens, or what was checked or migrated, as one JSON object.");
    app.add_flag("--print-config", given.print, "Print every setting with its origin and exit.");
    app.add_flag("--print-reference", given.reference, "Print all settings as Markdown and exit.");
    app.add_flag("--version", given.version, "Print the version and exit.");
    for (std::size_t i = 0; i < SettingTable().size(); ++i) {
      const Setting& setting = SettingTable()[i];
      const std::string variable = VariableOf(setting);
      by_variable[variable] = i;
      defaults.push_back({setting.default_value(), "default"});
      std::string help = std::string(setting.help);
      if (!is_dev) {
        help += fmt::format(" [{}] Also {}.", defaults[i].text, variable);
      } else {
        const auto other = dev->settings.find(std::string(setting.name));
        if (other != dev->settings.end()) defaults[i].text = other->second;
        help += fmt::format(" [{}]", defaults[i].text);
      }
      settings.push_back(app.add_option(FlagOf(setting), texts[i], help));
    }
    if (is_dev) return;
    // Before the subcommand, which inherits it: settings may follow `migrate`.
    app.fallthrough();
    const ServerCommandWord& word = WordOf(ServerCommand::kMigrate);
    migrate = app.add_subcommand(std::string(word.word), std::string(word.help));
  }

  // The error for the first flag that is none, OK where all are.
  absl::Status CheckFlags(int argc, const char* const* argv) const {
    std::vector<std::string> names = {"--help"};
    for (const CLI::Option* const option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    for (int i = 1; i < argc; ++i) {
      const std::string_view word = argv[i];
      if (!word.starts_with("--") || word.size() == 2) continue;
      // What stands behind it may be a secret.
      const std::string name(word.substr(0, word.find('=')));
      if (std::ranges::find(names, name) != names.end()) continue;
      const std::string meant = DidYouMean(name, names);
      const std::string_view command =
          WordOf(is_dev ? ServerCommand::kDev : ServerCommand::kServe).word;
      return InvalidSetting(MaskedText(
          fmt::format("unknown flag {}{}", name,
                      meant.empty() ? fmt::format(": see memoryd help {}", command) : meant)));
    }
    return absl::OkStatus();
  }

  // As SettingTable() has them. The lists that the file has besides go to `line`.
  absl::StatusOr<std::vector<SettingValue>> Gather(
      const std::map<std::string, std::string>& environment, CommandLine& line) const {
    std::vector<SettingValue> values = defaults;
    std::string file = given.file;
    if (file.empty()) {
      if (const auto found = environment.find("MEMORYD_CONFIG"); found != environment.end()) {
        file = found->second;
      }
    }
    if (!file.empty())
      MEMORYD_RETURN_IF_ERROR(ReadConfigFile(file, values, line.config, line.settings));
    for (const auto& [variable, value] : environment) {
      if (IsForeignVariable(variable)) continue;
      const auto known = by_variable.find(variable);
      if (known == by_variable.end()) {
        return InvalidSetting(fmt::format("unknown variable {}", variable));
      }
      values[known->second] = {value, variable};
    }
    for (std::size_t i = 0; i < SettingTable().size(); ++i) {
      if (settings[i]->count() > 0) values[i] = {texts[i], FlagOf(SettingTable()[i])};
    }
    if (is_dev) MEMORYD_RETURN_IF_ERROR(TakeDevWords(values));
    return values;
  }

  // What `memoryd dev` understands beyond settings.
  absl::Status TakeDevWords(std::vector<SettingValue>& values) const {
    const std::span<const Setting> table = SettingTable();
    const auto find = [&values, table](std::string_view name) -> SettingValue& {
      return values[static_cast<std::size_t>(std::ranges::find(table, name, &Setting::name) -
                                             table.begin())];
    };
    SettingValue& listen = find("listen");
    if (given.port.has_value()) {
      if (listen.origin == "--listen") return InvalidSetting("--port: stands beside --listen");
      listen = {fmt::format("127.0.0.1:{}", *given.port), "--port"};
      for (const std::string_view other : {"metrics_listen", "http_listen"}) {
        SettingValue& value = find(other);
        if (*given.port == 0 && value.origin == "default") value.text = "127.0.0.1:0";
      }
    }
    SettingValue& store = find("store");
    if (!given.path.empty()) {
      if (std::ranges::find(commands, given.path) != commands.end()) {
        return InvalidSetting(
            fmt::format("dev: {0} is a command of its own, memoryd {0}; a file or folder "
                        "of that name is ./{0}",
                        given.path));
      }
      if (store.origin == "--store") return InvalidSetting("PATH: stands beside --store");
      store = {given.path, "PATH"};
    }
    // A path is enough here.
    if (store.text.empty() || ParseStoreUrl(store.text).ok() ||
        store.text.find("://") != std::string::npos) {
      return absl::OkStatus();
    }
    std::error_code error;
    std::filesystem::path path = store.text;
    if (std::filesystem::is_directory(path, error)) path /= "memoryd.db";
    store.text = "sqlite:" + path.string();
    return absl::OkStatus();
  }
};

CommandLineParser::CommandLineParser() : options_(std::make_unique<Declared>(nullptr)) {}

CommandLineParser::CommandLineParser(const DevDefaults& defaults)
    : options_(std::make_unique<Declared>(&defaults)) {}

CommandLineParser::~CommandLineParser() = default;

std::vector<CommandLineOption> CommandLineParser::Options() const {
  std::vector<CommandLineOption> options;
  for (const CLI::Option* const option : options_->app.get_options()) {
    if (option->check_lname("help")) continue;
    options.push_back(
        {option->get_name(), option->get_description(), option->get_items_expected_min() > 0});
  }
  return options;
}

absl::StatusOr<CommandLine> CommandLineParser::Parse(
    int argc, const char* const* argv, const std::map<std::string, std::string>& environment) {
  CommandLine line;
  Declared::Given& given = options_->given;
  given = {};
  for (std::string& text : options_->texts) text.clear();
  try {
    options_->app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    line.command = Command::kHelp;
    return line;
  } catch (const CLI::ParseError& error) {
    MEMORYD_RETURN_IF_ERROR(options_->CheckFlags(argc, argv));
    return InvalidSetting(MaskedText(error.what()));
  }
  if (given.json && (given.version || given.reference || given.print)) {
    return InvalidSetting("--json: goes with serve, dev, migrate and --check-config");
  }
  line.json = given.json;
  if (given.version) {
    line.command = Command::kVersion;
    return line;
  }
  if (given.reference) {
    line.command = Command::kPrintReference;
    line.text = SettingsReference();
    return line;
  }

  MEMORYD_ASSIGN_OR_RETURN(const std::vector<SettingValue> values,
                           options_->Gather(environment, line));
  MEMORYD_RETURN_IF_ERROR(SetAll(values, line.config));
  MEMORYD_RETURN_IF_ERROR(CheckConfig(line.config));
  if (options_->migrate != nullptr && options_->migrate->parsed()) {
    line.command = Command::kMigrate;
  } else if (given.print) {
    line.command = Command::kPrintConfig;
    line.text = PrintedSettings(values);
    for (const auto& [name, list] : line.settings) line.text += list;
  } else if (given.check) {
    line.command = Command::kCheckConfig;
  }
  for (std::size_t i = 0; i < SettingTable().size(); ++i) {
    line.settings[std::string(SettingTable()[i].name)] = values[i].text;
  }
  return line;
}

}  // namespace memoryd
