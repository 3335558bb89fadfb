#include "core/blocks/block_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/base/json_check.h"

namespace memoryd {

using nlohmann::json;

namespace {

// Options whose strings are names, or are compared and never shown.
constexpr std::string_view kNameOptions[] = {"embedder", "filter", "model", "session_id"};

bool MayBeShown(const json& value) {
  return !value.is_number() && !value.is_boolean() && !value.is_null() && !value.empty();
}

}  // namespace

BlockOptions::BlockOptions(std::string field, std::string_view text) : field_(std::move(field)) {
  if (text.empty()) return;
  if (const absl::Status checked = CheckJsonObject(text); !checked.ok()) {
    status_ = InvalidField(field_, std::string(checked.message()));
    is_readable_ = false;
    return;
  }
  options_ = json::parse(text, nullptr, false);
  if (options_.is_object()) return;
  options_ = json::object();
  is_readable_ = false;
  status_ = InvalidField(field_, "can't be read");
}

void BlockOptions::Refuse(std::string_view name, std::string_view reason) {
  if (!status_.ok()) return;
  status_ = InvalidField(field_, fmt::format("option `{}` {}", name, reason));
}

const json* BlockOptions::Find(std::string_view name) {
  known_.emplace(name);
  const auto found = options_.find(name);
  return found == options_.end() || found->is_null() ? nullptr : &*found;
}

std::int64_t BlockOptions::Integer(std::string_view name, std::int64_t fallback,
                                   std::int64_t lowest, std::int64_t highest) {
  const json* const option = Find(name);
  if (option == nullptr) return fallback;
  if (option->is_number_integer() &&
      (!option->is_number_unsigned() ||
       option->get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX))) {
    const auto value = option->get<std::int64_t>();
    if (value >= lowest && value <= highest) return value;
  }
  Refuse(name, fmt::format("must be an integer between {} and {}", lowest, highest));
  return fallback;
}

std::optional<double> BlockOptions::Number(std::string_view name, double lowest, double highest) {
  const json* const option = Find(name);
  if (option == nullptr) return std::nullopt;
  if (option->is_number()) {
    const auto value = option->get<double>();
    if (value >= lowest && value <= highest) return value;
  }
  Refuse(name, fmt::format("must be a number between {} and {}", lowest, highest));
  return std::nullopt;
}

bool BlockOptions::Bool(std::string_view name, bool fallback) {
  const json* const option = Find(name);
  if (option == nullptr) return fallback;
  if (option->is_boolean()) return option->get<bool>();
  Refuse(name, "must be true or false");
  return fallback;
}

std::string BlockOptions::Text(std::string_view name, std::string_view fallback) {
  const json* const option = Find(name);
  if (option == nullptr) return std::string(fallback);
  if (!option->is_string()) {
    Refuse(name, "must be a string");
    return std::string(fallback);
  }
  std::string text = option->get<std::string>();
  if (text.size() > kMaxOptionText) {
    Refuse(name, fmt::format("must be at most {} bytes", kMaxOptionText));
  }
  return text;
}

std::string BlockOptions::RequiredText(std::string_view name) {
  std::string text = Text(name, "");
  if (text.empty()) Refuse(name, "is required");
  return text;
}

std::string BlockOptions::Template(std::string_view name, std::string_view fallback,
                                   std::vector<std::string_view> names) {
  const bool given = Find(name) != nullptr;
  std::string text = Text(name, fallback);
  if (!given) return text;
  std::size_t count = 0;
  for (const std::string_view placeholder : names) {
    const std::string wanted = fmt::format("{{{}}}", placeholder);
    for (std::size_t at = text.find(wanted); at != std::string::npos;
         at = text.find(wanted, at + 1)) {
      ++count;
    }
  }
  if (count != 1) {
    std::string wanted;
    for (const std::string_view placeholder : names) {
      wanted += fmt::format("{}{{{}}}", wanted.empty() ? "" : " or ", placeholder);
    }
    Refuse(name, fmt::format("must hold {} exactly once", wanted));
  }
  return text;
}

std::vector<std::string> BlockOptions::Texts(std::string_view name) {
  std::vector<std::string> texts;
  const json* const option = Find(name);
  if (option == nullptr) return texts;
  if (!option->is_array()) {
    Refuse(name, "must be an array of strings");
    return texts;
  }
  for (const json& item : *option) {
    if (!item.is_string()) {
      Refuse(name, "must be an array of strings");
      return texts;
    }
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

json BlockOptions::Scalars(std::string_view name) {
  const json* const option = Find(name);
  if (option == nullptr) return json::object();
  bool scalars = option->is_object();
  if (scalars) {
    for (const json& value : *option) scalars = scalars && value.is_primitive();
  }
  if (scalars) return *option;
  Refuse(name, "must be an object of strings, numbers, booleans and nulls");
  return json::object();
}

bool BlockOptions::HasTexts(std::optional<std::string_view> but_for) const {
  if (!is_readable_) return true;
  return std::any_of(options_.items().begin(), options_.items().end(), [&](const auto& option) {
    if (but_for.has_value() && option.key() == *but_for) return false;
    const bool names = std::find(std::begin(kNameOptions), std::end(kNameOptions), option.key()) !=
                       std::end(kNameOptions);
    return !names && MayBeShown(option.value());
  });
}

absl::Status BlockOptions::Finish() const {
  if (!status_.ok()) return status_;
  for (const auto& [name, value] : options_.items()) {
    if (known_.count(name) > 0) continue;
    return InvalidField(field_, fmt::format("there is no option `{}`; there are: {}", name,
                                            fmt::join(known_, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace memoryd
