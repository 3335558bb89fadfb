#include "cli/unknown_word.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "cli/command.h"
#include "core/base/nearest_word.h"

namespace memoryd::cli {
namespace {

std::vector<std::string> NamesOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* const command : CommandsOf(app)) names.push_back(command->get_name());
  return names;
}

// Whether `word` can give an option at all: a text may begin as a list does, `- buy milk`.
bool LooksLikeOption(std::string_view word) {
  if (!word.starts_with('-')) return false;
  word.remove_prefix(word.starts_with("--") ? 2 : 1);
  // As CLI11 has it.
  return !word.empty() && std::string_view("-! \n").find(word.front()) == std::string_view::npos;
}

// The option that `word` gives, nullptr for none.
const CLI::Option* FindOption(const CLI::App& command, const std::string& word) {
  // A short one may have its value, or others, behind it.
  return command.get_option_no_throw(word.starts_with("--") ? word.substr(0, word.find('='))
                                                            : word.substr(0, 2));
}

absl::Status CheckOptions(const CLI::App& command, const std::string& path,
                          const std::vector<std::string>& words, std::size_t begin) {
  for (std::size_t i = begin; i < words.size() && words[i] != "--"; ++i) {
    const std::string& word = words[i];
    if (!LooksLikeOption(word)) continue;
    if (const CLI::Option* const option = FindOption(command, word); option != nullptr) {
      // What follows is its value, whatever that begins with.
      if (option->get_items_expected_min() > 0 && word.find('=') == std::string::npos) ++i;
      continue;
    }
    const std::string name = word.substr(0, word.find('='));
    std::vector<std::string> known;
    for (const CLI::Option* const option : OptionsOf(command)) {
      for (std::string& spelling : SpellingsOf(*option)) known.push_back(std::move(spelling));
    }
    const std::string meant = DidYouMean(name, known);
    return absl::InvalidArgumentError(fmt::format(
        "unknown option {}{}", name,
        !meant.empty()
            ? meant
            : fmt::format(": see memoryd help{}; a text that begins with - stands behind "
                          "all options and --",
                          path)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status UnknownCommand(const CLI::App& app, const std::string& word) {
  const std::vector<std::string> names = NamesOf(app);
  std::string hint = DidYouMean(word, names);
  if (app.get_parent() == nullptr) {
    if (hint.empty()) hint = ": see memoryd help";
    return absl::InvalidArgumentError(fmt::format("unknown command {}{}", word, hint));
  }
  if (hint.empty() && !names.empty()) hint = fmt::format(": there are {}", fmt::join(names, ", "));
  return absl::InvalidArgumentError(
      fmt::format("unknown command {} {}{}", app.get_name(), word, hint));
}

absl::Status CheckWords(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  std::string path;
  std::size_t at = 0;
  for (; !CommandsOf(*command).empty(); ++at) {
    if (at == words.size()) {
      if (path.empty()) return absl::OkStatus();
      return absl::InvalidArgumentError(fmt::format("{} needs a command: {}", path.substr(1),
                                                    fmt::join(NamesOf(*command), ", ")));
    }
    if (words[at].starts_with('-')) return CheckOptions(*command, path, words, at);
    const CLI::App* const next = FindCommand(*command, words[at]);
    if (next == nullptr) return UnknownCommand(*command, words[at]);
    command = next;
    path += " " + words[at];
  }
  // What follows is somebody else's.
  if (command->get_prefix_command()) return absl::OkStatus();
  return CheckOptions(*command, path, words, at);
}

}  // namespace memoryd::cli
