// Parts of the reference of the settings, docs/SETTINGS.md: Markdown made of the tables that read
// them.
#ifndef MEMORYD_SERVER_SETTINGS_REFERENCE_H_
#define MEMORYD_SERVER_SETTINGS_REFERENCE_H_

#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace memoryd {

inline constexpr std::string_view kReferenceHead =
    "| key | default | values | meaning |\n|---|---|---|---|\n";

// Nothing for nothing.
inline std::string AsCode(std::string_view text) {
  return text.empty() ? std::string() : fmt::format("`{}`", text);
}

inline std::string ReferenceRow(std::initializer_list<std::string_view> cells) {
  std::string row = "|";
  for (std::string_view cell : cells) {
    while (cell.ends_with(' ')) cell.remove_suffix(1);
    row += ' ';
    for (const char c : cell) {
      if (c == '|') row += '\\';
      row += c;
    }
    row += cell.empty() ? "|" : " |";
  }
  return row + '\n';
}

// What `set` takes, by what it says of a value that nothing could be: "1 to 16", "true or false".
// Numbers have the unit that the end of `name` says. Nothing where any text may stand.
template <typename Set>
std::string AllowedValues(std::string_view name, Set set) {
  constexpr std::string_view kExpected = "must be ";
  constexpr std::string_view kNumber = "a whole number from ";
  constexpr std::pair<std::string_view, std::string_view> kUnits[] = {
      {"_ms", " ms"}, {"_s", " s"}, {"_seconds", " s"}, {"_mib", " MiB"}, {"_bytes", " bytes"}};
  for (const char* const impossible : {"!", ""}) {
    const std::string error = set(std::string(impossible));
    std::string_view values = error;
    if (!values.starts_with(kExpected)) continue;
    values.remove_prefix(kExpected.size());
    if (!values.starts_with(kNumber)) return std::string(values);
    std::string range(values.substr(kNumber.size()));
    for (const auto& [ending, unit] : kUnits) {
      if (name.ends_with(ending)) range += unit;
    }
    return range;
  }
  return {};
}

}  // namespace memoryd

#endif  // MEMORYD_SERVER_SETTINGS_REFERENCE_H_
