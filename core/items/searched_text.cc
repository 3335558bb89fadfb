#include "core/items/searched_text.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/json_check.h"
#include "core/items/item.h"
#include "core/items/item_rules.h"

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

// Hears a value and gathers the texts to which paths lead. A tree of a value may take 30 times the
// memory of its text.
class Texts final : public JsonVisitor {
 public:
  // Each path has at most 1,024 bytes; empty is the whole value.
  explicit Texts(std::vector<std::string_view> paths) : next_(std::move(paths)) {}

  std::string Take() { return std::move(text_); }

  void OnNull() override { Pass(); }
  void OnBool(bool /*value*/) override { Pass(); }
  void OnInteger(std::string_view /*literal*/) override { Pass(); }
  void OnFloat(double /*value*/) override { Pass(); }
  void OnString(std::string_view value) override {
    Enter();
    if (IsWhole(next_)) text_.append(value).push_back('\n');
  }
  void OnKey(std::string_view key) override { key_ = key; }
  void OnBeginObject() override { Begin(/*is_array=*/false); }
  void OnEndObject() override { open_.pop_back(); }
  void OnBeginArray() override { Begin(/*is_array=*/true); }
  void OnEndArray() override { open_.pop_back(); }

 private:
  // What is left of the paths that lead to a value. Each step of a path leads one level down.
  using Paths = std::vector<std::string_view>;

  // An object or array that is being read.
  struct Open {
    bool is_array = false;
    bool is_whole = false;  // All texts below it are wanted.
    Paths paths;
    std::size_t elements = 0;  // Of an array, so far.
  };

  // A path that has led to its end asks for all texts there.
  static bool IsWhole(const Paths& paths) {
    return std::any_of(paths.begin(), paths.end(),
                       [](std::string_view path) { return path.empty(); });
  }

  static bool LeadsTo(const Step& step, const Open& in, std::size_t index, std::string_view key) {
    if (step.is_element != in.is_array) return false;
    if (step.name == "*") return true;
    if (!in.is_array) return step.name == key;
    std::size_t wanted = 0;
    const char* const end = step.name.data() + step.name.size();
    const auto [stopped, error] = std::from_chars(step.name.data(), end, wanted);
    return error == std::errc() && stopped == end && wanted == index;
  }

  // Sets next_ to what is left of the paths at the value that comes now.
  void Enter() {
    if (open_.empty()) return;
    Open& in = open_.back();
    const std::size_t index = in.elements++;
    next_.clear();
    if (in.is_whole) {
      next_.emplace_back();
      return;
    }
    for (const std::string_view path : in.paths) {
      const Step step = NextStep(path);
      if (LeadsTo(step, in, index, key_)) next_.push_back(step.rest);
    }
  }

  // A value without texts.
  void Pass() {
    if (!open_.empty()) ++open_.back().elements;
  }

  void Begin(bool is_array) {
    Enter();
    Open& opened = open_.emplace_back();
    opened.is_array = is_array;
    opened.is_whole = IsWhole(next_);
    if (!opened.is_whole) opened.paths = next_;
  }

  Paths next_;
  std::vector<Open> open_;
  std::string key_;
  std::string text_;
};

}  // namespace

std::string SearchedText(const ItemContent& content, std::string_view otherwise) {
  if (content.kind != ItemValueKind::kJson) return {};
  const std::string_view search = content.search.has_value() ? *content.search : otherwise;
  const Json paths = Json::parse(search.begin(), search.end(), nullptr, false);
  if (!paths.is_array() || paths.empty()) return {};
  std::vector<std::string_view> wanted;
  for (const Json& path : paths) {
    if (!path.is_string()) continue;
    const std::string_view steps = path.get_ref<const std::string&>();
    wanted.push_back(steps == "$" ? std::string_view() : steps);
  }
  Texts texts(std::move(wanted));
  if (!ReadJson(content.value, kItemJsonLimits, texts).ok()) return {};
  return texts.Take();
}

}  // namespace memoryd
