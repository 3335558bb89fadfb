#include "cli/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "core/base/shell_word.h"

namespace memoryd::cli {
namespace {

struct Word {
  std::string word;
  std::string text;  // What it is; may be empty.
};

// What an option takes: one of `words`, or a file, or neither, which the shell can't know.
struct Value {
  std::string option;  // Without `--`.
  std::string text;
  bool taken = false;  // Whether it takes any.
  std::vector<std::string> words;
  bool file = false;
};

// What may stand behind some words: `sessions list`, none for the program alone.
struct Place {
  std::string path;
  std::vector<Word> words;
  bool files = false;
  std::vector<Value> options;
};

// A setting's value may be a file, for all that is known here.
bool MayBeFile(const CLI::Option& option) {
  return NamesFile(option) || option.get_type_name() == kAnyValue;
}

void AddNamesOf(const CLI::App& command, Place& place) {
  for (const CLI::App* const below : CommandsOf(command)) {
    place.words.push_back({below->get_name(), below->get_description()});
  }
}

void AddPlaces(const CLI::App& command, const std::string& path, std::vector<Place>& places) {
  Place place;
  place.path = path;
  AddNamesOf(command, place);
  for (const CLI::Option* const option : command.get_options()) {
    if (option->get_group().empty()) continue;
    if (option->get_positional()) {
      for (const std::string& word : OfferedWords(*option)) place.words.push_back({word, ""});
      place.files |= MayBeFile(*option);
      continue;
    }
    for (const std::string& name : option->get_lnames()) {
      const bool taken = option->get_items_expected_min() > 0;
      place.options.push_back({name, option->get_description(), taken, OfferedWords(*option),
                               taken && MayBeFile(*option)});
    }
  }
  places.push_back(std::move(place));
  for (const CLI::App* const below : CommandsOf(command)) {
    AddPlaces(*below, path.empty() ? below->get_name() : path + " " + below->get_name(), places);
  }
}

// What `help` has behind it is what the program has.
void AddPlacesOfHelp(const CLI::App& command, const std::string& path, std::vector<Place>& places) {
  for (const CLI::App* const below : CommandsOf(command)) {
    Place place;
    place.path = path + " " + below->get_name();
    AddNamesOf(*below, place);
    places.push_back(place);
    AddPlacesOfHelp(*below, place.path, places);
  }
}

std::vector<Place> PlacesOf(const CLI::App& app) {
  std::vector<Place> places;
  AddPlaces(app, "", places);
  for (Place& place : places) {
    if (place.path == "help") AddNamesOf(app, place);
  }
  AddPlacesOfHelp(app, "help", places);
  return places;
}

// Those of the paths alone, that are one word longer than another.
std::string Paths(const std::vector<Place>& places, std::string_view separator) {
  std::vector<std::string> paths;
  for (const Place& place : places) {
    if (!place.path.empty()) paths.push_back(QuotedForShell(place.path));
  }
  return fmt::format("{}", fmt::join(paths, separator));
}

// The cases of a shell's `case "$path $option"`: what is done where a value stands. `offer` makes
// it of the words that there are.
template <typename Offer>
std::string ValueCases(const std::vector<Place>& places, const Offer& offer,
                       std::string_view of_file, std::string_view of_other) {
  std::string cases;
  std::vector<std::string> files;
  std::vector<std::string> others;
  for (const Place& place : places) {
    for (const Value& option : place.options) {
      if (!option.taken) continue;
      const std::string at = QuotedForShell(fmt::format("{} --{}", place.path, option.option));
      if (!option.words.empty()) {
        cases += fmt::format("    {}) {} ;;\n", at,
                             offer(fmt::format("{}", fmt::join(option.words, " "))));
      } else {
        (option.file ? files : others).push_back(at);
      }
    }
  }
  cases += fmt::format("    {}) {} ;;\n", fmt::join(files, "|"), of_file);
  return cases + fmt::format("    {}) {} ;;\n", fmt::join(others, "|"), of_other);
}

}  // namespace

std::string BashCompletion(const CLI::App& app) {
  const std::vector<Place> places = PlacesOf(app);
  std::string cases;
  for (const Place& place : places) {
    std::vector<std::string> words;
    words.reserve(place.words.size() + place.options.size());
    for (const Word& word : place.words) words.push_back(word.word);
    for (const Value& option : place.options) words.push_back("--" + option.option);
    cases += fmt::format("    {}) words={}{} ;;\n", QuotedForShell(place.path),
                         QuotedForShell(fmt::format("{}", fmt::join(words, " "))),
                         place.files ? " files=1" : "");
  }
  return fmt::format(
      R"(# Completion of memoryd for bash: source <(memoryd completion bash)
_memoryd() {{
  local path= words= files= word i IFS=$' \t\n'
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
  # --option=value is three words.
  if [ "$current" = = ]; then
    current=
  elif [ "$previous" = = ]; then
    previous=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word="${{path:+$path }}${{COMP_WORDS[i]}}"
    case "$word" in
    {}) path=$word ;;
    esac
  done
  case "$path" in
{}  esac
  case "$path $previous" in
{}  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [ -n "$files" ]; then
    IFS=$'\n'
    compopt -o filenames 2>/dev/null
    COMPREPLY+=($(compgen -f -- "$current"))
  fi
}}
complete -F _memoryd memoryd
)",
      Paths(places, "|"), cases,
      ValueCases(
          places, [](const std::string& words) { return "files= words=" + QuotedForShell(words); },
          "words= files=1", "words= files="));
}

std::string ZshCompletion(const CLI::App& app) {
  const auto described = [](std::string name, const std::string& text) {
    // A colon ends the name.
    for (std::size_t at = 0; (at = name.find(':', at)) != std::string::npos; at += 2) {
      name.insert(at, "\\");
    }
    return QuotedForShell(text.empty() ? name : name + ":" + text);
  };
  const std::vector<Place> places = PlacesOf(app);
  std::string cases;
  for (const Place& place : places) {
    std::vector<std::string> choices;
    choices.reserve(place.words.size() + place.options.size());
    for (const Word& word : place.words) choices.push_back(described(word.word, word.text));
    for (const Value& option : place.options) {
      choices.push_back(described("--" + option.option, option.text));
    }
    cases += fmt::format("    {}) choices=({}){} ;;\n", QuotedForShell(place.path),
                         fmt::join(choices, " "), place.files ? " files=1" : "");
  }
  return fmt::format(
      R"(#compdef memoryd
# Completion of memoryd for zsh: memoryd completion zsh >"${{fpath[1]}}/_memoryd"
_memoryd() {{
  local at= files= word i previous="${{words[CURRENT-1]}}"
  local -a choices
  for ((i = 2; i < CURRENT; ++i)); do
    word="${{at:+$at }}${{words[i]}}"
    case "$word" in
    {}) at=$word ;;
    esac
  done
  if [[ "$PREFIX" == --*=* ]]; then
    previous="${{PREFIX%%=*}}"
    compset -P '*='
  fi
  case "$at $previous" in
{}  esac
  case "$at" in
{}  esac
  _describe 'memoryd' choices
  [[ -z "$files" ]] || _files
}}
if [ "${{funcstack[1]}}" = _memoryd ]; then _memoryd "$@"; else compdef _memoryd memoryd; fi
)",
      Paths(places, "|"),
      ValueCases(
          places,
          [](const std::string& words) { return fmt::format("compadd -- {}; return", words); },
          "_files; return", "return 1"),
      cases);
}

std::string FishCompletion(const CLI::App& app) {
  const std::vector<Place> places = PlacesOf(app);
  std::string lines = fmt::format(
      R"(# Completion of memoryd for fish: memoryd completion fish | source
function __memoryd_at
    set -l at ''
    set -l words (commandline -opc)
    set -e words[1]
    for word in $words
        set -l next (string trim -- "$at $word")
        switch $next
            case {}
                set at $next
        end
    end
    test "$at" = "$argv[1]"
end
)",
      Paths(places, " "));
  for (const Place& place : places) {
    const auto add = [&](const std::string& what) {
      lines += fmt::format("complete -c memoryd -n {} {}\n",
                           QuotedForShell(fmt::format("__memoryd_at \"{}\"", place.path)), what);
    };
    // Else it offers files everywhere.
    if (!place.files) add("-f");
    for (const Word& word : place.words) {
      add(fmt::format("-a {}{}", QuotedForShell(word.word),
                      word.text.empty() ? "" : " -d " + QuotedForShell(word.text)));
    }
    for (const Value& option : place.options) {
      const std::string value =
          !option.taken ? ""
          : option.file ? "-r -F "
          : option.words.empty()
              ? "-x "
              : fmt::format("-x -a {} ",
                            QuotedForShell(fmt::format("{}", fmt::join(option.words, " "))));
      add(fmt::format("-l {} {}-d {}", option.option, value, QuotedForShell(option.text)));
    }
  }
  return lines;
}

}  // namespace memoryd::cli
