#include "cli/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/terminal.h"
#include "cli/terminal_text.h"

namespace memoryd::cli {
namespace {

// CLI11's group of options that are in no other.
constexpr char kOwnOptions[] = "Options";
constexpr int kIndent = 2;
constexpr int kGap = 2;
// A wider name has its text on the next line.
constexpr int kWidestName = 28;

// `text` in lines of `width` columns; all but the first are indented.
std::string Wrapped(std::string_view text, int indent, int width) {
  const int room = std::max(width - indent, 20);
  std::string lines;
  int column = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const int columns = DisplayWidth(word);
    if (column > 0 && column + 1 + columns > room) {
      lines += fmt::format("\n{:{}}", "", indent);
      column = 0;
    } else if (column > 0) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += columns;
    begin = end + 1;
  }
  return lines;
}

struct Row {
  std::string name;
  std::string text;
};

std::string Rows(const std::vector<Row>& rows, const HelpStyle& style) {
  int names = 0;
  for (const Row& row : rows) {
    const int columns = DisplayWidth(row.name);
    if (columns <= kWidestName) names = std::max(names, columns);
  }
  const int indent = kIndent + names + kGap;
  std::string lines;
  for (const Row& row : rows) {
    const int columns = DisplayWidth(row.name);
    lines += fmt::format("{:{}}{}", "", kIndent, row.name);
    if (columns > names) {
      lines += fmt::format("\n{:{}}", "", indent);
    } else {
      lines += fmt::format("{:{}}", "", names - columns + kGap);
    }
    lines += Wrapped(row.text, indent, style.width) + "\n";
  }
  return lines;
}

std::string Heading(std::string_view text, const HelpStyle& style) {
  return fmt::format("\n{}\n", Bold(text, style.colour));
}

// What a command does; of a group what there is.
std::string TextOf(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* const below : CommandsOf(command)) names.push_back(below->get_name());
  if (names.empty()) return command.get_description();
  return fmt::format("{}: {}.", command.get_description(), fmt::join(names, ", "));
}

// Names in the order in which they first come.
template <typename Entries>
std::vector<std::string> GroupsOf(const Entries& entries) {
  std::vector<std::string> groups;
  for (const auto* const entry : entries) {
    const std::string& group = entry->get_group();
    if (!group.empty() && std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
  }
  return groups;
}

// `memoryd sessions list`.
std::string PathOf(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  return parent == nullptr ? command.get_name()
                           : fmt::format("{} {}", PathOf(*parent), command.get_name());
}

bool TakesMany(const CLI::Option& option) { return option.get_items_expected_max() > 1; }

std::vector<const CLI::Option*> Positionals(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) { return option->get_positional(); });
}

// Its own first, then those of every command.
std::vector<const CLI::Option*> Named(const CLI::App& command) {
  std::vector<const CLI::Option*> options = OptionsOf(command);
  // `--help` itself is left out: its reader has found it.
  std::erase_if(options, [](const CLI::Option* option) { return option->check_lname("help"); });
  std::stable_partition(options.begin(), options.end(), [](const CLI::Option* option) {
    return option->get_group() == kOwnOptions;
  });
  return options;
}

// `memoryd sessions fork SESSION NEW_SESSION [options]`.
std::string UsageOf(const CLI::App& command) {
  std::string usage = PathOf(command);
  if (!CommandsOf(command).empty()) return usage + " COMMAND [options]";
  for (const CLI::Option* const option : Positionals(command)) {
    const std::string name = option->get_name() + (TakesMany(*option) ? "…" : "");
    usage += option->get_required() ? " " + name : fmt::format(" [{}]", name);
  }
  return usage + " [options]";
}

// `--limit N`.
std::string NameOf(const CLI::Option& option) {
  if (option.get_positional()) return option.get_name();
  std::string text = fmt::format("{}", fmt::join(SpellingsOf(option), ", "));
  if (option.get_items_expected_min() > 0) {
    // Behind a colon CLI11 says what is checked.
    const std::string type = option.get_type_name();
    const std::string name = type.substr(0, type.find(':'));
    text += name == "INT"     ? " N"
            : name == "FLOAT" ? " NUMBER"
            : name == "ENUM"  ? " TEXT"
                              : " " + name;
  }
  return text;
}

std::string TextOf(const CLI::Option& option) {
  const std::string variable = option.get_envname();
  return variable.empty() ? option.get_description()
                          : fmt::format("{} Also {}.", option.get_description(), variable);
}

}  // namespace

HelpStyle StyleOfOutput() {
  HelpStyle style;
  style.colour = WantsColour(STDOUT_FILENO);
  if (const int width = TerminalWidth(STDOUT_FILENO); width > 0) {
    style.width = std::clamp(width, 60, style.width);
  }
  return style;
}

std::string Overview(const CLI::App& app, const std::string& version, const HelpStyle& style) {
  std::string text = fmt::format("memoryd {}: {}\n\n{} memoryd COMMAND [options]\n", version,
                                 app.get_description(), Bold("Usage:", style.colour));
  const std::vector<const CLI::App*> commands = CommandsOf(app);
  // One column of names for all groups.
  std::size_t widest = 0;
  for (const CLI::App* const command : commands) {
    widest = std::max(widest, command->get_name().size());
  }
  for (const std::string& group : GroupsOf(commands)) {
    std::vector<Row> rows;
    for (const CLI::App* const command : commands) {
      if (command->get_group() != group) continue;
      rows.push_back({fmt::format("{:{}}", command->get_name(), widest), TextOf(*command)});
    }
    text += Heading(group, style) + Rows(rows, style);
  }
  return text + "\n" + app.get_footer();
}

std::string HelpOf(const CLI::App& command, const HelpStyle& style) {
  std::string text = fmt::format("{}\n\n{} {}\n", Wrapped(TextOf(command), 0, style.width),
                                 Bold("Usage:", style.colour), UsageOf(command));
  std::vector<Row> rows;
  for (const CLI::App* const below : CommandsOf(command)) {
    rows.push_back({below->get_name(), TextOf(*below)});
  }
  if (!rows.empty()) text += Heading("Commands", style) + Rows(rows, style);
  rows.clear();
  for (const CLI::Option* const option : Positionals(command)) {
    rows.push_back({NameOf(*option), TextOf(*option)});
  }
  if (!rows.empty()) text += "\n" + Rows(rows, style);
  const std::vector<const CLI::Option*> options = Named(command);
  for (const std::string& group : GroupsOf(options)) {
    rows.clear();
    for (const CLI::Option* const option : options) {
      if (option->get_group() == group) rows.push_back({NameOf(*option), TextOf(*option)});
    }
    text += Heading(group, style) + Rows(rows, style);
  }
  return text;
}

namespace {

std::string ReferenceRows(const CLI::App& command) {
  if (!CommandsOf(command).empty()) {
    std::string rows;
    for (const CLI::App* const below : CommandsOf(command)) rows += ReferenceRows(*below);
    return rows;
  }
  std::vector<std::string> options;
  for (const CLI::Option* const option : Named(command)) {
    // Those of every command are told once.
    if (option->get_group() == kOwnOptions) options.push_back(fmt::format("`{}`", NameOf(*option)));
  }
  std::string usage = UsageOf(command);
  usage = usage.substr(0, usage.rfind(" [options]"));
  return fmt::format("| `{}` | {}{}{} |\n", usage, command.get_description(),
                     options.empty() ? "" : " ", fmt::join(options, ", "));
}

}  // namespace

std::string CommandReference(const CLI::App& app) {
  std::string text;
  const std::vector<const CLI::App*> commands = CommandsOf(app);
  for (const std::string& group : GroupsOf(commands)) {
    text += fmt::format("## {}\n\n| command | |\n|---|---|\n", group);
    for (const CLI::App* const command : commands) {
      if (command->get_group() == group) text += ReferenceRows(*command);
    }
    text += '\n';
  }
  return text;
}

}  // namespace memoryd::cli
