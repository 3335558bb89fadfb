#include "cli/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "core/base/shell_word.h"

namespace memoryd::cli {
namespace {

// Words behind a command, empty for the program: `sessions list`.
using Visit = std::function<void(const std::string& path, const CLI::App& command)>;

void ForEach(const CLI::App& command, const std::string& path, const Visit& visit) {
  visit(path, command);
  for (const CLI::App* const below : CommandsOf(command)) {
    ForEach(*below, path.empty() ? below->get_name() : path + " " + below->get_name(), visit);
  }
}

// What may stand behind a command.
std::vector<std::string> WordsOf(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::App* const below : CommandsOf(command)) words.push_back(below->get_name());
  for (const CLI::Option* const option : OptionsOf(command)) {
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  }
  return words;
}

// The cases of a shell's `case`: each path with what follows it, by `line`.
std::string Cases(const CLI::App& app, const std::function<std::string(const CLI::App&)>& line) {
  std::string cases;
  ForEach(app, "", [&](const std::string& path, const CLI::App& command) {
    cases += fmt::format("    {}) {} ;;\n", QuotedForShell(path), line(command));
  });
  return cases;
}

// Those of the paths alone, that are one word longer than another.
std::string Paths(const CLI::App& app) {
  std::vector<std::string> paths;
  ForEach(app, "", [&](const std::string& path, const CLI::App&) {
    if (!path.empty()) paths.push_back(QuotedForShell(path));
  });
  return fmt::format("{}", fmt::join(paths, "|"));
}

}  // namespace

std::string BashCompletion(const CLI::App& app) {
  return fmt::format(R"(# Completion of memoryd for bash: source <(memoryd completion bash)
_memoryd() {{
  local path= words= word i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word="${{path:+$path }}${{COMP_WORDS[i]}}"
    case "$word" in
    {}) path=$word ;;
    esac
  done
  case "$path" in
{}  esac
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _memoryd memoryd
)",
                     Paths(app), Cases(app, [](const CLI::App& command) {
                       return fmt::format("words={}", QuotedForShell(fmt::format(
                                                          "{}", fmt::join(WordsOf(command), " "))));
                     }));
}

std::string ZshCompletion(const CLI::App& app) {
  const auto described = [](std::string name, const std::string& text) {
    // A colon ends the name.
    for (std::size_t at = 0; (at = name.find(':', at)) != std::string::npos; at += 2) {
      name.insert(at, "\\");
    }
    return QuotedForShell(name + ":" + text);
  };
  return fmt::format(R"(#compdef memoryd
# Completion of memoryd for zsh: memoryd completion zsh >"${{fpath[1]}}/_memoryd"
_memoryd() {{
  local at= word i
  local -a choices
  for ((i = 2; i < CURRENT; ++i)); do
    word="${{at:+$at }}${{words[i]}}"
    case "$word" in
    {}) at=$word ;;
    esac
  done
  case "$at" in
{}  esac
  _describe 'memoryd' choices || _files
}}
if [ "${{funcstack[1]}}" = _memoryd ]; then _memoryd "$@"; else compdef _memoryd memoryd; fi
)",
                     Paths(app), Cases(app, [&](const CLI::App& command) {
                       std::vector<std::string> choices;
                       for (const CLI::App* const below : CommandsOf(command)) {
                         choices.push_back(described(below->get_name(), below->get_description()));
                       }
                       for (const CLI::Option* const option : OptionsOf(command)) {
                         for (const std::string& name : option->get_lnames()) {
                           choices.push_back(described("--" + name, option->get_description()));
                         }
                       }
                       return fmt::format("choices=({})", fmt::join(choices, " "));
                     }));
}

std::string FishCompletion(const CLI::App& app) {
  std::string lines = "# Completion of memoryd for fish: memoryd completion fish | source\n";
  ForEach(app, "", [&](const std::string& path, const CLI::App& command) {
    std::vector<std::string> conditions;
    for (std::size_t begin = 0; begin < path.size();) {
      const std::size_t end = std::min(path.find(' ', begin), path.size());
      conditions.push_back("__fish_seen_subcommand_from " + path.substr(begin, end - begin));
      begin = end + 1;
    }
    std::vector<std::string> names;
    for (const CLI::App* const below : CommandsOf(command)) names.push_back(below->get_name());
    if (!names.empty()) {
      conditions.push_back(
          fmt::format("not __fish_seen_subcommand_from {}", fmt::join(names, " ")));
    }
    const std::string condition =
        QuotedForShell(fmt::format("{}", fmt::join(conditions, "; and ")));
    for (const CLI::App* const below : CommandsOf(command)) {
      lines +=
          fmt::format("complete -c memoryd -n {} -f -a {} -d {}\n", condition,
                      QuotedForShell(below->get_name()), QuotedForShell(below->get_description()));
    }
    for (const CLI::Option* const option : OptionsOf(command)) {
      for (const std::string& name : option->get_lnames()) {
        lines += fmt::format("complete -c memoryd -n {} -l {} {}-d {}\n", condition, name,
                             option->get_items_expected_min() > 0 ? "-r " : "",
                             QuotedForShell(option->get_description()));
      }
    }
  });
  return lines;
}

}  // namespace memoryd::cli
