#include "core/model/session_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/time/time.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/model/language.h"
#include "core/model/message.h"
#include "core/model/ranking_options.h"
#include "core/model/role.h"
#include "core/model/time_zone.h"

namespace memoryd {

// Found by nlohmann::json through the type. Parts are bytes, which JSON can't hold.
static void to_json(nlohmann::json& object, const BlockSettings& block) {
  object = {{"name", block.name}, {"kind", block.kind}};
  if (block.priority != 0) object["priority"] = block.priority;
  if (!block.worker.empty()) object["worker"] = block.worker;
  if (!block.options_json.empty()) object["options"] = block.options_json;
  for (const std::string& part : block.content) {
    object["content"].push_back(absl::Base64Escape(part));
  }
}

// Throws what nlohmann throws, for a number with a fraction too: one beyond all integers must not
// be converted.
static std::int64_t Integer(const nlohmann::json& value) {
  return value.get_ref<const nlohmann::json::number_integer_t&>();
}

static void from_json(const nlohmann::json& object, BlockSettings& block) {
  block.name = object.at("name").get<std::string>();
  block.kind = object.at("kind").get<std::string>();
  if (object.contains("priority")) {
    block.priority = static_cast<std::int32_t>(Integer(object.at("priority")));
  }
  block.worker = object.value("worker", std::string());
  block.options_json = object.value("options", std::string());
  if (!object.contains("content")) return;
  for (const auto& part : object.at("content")) {
    absl::Base64Unescape(part.get<std::string>(), &block.content.emplace_back());
  }
}

namespace {

using nlohmann::json;

constexpr std::array<std::pair<Profile, std::string_view>, 3> kProfiles = {{
    {Profile::kDefault, "default"},
    {Profile::kLlamaIndex, "llama-index"},
    {Profile::kAutogenList, "autogen-list"},
}};
constexpr std::array<std::pair<PolicyKind, std::string_view>, 2> kPolicies = {{
    {PolicyKind::kFifo, "fifo"},
    {PolicyKind::kBuffer, "buffer"},
}};
constexpr std::array<std::string_view, 4> kTokenizers = {"cl100k_base", "o200k_base", "whitespace",
                                                         "caller"};

constexpr std::int64_t kMaxTokens = std::numeric_limits<std::int32_t>::max();

constexpr std::string_view kRanking = "retrieval.";
constexpr const char* kLanguage = "retrieval.language";

struct WeightRange {
  double least;
  double most;
};

// Calls visit(name, field, range) for every number of RankingSettings or RankingOptions.
template <typename Ranking, typename Visitor>
void VisitWeights(Ranking& ranking, Visitor visit) {
  constexpr WeightRange kWeight{0, 10};
  visit("bm25_k1", ranking.bm25_k1, kWeight);
  visit("bm25_b", ranking.bm25_b, WeightRange{0, 1});
  visit("vector_weight", ranking.vector_weight, kWeight);
  visit("vector_threshold", ranking.vector_threshold, WeightRange{-1, 1});
  visit("author_weight", ranking.author_weight, kWeight);
  visit("neighbour_weight", ranking.neighbour_weight, WeightRange{0, 1});
  visit("neighbour_tokens", ranking.neighbour_tokens, WeightRange{0, 1e6});
  visit("answer_factor", ranking.answer_factor, kWeight);
  visit("thread_weight", ranking.thread_weight, WeightRange{0, 1});
  visit("length_weight", ranking.length_weight, kWeight);
  visit("length_tokens", ranking.length_tokens, WeightRange{1, 1e6});
  visit("user_weight", ranking.user_weight, kWeight);
  visit("recency_weight", ranking.recency_weight, kWeight);
  visit("embedder_weight", ranking.embedder_weight, kWeight);
}

// Calls visit(name, field) for every plainly stored field, so that reading, writing and merging
// can't forget one.
template <typename Settings, typename Visitor>
void VisitFields(Settings& settings, Visitor visit) {
  visit("profile", settings.profile);
  visit("token_limit", settings.token_limit);
  visit("token_flush_size", settings.token_flush_size);
  visit("chat_history_token_ratio", settings.chat_history_token_ratio);
  visit("insert_method", settings.insert_method);
  visit("tokenizer", settings.tokenizer);
  visit("policy", settings.policy);
  visit("feed", settings.feed);
  visit("image_token_count", settings.image_token_count);
  visit("audio_token_count", settings.audio_token_count);
  visit("video_token_count", settings.video_token_count);
  visit("document_token_count", settings.document_token_count);
  visit("blocks", settings.blocks);
  visit("subject", settings.subject);
  visit("time_zone", settings.time_zone);
  visit("user_roles", settings.user_roles);
  visit("cut_highest_first", settings.cut_highest_first);
  visit("template", settings.template_name);
  VisitWeights(settings.ranking, [&visit](const char* name, auto& field, const WeightRange&) {
    visit((std::string(kRanking) + name).c_str(), field);
  });
  visit("retrieval.expansion", settings.ranking.expansion);
  visit("retrieval.dates", settings.ranking.dates);
  visit("retrieval.embedder", settings.ranking.embedder);
  visit("retrieval.embedder_worker", settings.ranking.embedder_worker);
  visit(kLanguage, settings.ranking.language);
  visit("retention.session_ttl_us", settings.retention.session_ttl_us);
  visit("retention.refresh_on_read", settings.retention.refresh_on_read);
  visit("retention.keep_messages", settings.retention.keep_messages);
  visit("retention.message_ttl_us", settings.retention.message_ttl_us);
  visit("retention.keep_bytes", settings.retention.keep_bytes);
}

absl::Status CheckTokens(std::string_view field, const std::optional<std::int64_t>& value,
                         std::int64_t lowest) {
  if (value.has_value() && (*value < lowest || *value > kMaxTokens)) {
    return InvalidField(std::string("config.").append(field),
                        "must be between " + std::to_string(lowest) + " and 2147483647");
  }
  return absl::OkStatus();
}

absl::StatusOr<RankingOptions> ResolveRanking(const RankingSettings& settings) {
  RankingOptions options;
  options.embedder = settings.embedder.value_or("");
  options.embedder_worker = settings.embedder_worker.value_or("");
  if (options.embedder.empty() && !options.embedder_worker.empty()) {
    return InvalidField("config.retrieval.embedder_worker",
                        "is for an embedder: give `embedder` too, or leave both empty");
  }
  if (!options.embedder.empty()) options.vector_weight = kVectorWeightBesideEmbedder;
  std::vector<double*> weights;
  VisitWeights(options,
               [&](const char*, double& weight, WeightRange) { weights.push_back(&weight); });
  absl::Status status;
  auto weight = weights.begin();
  VisitWeights(
      settings, [&](const char* name, const std::optional<double>& set, WeightRange range) {
        **weight = set.value_or(**weight);
        // Written so that NaN fails as well.
        if (status.ok() && !(**weight >= range.least && **weight <= range.most)) {
          status = InvalidField(fmt::format("config.{}{}", kRanking, name),
                                fmt::format("must be between {} and {}", range.least, range.most));
        }
        ++weight;
      });
  if (!status.ok()) return status;
  options.expansion = settings.expansion;
  options.dates = settings.dates.value_or(options.dates);
  options.language = settings.language.value_or("");
  if (!options.language.empty() && !FindLanguage(options.language).has_value()) {
    return InvalidField("config.retrieval.language",
                        fmt::format("must be one of {}, {}", fmt::join(kLanguageCodes, ", "),
                                    fmt::join(kUnspacedLanguageCodes, ", ")));
  }
  return options;
}

absl::StatusOr<std::vector<std::string>> ResolveUserRoles(const SessionSettings& settings) {
  std::vector<std::string> roles = settings.user_roles.value_or(std::vector<std::string>());
  for (std::size_t i = 0; i < roles.size(); ++i) {
    const Role role = ParseRole(roles[i]);
    if (role != Role::kOther && role != Role::kUser) {
      return InvalidField(
          fmt::format("config.user_roles[{}]", i),
          fmt::format("`{}` is not of the human side; name a role of your own, such "
                      "as `client_b`",
                      roles[i]));
    }
  }
  return roles;
}

constexpr std::int64_t kLeastTtlUs = 1'000'000;
constexpr std::int64_t kMostTtlUs = kMaxTtlSeconds * 1'000'000;
constexpr std::int64_t kTtlSteps = 16;

// The end of the step in which `at_us + ttl_us` lies.
std::int64_t EndOfStep(std::int64_t at_us, std::int64_t ttl_us) {
  if (ttl_us <= 0) return 0;
  const std::int64_t step = ttl_us / kTtlSteps;
  return (at_us + ttl_us + step - 1) / step * step;
}

absl::StatusOr<Retention> ResolveRetention(const RetentionSettings& settings) {
  Retention retention;
  retention.session_ttl_us = settings.session_ttl_us.value_or(0);
  retention.message_ttl_us = settings.message_ttl_us.value_or(0);
  for (const auto& [field, ttl_us] : {std::pair("session_ttl", retention.session_ttl_us),
                                      std::pair("message_ttl", retention.message_ttl_us)}) {
    if (ttl_us != 0 && (ttl_us < kLeastTtlUs || ttl_us > kMostTtlUs)) {
      return InvalidField(fmt::format("config.retention.{}", field),
                          "must be between 1 second and 3,650 days, or 0 for never");
    }
  }
  retention.keep_messages = settings.keep_messages.value_or(0);
  if (retention.keep_messages < 0) {
    return InvalidField("config.retention.keep_messages", "must be at least 1, or 0 for all");
  }
  retention.keep_bytes = settings.keep_bytes.value_or(0);
  if (retention.keep_bytes < 0) {
    return InvalidField("config.retention.keep_bytes", "must be at least 1, or 0 for all");
  }
  retention.refresh_on_read = settings.refresh_on_read.value_or(false);
  return retention;
}

}  // namespace

std::int64_t Retention::ExpiryAt(std::int64_t now_us) const {
  return EndOfStep(now_us, session_ttl_us);
}

std::int64_t Retention::DropAt(std::int64_t ingest_us) const {
  return EndOfStep(ingest_us, message_ttl_us);
}

absl::Status CheckTimeZone(const SessionSettings& settings) {
  if (!settings.time_zone.has_value()) return absl::OkStatus();
  const absl::Status status = FindTimeZone(*settings.time_zone).status();
  if (status.ok()) return absl::OkStatus();
  return InvalidField("config.time_zone",
                      std::string_view(status.message().data(), status.message().size()));
}

std::vector<std::string_view> ProfileNames() {
  std::vector<std::string_view> names;
  names.reserve(kProfiles.size());
  for (const auto& [value, name] : kProfiles) names.push_back(name);
  return names;
}

std::vector<std::string_view> TokenizerNames() { return {kTokenizers.begin(), kTokenizers.end()}; }

std::string_view ProfileName(Profile profile) {
  for (const auto& [value, name] : kProfiles) {
    if (value == profile) return name;
  }
  return {};
}

std::optional<Profile> ParseProfile(std::string_view name) {
  for (const auto& [value, known] : kProfiles) {
    if (known == name) return value;
  }
  return std::nullopt;
}

std::string_view PolicyName(PolicyKind policy) {
  for (const auto& [value, name] : kPolicies) {
    if (value == policy) return name;
  }
  return {};
}

std::optional<PolicyKind> ParsePolicy(std::string_view name) {
  for (const auto& [value, known] : kPolicies) {
    if (known == name) return value;
  }
  return std::nullopt;
}

RetentionSettings RetentionSettings::Or(const RetentionSettings& defaults) const {
  const auto either = [](const auto& set, const auto& other) {
    return set.has_value() ? set : other;
  };
  return {either(session_ttl_us, defaults.session_ttl_us),
          either(refresh_on_read, defaults.refresh_on_read),
          either(keep_messages, defaults.keep_messages),
          either(message_ttl_us, defaults.message_ttl_us), either(keep_bytes, defaults.keep_bytes)};
}

SessionSettings SessionSettings::With(const SessionSettings& changes) const {
  SessionSettings merged = changes;
  const json old = json::parse(ToJson());
  VisitFields(merged, [&old]<typename T>(const char* name, std::optional<T>& field) {
    if (!field.has_value() && old.contains(name)) field = old.at(name).get<T>();
  });
  return merged;
}

std::string SessionSettings::ToJson() const {
  json object = json::object();
  VisitFields(*this, [&object]<typename T>(const char* name, const std::optional<T>& field) {
    if (field.has_value()) object[name] = *field;
  });
  // Versions before it know no language. Here the empty one is as none: there is nothing below.
  if (ranking.language == "") object.erase(kLanguage);
  return object.dump();
}

absl::StatusOr<SessionSettings> SessionSettings::FromJson(std::string_view text) {
  json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return absl::DataLossError("a stored configuration can't be read");
  SessionSettings settings;
  try {
    VisitFields(settings, [&]<typename T>(const char* name, std::optional<T>& field) {
      if (!object.contains(name)) return;
      if constexpr (std::is_enum_v<T> || std::is_same_v<T, std::int64_t>) {
        field = static_cast<T>(Integer(object.at(name)));
      } else {
        field = object.at(name).get<T>();
      }
      object.erase(name);
    });
  } catch (const json::exception&) {
    return absl::DataLossError("a stored configuration can't be read");
  }
  // How a later version ranks is no reason not to read.
  for (const auto& [name, value] : object.items()) {
    if (name.starts_with(kRanking)) continue;
    return absl::DataLossError("a stored configuration has fields this version does not know");
  }
  return settings;
}

absl::StatusOr<SessionConfig> SessionConfig::Resolve(const SessionSettings& settings) {
  for (const auto& [field, value, lowest] :
       {std::tuple("token_limit", settings.token_limit, std::int64_t{1}),
        std::tuple("image_token_count", settings.image_token_count, std::int64_t{0}),
        std::tuple("audio_token_count", settings.audio_token_count, std::int64_t{0}),
        std::tuple("video_token_count", settings.video_token_count, std::int64_t{0}),
        std::tuple("document_token_count", settings.document_token_count, std::int64_t{0})}) {
    if (absl::Status status = CheckTokens(field, value, lowest); !status.ok()) return status;
  }
  SessionConfig config;
  CountingRules& counting = config.counting;
  counting.profile = settings.profile.value_or(counting.profile);
  counting.tokenizer = settings.tokenizer.value_or(counting.tokenizer);
  counting.image_token_count = settings.image_token_count.value_or(counting.image_token_count);
  counting.audio_token_count = settings.audio_token_count.value_or(counting.audio_token_count);
  counting.video_token_count = settings.video_token_count.value_or(counting.video_token_count);
  counting.document_token_count =
      settings.document_token_count.value_or(counting.document_token_count);
  bool known_tokenizer = false;
  for (const std::string_view name : kTokenizers) known_tokenizer |= name == counting.tokenizer;
  if (!known_tokenizer) {
    return InvalidField("config.tokenizer",
                        "must be cl100k_base, o200k_base, whitespace or caller");
  }

  config.token_limit = settings.token_limit.value_or(config.token_limit);
  config.chat_history_token_ratio =
      settings.chat_history_token_ratio.value_or(config.chat_history_token_ratio);
  // Written so that NaN fails as well.
  if (!(config.chat_history_token_ratio >= 0 && config.chat_history_token_ratio <= 1)) {
    return InvalidField("config.chat_history_token_ratio", "must be between 0 and 1");
  }
  // LlamaIndex rounds the tenth down, to 0 for a limit below 10, and then flushes only what
  // stands before a user message.
  const auto tenth = static_cast<std::int64_t>(static_cast<double>(config.token_limit) * 0.1);
  if (counting.profile == Profile::kLlamaIndex) {
    const std::int64_t given = settings.token_flush_size.value_or(-1);
    config.token_flush_size = given < 1 || given > config.token_limit ? tenth : given;
  } else {
    config.token_flush_size = settings.token_flush_size.value_or(std::max<std::int64_t>(tenth, 1));
    if (config.token_flush_size < 1 || config.token_flush_size > config.token_limit) {
      return InvalidField("config.token_flush_size", "must be between 1 and token_limit");
    }
  }
  config.insert_method = settings.insert_method.value_or(config.insert_method);
  // ListMemory forgets nothing by itself.
  config.policy = settings.policy.value_or(
      counting.profile == Profile::kAutogenList ? PolicyKind::kBuffer : PolicyKind::kFifo);
  config.feed = settings.feed.value_or(
      counting.profile == Profile::kLlamaIndex ? FeedTime::kBeforeReply : FeedTime::kAfterCommit);
  config.blocks = settings.blocks.value_or(std::vector<BlockSettings>());
  config.subject = settings.subject.value_or(std::string());
  MEMORYD_ASSIGN_OR_RETURN(config.ranking, ResolveRanking(settings.ranking));
  config.time_zone = settings.time_zone.value_or(config.time_zone);
  config.ranking.zone = FindTimeZone(config.time_zone).value_or(absl::UTCTimeZone());
  MEMORYD_ASSIGN_OR_RETURN(config.user_roles, ResolveUserRoles(settings));
  config.cut_highest_first =
      settings.cut_highest_first.value_or(counting.profile != Profile::kLlamaIndex);
  MEMORYD_ASSIGN_OR_RETURN(config.retention, ResolveRetention(settings.retention));
  config.template_name = settings.template_name.value_or(std::string());
  return config;
}

}  // namespace memoryd
