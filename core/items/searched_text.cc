#include "core/items/searched_text.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

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

// Gathers texts, each once: paths may lead to the same ones, and one path to what another contains.
class Texts {
 public:
  // Follows a path of at most 1,024 bytes.
  void AddAt(const Json& value, std::string_view path) {
    if (whole_.contains(&value)) return;
    if (path.empty()) {
      AddBelow(value);
      whole_.insert(&value);
      return;
    }
    const Step step = NextStep(path);
    if (step.is_element) {
      AddElements(value, step);
    } else if (value.is_object() && step.name == "*") {
      for (const Json& field : value) AddAt(field, step.rest);
    } else if (value.is_object()) {
      const auto found = value.find(std::string(step.name));
      if (found != value.end()) AddAt(*found, step.rest);
    }
  }

  std::string Take() { return std::move(text_); }

 private:
  void AddElements(const Json& value, const Step& step) {
    if (!value.is_array()) return;
    if (step.name == "*") {
      for (const Json& element : value) AddAt(element, step.rest);
      return;
    }
    std::size_t index = 0;
    const char* const end = step.name.data() + step.name.size();
    const auto [stopped, error] = std::from_chars(step.name.data(), end, index);
    if (error != std::errc() || stopped != end || index >= value.size()) return;
    AddAt(value[index], step.rest);
  }

  // Values are at most 64 levels deep.
  void AddBelow(const Json& value) {
    if (value.is_string()) {
      text_.append(value.get_ref<const std::string&>()).push_back('\n');
    } else if (value.is_structured()) {
      for (const Json& element : value) {
        if (!whole_.contains(&element)) AddBelow(element);
      }
    }
  }

  std::string text_;
  // Whose texts are there, all of them.
  std::unordered_set<const Json*> whole_;
};

}  // namespace

std::string SearchedText(const ItemContent& content, std::string_view otherwise) {
  if (content.kind != ItemValueKind::kJson) return {};
  const std::string_view search = content.search.has_value() ? *content.search : otherwise;
  const Json paths = Json::parse(search.begin(), search.end(), nullptr, false);
  if (!paths.is_array() || paths.empty()) return {};
  const Json value = Json::parse(content.value.begin(), content.value.end(), nullptr, false);
  if (value.is_discarded()) return {};
  Texts texts;
  for (const Json& path : paths) {
    if (!path.is_string()) continue;
    const std::string_view steps = path.get_ref<const std::string&>();
    texts.AddAt(value, steps == "$" ? std::string_view() : steps);
  }
  return texts.Take();
}

}  // namespace memoryd
