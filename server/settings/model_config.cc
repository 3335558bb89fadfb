#include "server/settings/model_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string.h>
#include <strings.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/llm/model_settings.h"
#include "server/settings/reference.h"
#include "server/settings/setting_value.h"
#include "server/wire/field_checks.h"

namespace memoryd {
namespace {

constexpr std::size_t kMaxName = 128;
constexpr int kMaxMilliseconds = 3'600'000;

// One key of a model; `set` returns an error message, or nothing.
struct Field {
  std::string_view name;
  std::optional<ModelKind> kind;  // The kind that it is for; none: both.
  std::string (*set)(ModelSettings& model, const std::string& value);
  std::string_view help = {};  // In Markdown.
  // Of settings without the key; null: it has none.
  std::string (*default_value)(const ModelSettings& model) = nullptr;
};

std::string_view KindName(ModelKind kind) {
  return kind == ModelKind::kChat ? "chat" : "embedding";
}

std::string ParseMilliseconds(const std::string& value, std::chrono::milliseconds& out) {
  int count = 0;
  std::string error = ParseInt(value, 1, kMaxMilliseconds, count);
  if (error.empty()) out = std::chrono::milliseconds(count);
  return error;
}

std::string Keep(const std::string& value, std::string& out) {
  out = value;
  return {};
}

std::string ParseText(const std::string& value, std::string& out) {
  if (value.empty()) return "must not be empty";
  return Keep(value, out);
}

// `SCHEME://HOST…`, of one of the schemes, without anything secret or that changes its meaning.
std::string ParseUrl(const std::string& value, std::initializer_list<std::string_view> schemes,
                     std::string& out) {
  const std::size_t colon = std::min(value.find("://"), value.size());
  const bool is_known = std::find(schemes.begin(), schemes.end(),
                                  std::string_view(value).substr(0, colon)) != schemes.end();
  std::string url = value;
  while (url.ends_with('/')) url.pop_back();
  const bool is_clean = std::all_of(url.begin(), url.end(), [](char c) {
    return c > ' ' && c < 0x7F && c != '?' && c != '#' && c != '\\';
  });
  if (!is_known || !is_clean || url.size() <= colon + 3 || url[colon + 3] == '/') {
    return fmt::format("must be a URL of {} without ? and #", fmt::join(schemes, ", "));
  }
  if (url.find('@') != std::string::npos) return "must not hold a user or a password";
  out = std::move(url);
  return {};
}

std::string ParseTemperature(const std::string& value, std::optional<double>& out) {
  double parsed = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
  if (error != std::errc() || end != value.data() + value.size() || !(parsed >= 0 && parsed <= 2)) {
    return "must be a number from 0 to 2";
  }
  out = parsed;
  return {};
}

// For keys that have a reader of their own.
std::string ReadApart(ModelSettings&, const std::string&) { return {}; }

constexpr Field kFields[] = {
    {"name",
     {},
     [](ModelSettings& m, const std::string& v) { return Keep(v, m.name); },
     "The name by which blocks refer to the model, 1 to 128 bytes. It follows the rule of session "
     "ids."},
    {"kind", {}, &ReadApart, "`chat` or `embedding`."},
    {"url",
     {},
     [](ModelSettings& m, const std::string& v) {
       return ParseUrl(v, {"http", "https"}, m.url);
     },
     "The URL of the API, without passwords."},
    {"model",
     {},
     [](ModelSettings& m, const std::string& v) { return ParseText(v, m.model); },
     "The API's name of the model."},
    {"key_file",
     {},
     [](ModelSettings& m, const std::string& v) { return ParseText(v, m.key_file); },
     "File with the API's key, which is sent as `Authorization: Bearer`. It is read for each "
     "request, so you may replace it at any time. Refused if other users can read it, and with "
     "`http` unless `allow_private` is set."},
    {"allow_private",
     {},
     &ReadApart,
     "Private addresses that the URL may lead to: `true` for all, or a list of addresses and "
     "networks such as `10.0.0.0/8`. [Addresses](MODELS.md#models).",
     [](const ModelSettings&) { return std::string("false"); }},
    {"timeout_ms",
     {},
     [](ModelSettings& m, const std::string& v) { return ParseMilliseconds(v, m.timeout); },
     "The longest time of one attempt, from the connection to the end of the answer. The caller's "
     "deadline limits all attempts together.",
     [](const ModelSettings& m) { return std::to_string(m.timeout.count()); }},
    {"connect_timeout_ms",
     {},
     [](ModelSettings& m, const std::string& v) { return ParseMilliseconds(v, m.connect_timeout); },
     "The longest time to connect, including TLS.",
     [](const ModelSettings& m) { return std::to_string(m.connect_timeout.count()); }},
    {"retries",
     {},
     [](ModelSettings& m, const std::string& v) { return ParseInt(v, 0, 10, m.retries); },
     "Further attempts after 429, 5xx, and failed or broken connections.",
     [](const ModelSettings& m) { return std::to_string(m.retries); }},
    {"max_calls",
     {},
     [](ModelSettings& m, const std::string& v) { return ParseInt(v, 1, 1024, m.max_calls); },
     "The most calls in flight, including those that wait for their next attempt.",
     [](const ModelSettings& m) { return std::to_string(m.max_calls); }},
    {"max_waiting",
     {},
     [](ModelSettings& m, const std::string& v) { return ParseInt(v, 0, 65536, m.max_waiting); },
     "The most calls that wait for their turn. Further calls are refused.",
     [](const ModelSettings& m) { return std::to_string(m.max_waiting); }},
    {"max_answer_bytes",
     {},
     [](ModelSettings& m, const std::string& v) {
       return ParseInt(v, std::size_t{1024}, std::size_t{1} << 30, m.max_answer_bytes);
     },
     "The largest answer. A larger one is an error at once.",
     [](const ModelSettings&) {
       return fmt::format("{}, {} for embeddings", DefaultMaxAnswerBytes(ModelKind::kChat),
                          DefaultMaxAnswerBytes(ModelKind::kEmbedding));
     }},
    {"ca_file",
     {},
     [](ModelSettings& m, const std::string& v) { return ParseText(v, m.ca_file); },
     "PEM file of the certificate authorities to trust instead of the system's."},
    {"proxy",
     {},
     [](ModelSettings& m, const std::string& v) {
       return ParseUrl(v, {"http", "https", "socks5h"}, m.proxy);
     },
     "URL of a proxy to the API. Proxies of the environment are ignored."},
    {"headers",
     {},
     &ReadApart,
     "A map of further headers. Do not put secrets here: `--print-config` masks them, but the file "
     "has them in plain text. A header whose name looks like a secret is refused in a file that "
     "every user can read."},
    {"temperature", ModelKind::kChat,
     [](ModelSettings& m, const std::string& v) { return ParseTemperature(v, m.temperature); },
     "The temperature. Absent: the model's own default."},
    {"max_tokens_key", ModelKind::kChat,
     [](ModelSettings& m, const std::string& v) {
       return ParseChoice(v, {"max_tokens", "max_completion_tokens"}, m.max_tokens_key);
     },
     "The API's name of the limit of tokens.",
     [](const ModelSettings& m) { return m.max_tokens_key; }},
    {"images", ModelKind::kChat,
     [](ModelSettings& m, const std::string& v) { return ParseBool(v, m.takes_images); },
     "Whether the model takes images. If not, a text says where there was one.",
     [](const ModelSettings& m) { return std::string(m.takes_images ? "true" : "false"); }},
    {"dimensions", ModelKind::kEmbedding,
     [](ModelSettings& m, const std::string& v) { return ParseInt(v, 1, 65536, m.dimensions); },
     "The required number of dimensions of each embedding. Absent: any."},
    {"batch_size", ModelKind::kEmbedding,
     [](ModelSettings& m, const std::string& v) { return ParseInt(v, 1, 2048, m.batch_size); },
     "The most texts in a request.",
     [](const ModelSettings& m) { return std::to_string(m.batch_size); }},
    {"text_prefix", ModelKind::kEmbedding,
     [](ModelSettings& m, const std::string& v) { return Keep(v, m.text_prefix); },
     "A prefix that the model needs before each text that is to be found."},
    {"query_prefix", ModelKind::kEmbedding,
     [](ModelSettings& m, const std::string& v) { return Keep(v, m.query_prefix); },
     "A prefix that the model needs before each query."},
};

const Field* FindField(std::string_view name) {
  for (const Field& field : kFields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

// Of RFC 9110's characters, and not one that HTTP itself or the key needs.
bool IsHeaderName(const std::string& name) {
  constexpr const char* kTaken[] = {"authorization",     "connection", "content-length",
                                    "content-type",      "expect",     "host",
                                    "transfer-encoding", "te",         "accept-encoding"};
  for (const char* taken : kTaken) {
    if (strcasecmp(taken, name.c_str()) == 0) return false;
  }
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) != 0 || c == '-' || c == '_');
  });
}

class ModelParser {
 public:
  explicit ModelParser(const std::string& path) : path_(path) {}

  absl::StatusOr<std::vector<ModelSettings>> Parse(const YAML::Node& list) const {
    std::vector<ModelSettings> models;
    if (list.IsNull()) return models;
    if (!list.IsSequence()) return Bad(list, "models: must be a list");
    std::set<std::string> names;
    for (const YAML::Node& entry : list) {
      MEMORYD_ASSIGN_OR_RETURN(ModelSettings model, ParseModel(entry));
      if (!names.insert(model.name).second) {
        return Bad(entry, fmt::format("models: {}: another model has the same name", model.name));
      }
      models.push_back(std::move(model));
    }
    return models;
  }

 private:
  absl::Status Bad(const YAML::Node& node, std::string_view message) const {
    const int line = node.Mark().line;
    return absl::InvalidArgumentError(
        OnOneLine(fmt::format("{}:{}: {}", path_, line < 0 ? 1 : line + 1, message)));
  }

  absl::StatusOr<ModelSettings> ParseModel(const YAML::Node& entry) const {
    if (!entry.IsMap()) return Bad(entry, "models: must be a list of maps with name, kind, url");
    ModelSettings model;
    MEMORYD_RETURN_IF_ERROR(ParseKind(entry, model));
    std::set<std::string> keys;
    for (const auto& pair : entry) {
      const auto key = pair.first.as<std::string>();
      if (!keys.insert(key).second) {
        return Bad(pair.first, fmt::format("models: {}: is given twice", key));
      }
      MEMORYD_RETURN_IF_ERROR(ParseKey(key, pair.first, pair.second, model));
    }
    for (const char* key : {"name", "url", "model"}) {
      if (!keys.contains(key)) return Bad(entry, fmt::format("models: {}: is missing", key));
    }
    if (!model.key_file.empty() && model.url.starts_with("http:") &&
        model.addresses.IsPublicOnly()) {
      return Bad(entry, "models: key_file: would be sent in plain text; use a url of https");
    }
    return model;
  }

  absl::Status ParseKind(const YAML::Node& entry, ModelSettings& model) const {
    const YAML::Node kind = entry["kind"];
    if (!kind) return Bad(entry, "models: kind: is missing");
    if (kind.IsScalar() && kind.Scalar() == "chat") {
      model.kind = ModelKind::kChat;
    } else if (kind.IsScalar() && kind.Scalar() == "embedding") {
      model.kind = ModelKind::kEmbedding;
    } else {
      return Bad(kind, "models: kind: must be one of chat, embedding");
    }
    return absl::OkStatus();
  }

  absl::Status ParseKey(const std::string& key, const YAML::Node& place, const YAML::Node& value,
                        ModelSettings& model) const {
    if (key == "headers") return ParseHeaders(value, model);
    if (key == "allow_private") return ParseAllowPrivate(value, model);
    const Field* const field = FindField(key);
    if (field == nullptr) return Bad(place, fmt::format("models: unknown key {}", key));
    if (!value.IsScalar())
      return Bad(place, fmt::format("models: {}: must be a single value", key));
    if (field->kind.has_value() && *field->kind != model.kind) {
      return Bad(place, fmt::format("models: {}: is for models of the kind {}", key,
                                    KindName(*field->kind)));
    }
    if (key == "name") {
      const absl::Status status = CheckId("models: name", value.Scalar(), kMaxName);
      if (!status.ok()) return Bad(value, std::string(status.message()));
    }
    if (const std::string error = field->set(model, value.Scalar()); !error.empty()) {
      return Bad(value, fmt::format("models: {}: {}", key, error));
    }
    return absl::OkStatus();
  }

  absl::Status ParseHeaders(const YAML::Node& map, ModelSettings& model) const {
    if (!map.IsMap()) return Bad(map, "models: headers: must be a map of names and values");
    for (const auto& pair : map) {
      const auto name = pair.first.as<std::string>();
      if (!IsHeaderName(name)) {
        return Bad(pair.first, "models: headers: has a name that can't be used");
      }
      const bool is_clean = pair.second.IsScalar() && !pair.second.Scalar().empty() &&
                            std::all_of(pair.second.Scalar().begin(), pair.second.Scalar().end(),
                                        [](char c) { return c >= ' ' && c < 0x7F; });
      if (!is_clean) {
        return Bad(pair.first, fmt::format("models: headers: {}: must be a line of text", name));
      }
      model.headers[name] = pair.second.Scalar();
    }
    return absl::OkStatus();
  }

  absl::Status ParseAllowPrivate(const YAML::Node& value, ModelSettings& model) const {
    constexpr std::string_view kExpected =
        "models: allow_private: must be true, false, or a list of IP addresses and networks";
    if (value.IsScalar()) {
      bool is_allowed = false;
      if (!ParseBool(value.Scalar(), is_allowed).empty()) return Bad(value, kExpected);
      if (is_allowed) model.addresses = AddressRules::WithPrivate();
      return absl::OkStatus();
    }
    if (!value.IsSequence()) return Bad(value, kExpected);
    for (const YAML::Node& item : value) {
      if (!item.IsScalar() || !model.addresses.Allow(item.Scalar()).ok()) {
        return Bad(item, kExpected);
      }
    }
    return absl::OkStatus();
  }

  const std::string& path_;
};

}  // namespace

absl::StatusOr<std::vector<ModelSettings>> ParseModels(const YAML::Node& list,
                                                       const std::string& path) {
  return ModelParser(path).Parse(list);
}

std::string ModelReference() {
  std::string text(kReferenceHead);
  for (const Field& field : kFields) {
    const auto set = [&field](const std::string& value) {
      ModelSettings scratch;
      return field.set(scratch, value);
    };
    const std::string default_value =
        field.default_value == nullptr ? "" : field.default_value(ModelSettings());
    const std::string kind =
        field.kind.has_value() ? fmt::format("Of the kind `{}`. ", KindName(*field.kind)) : "";
    text += ReferenceRow({AsCode(field.name), AsCode(default_value), AllowedValues(field.name, set),
                          kind + std::string(field.help)});
  }
  return text;
}

bool MayHoldSecret(const ModelSettings& model) {
  for (const auto& [name, value] : model.headers) {
    for (const char* word : {"auth", "cookie", "key", "password", "secret", "token"}) {
      if (strcasestr(name.c_str(), word) != nullptr) return true;
    }
  }
  return false;
}

YAML::Node MaskedModels(const YAML::Node& list) {
  YAML::Node masked = YAML::Clone(list);
  for (YAML::Node model : masked) {
    if (!model["headers"]) continue;
    for (auto header : model["headers"]) header.second = "***";
  }
  return masked;
}

}  // namespace memoryd
