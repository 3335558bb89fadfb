#include "server/access/session_templates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/blocks/block_kinds.h"
#include "core/blocks/block_traits.h"
#include "core/llm/model_settings.h"
#include "core/model/session_config.h"
#include "core/model/session_template.h"
#include "core/sessions/session_errors.h"
#include "server/access/tenant_limits.h"
#include "server/settings/setting_value.h"
#include "server/wire/convert_config.h"
#include "server/wire/field_checks.h"
#include "server/wire/stored_body.h"

namespace memoryd {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using nlohmann::ordered_json;

constexpr std::string_view kOptions = "options_json";
// Fields of a request are named by where they stand in it.
constexpr std::string_view kConfigField = "config.";

absl::Status Bad(const std::string& path, const YAML::Node& node, std::string_view message) {
  const int line = node.Mark().line;
  return absl::InvalidArgumentError(
      OnOneLine(fmt::format("{}:{}: templates: {}", path, line < 0 ? 1 : line + 1, message)));
}

// What YAML means by a single value; nothing in quotes is anything but text.
ordered_json ScalarToJson(const YAML::Node& node) {
  if (!node.IsScalar()) return nullptr;
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;
  const ordered_json value = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_number() || value.is_boolean() ? value : ordered_json(text);
}

std::string Expected(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return "must be a whole number";
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT:
      return "must be a number";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "must be true or false";
    case FieldDescriptor::CPPTYPE_ENUM: {
      std::vector<std::string> names;
      for (int i = 1; i < field.enum_type()->value_count(); ++i) {
        names.emplace_back(field.enum_type()->value(i)->name());
      }
      return fmt::format("must be one of {}", fmt::join(names, ", "));
    }
    case FieldDescriptor::CPPTYPE_STRING:
      return field.type() == FieldDescriptor::TYPE_BYTES ? "must be base64" : "must be a text";
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  return "must be seconds such as 3600s";
}

// Whether the enumeration has this name, and it says something.
bool IsNamed(const YAML::Node& value, const FieldDescriptor& field) {
  const auto* const named = field.enum_type()->FindValueByName(value.Scalar());
  return named != nullptr && named->number() != 0;
}

constexpr std::string_view kKeyIsNoText = "a key must be a text";

// Into fields of a message, one after the other, so that each error has its line.
class TemplateReader {
 public:
  TemplateReader(const std::string& path, const std::string& name) : path_(path), name_(name) {}

  // `place` stands in front of the names of fields, empty or with a dot at its end.
  absl::Status ReadMessage(const YAML::Node& map, const std::string& place,
                           Message& message) const {
    if (!map.IsMap()) return Wrong(map, place, "must be a map of fields");
    const auto& descriptor = *message.GetDescriptor();
    std::set<std::string> keys;
    for (const auto& pair : map) {
      MEMORYD_ASSIGN_OR_RETURN(const std::string key, ReadKey(pair.first, place, keys));
      const FieldDescriptor* const field = descriptor.FindFieldByName(key);
      if (field == nullptr) {
        return Wrong(pair.first, place + key,
                     fmt::format("{} has no such field", std::string(descriptor.full_name())));
      }
      const auto* const oneof = field->real_containing_oneof();
      if (oneof != nullptr && message.GetReflection()->HasOneof(message, oneof)) {
        return Wrong(
            pair.first, place + key,
            fmt::format("only one field of `{}` may be given", std::string(oneof->name())));
      }
      MEMORYD_RETURN_IF_ERROR(ReadField(pair.second, place + key, *field, message));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Wrong(const YAML::Node& node, std::string_view field,
                     std::string_view message) const {
    while (field.ends_with('.')) field.remove_suffix(1);
    return Bad(path_, node,
               field.empty() ? fmt::format("{}: {}", name_, message)
                             : fmt::format("{}: {}: {}", name_, field, message));
  }

  // A key that is none of `keys`, which takes it in.
  absl::StatusOr<std::string> ReadKey(const YAML::Node& key, const std::string& place,
                                      std::set<std::string>& keys) const {
    if (!key.IsScalar()) return Wrong(key, place, kKeyIsNoText);
    if (!keys.insert(key.Scalar()).second) {
      return Wrong(key, place + key.Scalar(), "is given twice");
    }
    return key.Scalar();
  }

  // What YAML means by it, of any form, into `json`.
  absl::Status ReadJson(const YAML::Node& node, const std::string& place,
                        ordered_json& json) const {
    if (node.IsMap()) {
      json = ordered_json::object();
      std::set<std::string> keys;
      for (const auto& pair : node) {
        MEMORYD_ASSIGN_OR_RETURN(const std::string key, ReadKey(pair.first, place + ".", keys));
        MEMORYD_RETURN_IF_ERROR(ReadJson(pair.second, fmt::format("{}.{}", place, key), json[key]));
      }
    } else if (node.IsSequence()) {
      json = ordered_json::array();
      for (std::size_t i = 0; i < node.size(); ++i) {
        MEMORYD_RETURN_IF_ERROR(
            ReadJson(node[i], fmt::format("{}[{}]", place, i), json.emplace_back()));
      }
    } else {
      json = ScalarToJson(node);
    }
    return absl::OkStatus();
  }

  absl::Status ReadField(const YAML::Node& value, const std::string& place,
                         const FieldDescriptor& field, Message& message) const {
    if (!field.is_repeated()) return ReadValue(value, place, field, message);
    if (!value.IsSequence()) return Wrong(value, place, "must be a list");
    for (std::size_t i = 0; i < value.size(); ++i) {
      MEMORYD_RETURN_IF_ERROR(ReadValue(value[i], fmt::format("{}[{}]", place, i), field, message));
    }
    return absl::OkStatus();
  }

  absl::Status ReadValue(const YAML::Node& value, const std::string& place,
                         const FieldDescriptor& field, Message& message) const {
    const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (is_message && field.message_type()->file()->package() == "memoryd.v1") {
      const auto& reflection = *message.GetReflection();
      return ReadMessage(value, place + ".",
                         field.is_repeated() ? *reflection.AddMessage(&message, &field)
                                             : *reflection.MutableMessage(&message, &field));
    }
    ordered_json json;
    if (field.name() == kOptions && value.IsMap()) {
      ordered_json options;
      MEMORYD_RETURN_IF_ERROR(ReadJson(value, place, options));
      json = options.dump();
    } else if (!value.IsScalar()) {
      return Wrong(value, place, Expected(field));
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
      json = ScalarToJson(value);
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM && !IsNamed(value, field)) {
      // Protobuf takes numbers too, also those that name nothing.
      return Wrong(value, place, Expected(field));
    } else {
      // As protobuf takes every other kind.
      json = value.Scalar();
    }
    const ordered_json object = {
        {std::string(field.name()), field.is_repeated() ? ordered_json::array({json}) : json}};
    const std::unique_ptr<Message> alone(message.New());
    if (!google::protobuf::util::JsonStringToMessage(object.dump(), alone.get()).ok()) {
      return Wrong(value, place, Expected(field));
    }
    message.MergeFrom(*alone);
    return absl::OkStatus();
  }

  const std::string& path_;
  const std::string& name_;
};

// Where `field` stands, such as "blocks[3].kind", or what of it stands there.
YAML::Node Find(const YAML::Node& config, std::string_view field) {
  YAML::Node found;
  found.reset(config);
  while (!field.empty()) {
    const std::size_t end = std::min(field.find_first_of(".[", 1), field.size());
    std::string_view step = field.substr(0, end);
    field.remove_prefix(end);
    YAML::Node next(YAML::NodeType::Undefined);
    if (step.front() == '[') {
      std::size_t index = 0;
      std::from_chars(step.data() + 1, step.data() + step.size(), index);
      if (found.IsSequence() && index < found.size()) next.reset(found[index]);
    } else {
      if (step.front() == '.') step.remove_prefix(1);
      const YAML::Node& map = found;
      if (map.IsMap() && map[std::string(step)]) next.reset(map[std::string(step)]);
    }
    if (!next.IsDefined()) break;
    found.reset(next);
  }
  return found;
}

// What CreateSession refuses.
absl::StatusOr<SessionSettings> CheckedSettings(const v1::SessionConfig& config) {
  MEMORYD_ASSIGN_OR_RETURN(SessionSettings settings, FromProto(config));
  MEMORYD_RETURN_IF_ERROR(CheckNewName("config.subject", settings.subject.value_or(std::string())));
  MEMORYD_RETURN_IF_ERROR(SessionConfig::Resolve(settings).status());
  if (!settings.blocks.has_value()) return settings;
  const Profile profile = settings.profile.value_or(Profile::kDefault);
  ReadTraits(*settings.blocks, profile);
  const StoredBodyReader bodies;
  MEMORYD_RETURN_IF_ERROR(CheckBlocks(*settings.blocks, profile, bodies));
  return settings;
}

absl::Status AtItsLine(const TemplateSource& source, const absl::Status& status) {
  std::string field;
  for (const auto& [key, value] : ErrorDetails(status)) {
    if (key == "field") field = value;
  }
  if (field.starts_with(kConfigField)) field.erase(0, kConfigField.size());
  std::string message(status.message());
  if (message.starts_with(kConfigField)) message.erase(0, kConfigField.size());
  return Bad(source.path, Find(source.node, field), fmt::format("{}: {}", source.name, message));
}

}  // namespace

absl::StatusOr<std::vector<TemplateSource>> ParseTemplates(const YAML::Node& map,
                                                           const std::string& path) {
  std::vector<TemplateSource> sources;
  if (map.IsNull()) return sources;
  if (!map.IsMap()) return Bad(path, map, "must be a map of names and configurations");
  std::set<std::string> names;
  for (const auto& pair : map) {
    // What stands for nothing, such as `~`, is no name either.
    if (!pair.first.IsScalar()) return Bad(path, pair.first, "a name must be a text");
    TemplateSource source;
    source.name = pair.first.Scalar();
    source.path = path;
    source.node = pair.second;
    if (absl::Status status = CheckId("name", source.name, kMaxIdBytes); !status.ok()) {
      return Bad(path, pair.first, std::string(status.message()));
    }
    if (!names.insert(source.name).second) {
      return Bad(path, pair.first, fmt::format("{}: is given twice", source.name));
    }
    MEMORYD_RETURN_IF_ERROR(
        TemplateReader(path, source.name).ReadMessage(pair.second, "", source.config));
    sources.push_back(std::move(source));
  }
  return sources;
}

absl::StatusOr<SessionTemplates> MakeTemplates(const std::vector<TemplateSource>& sources) {
  SessionTemplates templates;
  for (const TemplateSource& source : sources) {
    absl::StatusOr<SessionSettings> settings = CheckedSettings(source.config);
    if (!settings.ok()) return AtItsLine(source, settings.status());
    settings->template_name = source.name;
    templates[source.name] =
        std::make_shared<const SessionTemplate>(SessionTemplate{source.name, *std::move(settings)});
  }
  return templates;
}

absl::Status CheckTenantTemplates(const std::vector<TemplateSource>& sources,
                                  const TenantLimitTable& tenants) {
  std::vector<std::string> names;
  names.reserve(sources.size());
  for (const TemplateSource& source : sources) names.push_back(source.name);
  std::sort(names.begin(), names.end());
  const auto check = [&names](std::string_view setting, const std::string& name) {
    if (name.empty() || std::binary_search(names.begin(), names.end(), name)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(OnOneLine(
        fmt::format("{}: there is no template `{}`; {}", setting, name, ThereAre(names))));
  };
  MEMORYD_RETURN_IF_ERROR(check("tenant_default_template", tenants.usual.default_template));
  for (const auto& [tenant, exception] : tenants.exceptions) {
    MEMORYD_RETURN_IF_ERROR(check(fmt::format("tenants: {}: default_template", tenant),
                                  exception.default_template.value_or(std::string())));
    if (!exception.templates.has_value()) continue;
    for (const std::string& name : *exception.templates) {
      MEMORYD_RETURN_IF_ERROR(check(fmt::format("tenants: {}: templates", tenant), name));
    }
    const std::string_view chosen = tenants.DefaultTemplateOf(tenant);
    if (chosen.empty() || tenants.MayUseTemplate(tenant, chosen)) continue;
    return absl::InvalidArgumentError(OnOneLine(
        fmt::format("tenants: {}: templates: must have `{}`, the tenant's default; or give "
                    "the tenant another default_template, '' for none",
                    tenant, chosen)));
  }
  return absl::OkStatus();
}

std::vector<std::string> MissingModels(const SessionTemplates& templates,
                                       const std::vector<ModelSettings>& models) {
  std::vector<std::string> lines;
  const auto look = [&](const std::string& name, std::string_view field, ModelKind kind,
                        const std::string& model) {
    const auto is_it = [&](const ModelSettings& known) {
      return known.kind == kind && known.name == model;
    };
    if (model.empty() || std::any_of(models.begin(), models.end(), is_it)) return;
    lines.push_back(
        OnOneLine(fmt::format("templates: {}: {}: the setting models has no {} `{}`", name, field,
                              kind == ModelKind::kChat ? "chat model" : "embedder", model)));
  };
  for (const auto& [name, made] : templates) {
    const SessionSettings& settings = made->settings;
    if (settings.ranking.embedder_worker.value_or(std::string()).empty()) {
      look(name, "retrieval.embedder", ModelKind::kEmbedding,
           settings.ranking.embedder.value_or(std::string()));
    }
    const std::vector<BlockSettings> blocks =
        settings.blocks.value_or(std::vector<BlockSettings>());
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (!blocks[i].worker.empty()) continue;
      const auto traits = TraitsOf(blocks[i], settings.profile.value_or(Profile::kDefault));
      const std::string field = fmt::format("blocks[{}]", i);
      look(name, field, ModelKind::kChat, traits->chat_model().model);
      look(name, field, ModelKind::kEmbedding, traits->embedder().model);
    }
  }
  return lines;
}

std::string ThereAre(const std::vector<std::string>& names) {
  return names.empty() ? "there are none" : fmt::format("there are: {}", fmt::join(names, ", "));
}

}  // namespace memoryd
