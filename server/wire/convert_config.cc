#include "server/wire/convert_config.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/field_path.h"
#include "core/base/status_macros.h"
#include "core/blocks/block_kinds.h"
#include "core/model/ranking_options.h"
#include "core/model/session_config.h"
#include "core/model/time_zone.h"
#include "server/wire/convert.h"
#include "server/wire/duration.h"
#include "server/wire/field_checks.h"

namespace memoryd {
namespace {

constexpr int kMaxUserRoles = 16;

absl::StatusOr<BlockSettings> FromBlock(const FieldPath& field, const v1::Block& block) {
  BlockSettings settings;
  // Names are looked at with the rest of the configuration; here only what the wire alone knows.
  settings.name = block.name();
  settings.kind = block.kind();
  settings.priority = block.priority();
  if (!block.worker().empty()) {
    MEMORYD_RETURN_IF_ERROR(CheckId(field.Field("worker"), block.worker(), kMaxIdBytes));
    settings.worker = block.worker();
  }
  MEMORYD_RETURN_IF_ERROR(CheckJson(field.Field("options_json"), block.options_json(), false));
  settings.options_json = block.options_json();
  if (block.content_size() > kMaxParts) {
    return InvalidField(field.Field("content"), "at most 1,000 parts");
  }
  for (int i = 0; i < block.content_size(); ++i) {
    v1::Part part = block.content(i);
    part.DiscardUnknownFields();
    MEMORYD_RETURN_IF_ERROR(CheckPart(field.Element("content", i), part));
    settings.content.push_back(part.SerializeAsString());
  }
  return settings;
}

// A number of v1::Retrieval, and what it is called in the core.
struct Weight {
  std::optional<double> RankingSettings::*setting;
  double RankingOptions::*option;
  bool (v1::Retrieval::*is_set)() const;
  double (v1::Retrieval::*get)() const;
  void (v1::Retrieval::*set)(double);
};

constexpr auto kWeights = std::to_array<Weight>({
    {&RankingSettings::bm25_k1, &RankingOptions::bm25_k1, &v1::Retrieval::has_bm25_k1,
     &v1::Retrieval::bm25_k1, &v1::Retrieval::set_bm25_k1},
    {&RankingSettings::bm25_b, &RankingOptions::bm25_b, &v1::Retrieval::has_bm25_b,
     &v1::Retrieval::bm25_b, &v1::Retrieval::set_bm25_b},
    {&RankingSettings::vector_weight, &RankingOptions::vector_weight,
     &v1::Retrieval::has_vector_weight, &v1::Retrieval::vector_weight,
     &v1::Retrieval::set_vector_weight},
    {&RankingSettings::vector_threshold, &RankingOptions::vector_threshold,
     &v1::Retrieval::has_vector_threshold, &v1::Retrieval::vector_threshold,
     &v1::Retrieval::set_vector_threshold},
    {&RankingSettings::author_weight, &RankingOptions::author_weight,
     &v1::Retrieval::has_author_weight, &v1::Retrieval::author_weight,
     &v1::Retrieval::set_author_weight},
    {&RankingSettings::neighbour_weight, &RankingOptions::neighbour_weight,
     &v1::Retrieval::has_neighbour_weight, &v1::Retrieval::neighbour_weight,
     &v1::Retrieval::set_neighbour_weight},
    {&RankingSettings::neighbour_tokens, &RankingOptions::neighbour_tokens,
     &v1::Retrieval::has_neighbour_tokens, &v1::Retrieval::neighbour_tokens,
     &v1::Retrieval::set_neighbour_tokens},
    {&RankingSettings::answer_factor, &RankingOptions::answer_factor,
     &v1::Retrieval::has_answer_factor, &v1::Retrieval::answer_factor,
     &v1::Retrieval::set_answer_factor},
    {&RankingSettings::thread_weight, &RankingOptions::thread_weight,
     &v1::Retrieval::has_thread_weight, &v1::Retrieval::thread_weight,
     &v1::Retrieval::set_thread_weight},
    {&RankingSettings::length_weight, &RankingOptions::length_weight,
     &v1::Retrieval::has_length_weight, &v1::Retrieval::length_weight,
     &v1::Retrieval::set_length_weight},
    {&RankingSettings::length_tokens, &RankingOptions::length_tokens,
     &v1::Retrieval::has_length_tokens, &v1::Retrieval::length_tokens,
     &v1::Retrieval::set_length_tokens},
    {&RankingSettings::user_weight, &RankingOptions::user_weight, &v1::Retrieval::has_user_weight,
     &v1::Retrieval::user_weight, &v1::Retrieval::set_user_weight},
    {&RankingSettings::recency_weight, &RankingOptions::recency_weight,
     &v1::Retrieval::has_recency_weight, &v1::Retrieval::recency_weight,
     &v1::Retrieval::set_recency_weight},
    {&RankingSettings::embedder_weight, &RankingOptions::embedder_weight,
     &v1::Retrieval::has_embedder_weight, &v1::Retrieval::embedder_weight,
     &v1::Retrieval::set_embedder_weight},
});

absl::StatusOr<RankingSettings> FromRetrieval(const v1::Retrieval& retrieval) {
  RankingSettings settings;
  for (const Weight& weight : kWeights) {
    if ((retrieval.*weight.is_set)()) settings.*weight.setting = (retrieval.*weight.get)();
  }
  if (retrieval.has_expansion()) settings.expansion = retrieval.expansion();
  if (retrieval.has_dates()) settings.dates = retrieval.dates();
  if (retrieval.has_language()) settings.language = retrieval.language();
  const FieldPath path("config.retrieval");
  // "" is a value of both: none.
  for (const auto& [field, is_set, name, setting] :
       {std::tuple("embedder", retrieval.has_embedder(), &retrieval.embedder(), &settings.embedder),
        std::tuple("embedder_worker", retrieval.has_embedder_worker(), &retrieval.embedder_worker(),
                   &settings.embedder_worker)}) {
    if (!is_set) continue;
    if (!name->empty()) {
      MEMORYD_RETURN_IF_ERROR(CheckId(path.Field(field), *name, kMaxIdBytes));
    }
    *setting = *name;
  }
  return settings;
}

v1::Retrieval ToProto(const RankingOptions& ranking) {
  v1::Retrieval retrieval;
  for (const Weight& weight : kWeights) (retrieval.*weight.set)(ranking.*weight.option);
  if (ranking.expansion.has_value()) retrieval.set_expansion(*ranking.expansion);
  retrieval.set_dates(ranking.dates);
  retrieval.set_embedder(ranking.embedder);
  retrieval.set_embedder_worker(ranking.embedder_worker);
  retrieval.set_language(ranking.language);
  return retrieval;
}

RetentionSettings FromRetention(const v1::Retention& retention) {
  RetentionSettings settings;
  if (retention.has_session_ttl()) settings.session_ttl_us = ToMicros(retention.session_ttl());
  if (retention.has_refresh_on_read()) settings.refresh_on_read = retention.refresh_on_read();
  if (retention.has_keep_messages()) settings.keep_messages = retention.keep_messages();
  if (retention.has_message_ttl()) settings.message_ttl_us = ToMicros(retention.message_ttl());
  if (retention.has_keep_bytes()) settings.keep_bytes = retention.keep_bytes();
  return settings;
}

v1::Retention ToProto(const Retention& retention) {
  v1::Retention proto;
  if (retention.session_ttl_us > 0) {
    SetDuration(*proto.mutable_session_ttl(), retention.session_ttl_us);
  }
  if (retention.refresh_on_read) proto.set_refresh_on_read(true);
  if (retention.keep_messages > 0) proto.set_keep_messages(retention.keep_messages);
  if (retention.message_ttl_us > 0) {
    SetDuration(*proto.mutable_message_ttl(), retention.message_ttl_us);
  }
  if (retention.keep_bytes > 0) proto.set_keep_bytes(retention.keep_bytes);
  return proto;
}

absl::Status TakeRules(const v1::SessionConfig& config, SessionSettings& settings) {
  if (!config.profile().empty()) {
    settings.profile = ParseProfile(config.profile());
    if (!settings.profile.has_value()) {
      return InvalidField("config.profile", "must be default, llama-index or autogen-list");
    }
  }
  if (!config.policy().empty()) {
    settings.policy = ParsePolicy(config.policy());
    if (!settings.policy.has_value()) {
      return InvalidField("config.policy", "must be fifo or buffer");
    }
  }
  return absl::OkStatus();
}

void TakeCounting(const v1::SessionConfig& config, SessionSettings& settings) {
  if (!config.tokenizer().empty()) settings.tokenizer = config.tokenizer();
  if (config.has_token_limit()) settings.token_limit = config.token_limit();
  if (config.has_token_flush_size()) settings.token_flush_size = config.token_flush_size();
  if (config.has_chat_history_token_ratio()) {
    settings.chat_history_token_ratio = config.chat_history_token_ratio();
  }
  if (config.has_image_token_count()) settings.image_token_count = config.image_token_count();
  if (config.has_audio_token_count()) settings.audio_token_count = config.audio_token_count();
  if (config.has_video_token_count()) settings.video_token_count = config.video_token_count();
  if (config.has_document_token_count()) {
    settings.document_token_count = config.document_token_count();
  }
}

absl::Status TakeMethods(const v1::SessionConfig& config, SessionSettings& settings) {
  switch (config.insert_method()) {
    case v1::INSERT_METHOD_UNSPECIFIED:
      break;
    case v1::INSERT_METHOD_SYSTEM:
      settings.insert_method = InsertMethod::kSystem;
      break;
    case v1::INSERT_METHOD_USER:
      settings.insert_method = InsertMethod::kUser;
      break;
    default:
      return InvalidField("config.insert_method", "is not a known value");
  }
  switch (config.feed()) {
    case v1::FEED_UNSPECIFIED:
      break;
    case v1::FEED_AFTER_COMMIT:
      settings.feed = FeedTime::kAfterCommit;
      break;
    case v1::FEED_BEFORE_REPLY:
      settings.feed = FeedTime::kBeforeReply;
      break;
    default:
      return InvalidField("config.feed", "is not a known value");
  }
  return absl::OkStatus();
}

absl::Status TakeBlocks(const v1::SessionConfig& config, SessionSettings& settings) {
  if (static_cast<std::size_t>(config.blocks_size()) > kMaxBlocks) {
    return InvalidField("config.blocks", "at most 32 blocks");
  }
  if (config.blocks_size() > 0) settings.blocks.emplace();
  for (int i = 0; i < config.blocks_size(); ++i) {
    MEMORYD_ASSIGN_OR_RETURN(BlockSettings block,
                             FromBlock(FieldPath("config.blocks", i), config.blocks(i)));
    settings.blocks->push_back(std::move(block));
  }
  return absl::OkStatus();
}

absl::Status TakeUserRoles(const v1::SessionConfig& config, SessionSettings& settings) {
  if (config.user_roles_size() > kMaxUserRoles) {
    return InvalidField("config.user_roles", fmt::format("at most {} roles", kMaxUserRoles));
  }
  if (config.user_roles_size() > 0) settings.user_roles.emplace();
  for (int i = 0; i < config.user_roles_size(); ++i) {
    MEMORYD_RETURN_IF_ERROR(
        CheckId(FieldPath("config.user_roles", i), config.user_roles(i), kMaxRoleBytes));
    settings.user_roles->push_back(config.user_roles(i));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SessionSettings> FromProto(const v1::SessionConfig& config) {
  SessionSettings settings;
  MEMORYD_RETURN_IF_ERROR(TakeRules(config, settings));
  TakeCounting(config, settings);
  MEMORYD_RETURN_IF_ERROR(TakeMethods(config, settings));
  MEMORYD_RETURN_IF_ERROR(TakeBlocks(config, settings));
  MEMORYD_ASSIGN_OR_RETURN(settings.ranking, FromRetrieval(config.retrieval()));
  settings.retention = FromRetention(config.retention());
  if (config.has_subject()) {
    settings.subject = config.subject();
    if (!config.subject().empty()) {
      MEMORYD_RETURN_IF_ERROR(CheckId("config.subject", config.subject(), kMaxSubjectBytes));
    }
  }
  if (config.has_time_zone()) {
    settings.time_zone =
        config.time_zone().empty() ? std::string(kDefaultTimeZone) : config.time_zone();
    MEMORYD_RETURN_IF_ERROR(CheckTimeZone(settings));
  }
  if (config.has_cut_highest_first()) settings.cut_highest_first = config.cut_highest_first();
  MEMORYD_RETURN_IF_ERROR(TakeUserRoles(config, settings));
  return settings;
}

absl::StatusOr<SessionSettings> FromConfigBesideTemplate(const v1::SessionConfig& config) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  config.GetReflection()->ListFields(config, &fields);
  for (const google::protobuf::FieldDescriptor* field : fields) {
    if (field->number() == v1::SessionConfig::kSubjectFieldNumber ||
        field->number() == v1::SessionConfig::kTimeZoneFieldNumber) {
      continue;
    }
    return InvalidField("template",
                        fmt::format("says how the session remembers, and so does config.{}; give "
                                    "one of them: beside a template config may have subject and "
                                    "time_zone alone",
                                    std::string(field->name())));
  }
  return FromProto(config);
}

v1::Block ToProto(const BlockSettings& settings) {
  v1::Block block;
  block.set_name(settings.name);
  block.set_kind(settings.kind);
  block.set_priority(settings.priority);
  block.set_worker(settings.worker);
  block.set_options_json(settings.options_json);
  for (const std::string& part : settings.content) block.add_content()->ParseFromString(part);
  return block;
}

v1::SessionConfig ToProto(const SessionConfig& config) {
  v1::SessionConfig proto;
  proto.set_profile(std::string(ProfileName(config.counting.profile)));
  proto.set_token_limit(config.token_limit);
  proto.set_token_flush_size(config.token_flush_size);
  proto.set_chat_history_token_ratio(config.chat_history_token_ratio);
  proto.set_insert_method(config.insert_method == InsertMethod::kUser ? v1::INSERT_METHOD_USER
                                                                      : v1::INSERT_METHOD_SYSTEM);
  proto.set_tokenizer(config.counting.tokenizer);
  proto.set_policy(std::string(PolicyName(config.policy)));
  proto.set_feed(config.feed == FeedTime::kBeforeReply ? v1::FEED_BEFORE_REPLY
                                                       : v1::FEED_AFTER_COMMIT);
  proto.set_image_token_count(config.counting.image_token_count);
  proto.set_audio_token_count(config.counting.audio_token_count);
  proto.set_video_token_count(config.counting.video_token_count);
  proto.set_document_token_count(config.counting.document_token_count);
  for (const BlockSettings& settings : config.blocks) *proto.add_blocks() = ToProto(settings);
  *proto.mutable_retrieval() = ToProto(config.ranking);
  if (!config.subject.empty()) proto.set_subject(config.subject);
  proto.set_time_zone(config.time_zone);
  for (const std::string& role : config.user_roles) proto.add_user_roles(role);
  proto.set_cut_highest_first(config.cut_highest_first);
  if (config.retention != Retention()) *proto.mutable_retention() = ToProto(config.retention);
  return proto;
}

}  // namespace memoryd
