#include "core/items/searched_text.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <vector>

namespace memoryd {
namespace {

using Json = nlohmann::json;

// The next step of a path, and the path behind it.
struct Step {
  std::string_view name;  // Of a field, or what stands between brackets.
  bool is_element = false;
  std::string_view rest;
};

Step NextStep(std::string_view path) {
  if (path.front() == '[') {
    if (const std::size_t end = path.find(']'); end != std::string_view::npos) {
      Step step{path.substr(1, end - 1), true, path.substr(end + 1)};
      if (step.rest.starts_with('.')) step.rest.remove_prefix(1);
      return step;
    }
  }
  const std::size_t end = path.find_first_of(".[", 1);
  if (end == std::string_view::npos) return {path, false, {}};
  return {path.substr(0, end), false, path.substr(path[end] == '.' ? end + 1 : end)};
}

void AddTexts(const Json& value, std::string& text) {
  // Values are at most 64 levels deep.
  if (value.is_string()) {
    text.append(value.get_ref<const std::string&>()).push_back('\n');
  } else if (value.is_structured()) {
    for (const Json& element : value) AddTexts(element, text);
  }
}

// Follows a path of at most 1,024 bytes.
void AddAt(const Json& value, std::string_view path, std::string& text) {
  if (path.empty()) {
    AddTexts(value, text);
    return;
  }
  const Step step = NextStep(path);
  if (!step.is_element) {
    if (!value.is_object()) return;
    if (step.name == "*") {
      for (const Json& field : value) AddAt(field, step.rest, text);
    } else if (const auto found = value.find(std::string(step.name)); found != value.end()) {
      AddAt(*found, step.rest, text);
    }
    return;
  }
  if (!value.is_array()) return;
  if (step.name == "*") {
    for (const Json& element : value) AddAt(element, step.rest, text);
    return;
  }
  std::size_t index = 0;
  const char* const end = step.name.data() + step.name.size();
  const auto [stopped, error] = std::from_chars(step.name.data(), end, index);
  if (error != std::errc() || stopped != end || index >= value.size()) return;
  AddAt(value[index], step.rest, text);
}

}  // namespace

std::string SearchedText(const ItemContent& content, std::string_view otherwise) {
  std::string text;
  if (content.kind != ItemValueKind::kJson) return text;
  const std::string_view search = content.search.has_value() ? *content.search : otherwise;
  const Json paths = Json::parse(search.begin(), search.end(), nullptr, false);
  if (!paths.is_array() || paths.empty()) return text;
  const Json value = Json::parse(content.value.begin(), content.value.end(), nullptr, false);
  if (value.is_discarded()) return text;
  for (const Json& path : paths) {
    if (!path.is_string()) continue;
    const std::string_view steps = path.get_ref<const std::string&>();
    AddAt(value, steps == "$" ? std::string_view() : steps, text);
  }
  return text;
}

}  // namespace memoryd
