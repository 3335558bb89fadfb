// How a session remembers.
#ifndef MEMORYD_CORE_MODEL_SESSION_CONFIG_H_
#define MEMORYD_CORE_MODEL_SESSION_CONFIG_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/model/ranking_options.h"
#include "core/model/time_zone.h"

namespace memoryd {

class BlockTraits;

enum class Profile { kDefault, kLlamaIndex, kAutogenList };
enum class PolicyKind { kFifo, kBuffer };
enum class InsertMethod { kSystem, kUser };
enum class FeedTime { kAfterCommit, kBeforeReply };

// A block as the caller configured it, see memoryd.v1.Block.
struct BlockSettings {
  std::string name;
  std::string kind;
  std::int32_t priority = 0;
  std::string worker;
  std::string options_json;          // Empty: no options.
  std::vector<std::string> content;  // Serialized memoryd.v1.Part each.

  // What its kind makes of it, where somebody has read that: see core/blocks/block_traits.h. The
  // configuration of a session has it. It follows from the rest and the profile.
  std::shared_ptr<const BlockTraits> traits = nullptr;

  // Whether the caller's settings are the same.
  friend bool operator==(const BlockSettings& a, const BlockSettings& b) {
    return a.name == b.name && a.kind == b.kind && a.priority == b.priority &&
           a.worker == b.worker && a.options_json == b.options_json && a.content == b.content;
  }
};

// What a caller set of RankingOptions; absent fields take their defaults.
struct RankingSettings {
  std::optional<double> bm25_k1;
  std::optional<double> bm25_b;
  std::optional<double> vector_weight;
  std::optional<double> vector_threshold;
  std::optional<double> author_weight;
  std::optional<double> neighbour_weight;
  std::optional<double> neighbour_tokens;
  std::optional<double> answer_factor;
  std::optional<double> thread_weight;
  std::optional<double> length_weight;
  std::optional<double> length_tokens;
  std::optional<double> user_weight;
  std::optional<double> recency_weight;
  std::optional<bool> expansion;
  std::optional<bool> dates;
  std::optional<std::string> embedder;
  std::optional<std::string> embedder_worker;
  std::optional<double> embedder_weight;
  std::optional<std::string> language;

  friend bool operator==(const RankingSettings&, const RankingSettings&) = default;
};

// What a caller set of Retention; absent fields are 0.
struct RetentionSettings {
  std::optional<std::int64_t> session_ttl_us;
  std::optional<bool> refresh_on_read;
  std::optional<std::int64_t> keep_messages;
  std::optional<std::int64_t> message_ttl_us;
  std::optional<std::int64_t> keep_bytes = {};

  // This, and `defaults` where this has nothing.
  RetentionSettings Or(const RetentionSettings& defaults) const;

  friend bool operator==(const RetentionSettings&, const RetentionSettings&) = default;
};

// The longest of Retention's times.
inline constexpr std::int64_t kMaxTtlSeconds = std::int64_t{3650} * 24 * 3600;

// What goes by itself, see memoryd.v1.Retention. 0: nothing does.
struct Retention {
  std::int64_t session_ttl_us = 0;
  bool refresh_on_read = false;
  std::int64_t keep_messages = 0;
  std::int64_t message_ttl_us = 0;
  std::int64_t keep_bytes = 0;

  bool DropsMessages() const { return keep_messages > 0 || message_ttl_us > 0 || keep_bytes > 0; }
  // Every field as one that was set.
  RetentionSettings AsSettings() const {
    return {session_ttl_us, refresh_on_read, keep_messages, message_ttl_us, keep_bytes};
  }
  // When a session expires that was written or read at `now_us`; 0: never. Rounded up by up to a
  // sixteenth of its time, so that it changes seldom.
  std::int64_t ExpiryAt(std::int64_t now_us) const;
  // When the messages accepted at `ingest_us` are to be looked at; 0: never. Rounded so too.
  std::int64_t DropAt(std::int64_t ingest_us) const;

  friend bool operator==(const Retention&, const Retention&) = default;
};

// What a caller set; absent fields take the profile's default. This is what the store keeps, so
// that a default follows the setting it is derived from.
struct SessionSettings {
  std::optional<Profile> profile;
  std::optional<std::int64_t> token_limit;
  std::optional<std::int64_t> token_flush_size;
  std::optional<double> chat_history_token_ratio;
  std::optional<InsertMethod> insert_method;
  std::optional<std::string> tokenizer;
  std::optional<PolicyKind> policy;
  std::optional<FeedTime> feed;
  std::optional<std::int64_t> image_token_count;
  std::optional<std::int64_t> audio_token_count;
  std::optional<std::int64_t> video_token_count;
  std::optional<std::int64_t> document_token_count;
  std::optional<std::vector<BlockSettings>> blocks;
  std::optional<std::string> subject;
  std::optional<std::string> time_zone;
  std::optional<std::vector<std::string>> user_roles;
  std::optional<bool> cut_highest_first;
  RankingSettings ranking;
  RetentionSettings retention;
  // Of the template that these were taken from, when the session was made or by UpdateSession.
  std::optional<std::string> template_name = {};

  // `changes` over this.
  SessionSettings With(const SessionSettings& changes) const;

  // JSON with the set fields only.
  std::string ToJson() const;
  // DATA_LOSS when `json` is not what ToJson() wrote.
  static absl::StatusOr<SessionSettings> FromJson(std::string_view json);

  friend bool operator==(const SessionSettings&, const SessionSettings&) = default;
};

// Tokenizer and estimates: what a stored token count depends on.
struct CountingRules {
  Profile profile = Profile::kDefault;
  std::string tokenizer = "cl100k_base";  // `caller`: every message brings its count.
  std::int64_t image_token_count = 256;
  std::int64_t audio_token_count = 256;
  std::int64_t video_token_count = 256;
  std::int64_t document_token_count = 2048;

  friend bool operator==(const CountingRules&, const CountingRules&) = default;
};

// A configuration with every default filled in.
struct SessionConfig {
  CountingRules counting;
  std::int64_t token_limit = 30000;
  std::int64_t token_flush_size = 3000;
  double chat_history_token_ratio = 0.7;
  InsertMethod insert_method = InsertMethod::kSystem;
  PolicyKind policy = PolicyKind::kFifo;
  FeedTime feed = FeedTime::kAfterCommit;
  std::vector<BlockSettings> blocks;  // In the caller's order.
  std::string subject;                // Empty: none.
  std::string time_zone = std::string(kDefaultTimeZone);
  std::vector<std::string> user_roles;  // Beside those that ParseRole() knows.
  bool cut_highest_first = true;        // Of the blocks, when a Get is over the limit.
  RankingOptions ranking;
  Retention retention;
  std::string template_name;  // Empty: none. Where the rest is from; no right depends on it.

  // The zone of that name; UTC for one that this server does not know, which another one stored.
  const absl::TimeZone& zone() const { return ranking.zone; }

  // Whether an embedder is asked what the session's messages mean.
  bool EmbedsMessages() const {
    return !ranking.embedder.empty() && counting.profile != Profile::kAutogenList;
  }

  // Blocks are taken as they are: MakeBlocks() checks them, and SharedConfig() reads their traits.
  // INVALID_ARGUMENT that names the field of memoryd.v1.SessionConfig.
  static absl::StatusOr<SessionConfig> Resolve(const SessionSettings& settings);

  friend bool operator==(const SessionConfig&, const SessionConfig&) = default;
};

// INVALID_ARGUMENT that names `config.time_zone` for a zone that this server does not know.
absl::Status CheckTimeZone(const SessionSettings& settings);

// Every name there is, of profiles and of tokenizers.
std::vector<std::string_view> ProfileNames();
std::vector<std::string_view> TokenizerNames();

std::string_view ProfileName(Profile profile);
std::optional<Profile> ParseProfile(std::string_view name);
std::string_view PolicyName(PolicyKind policy);
std::optional<PolicyKind> ParsePolicy(std::string_view name);

}  // namespace memoryd

#endif  // MEMORYD_CORE_MODEL_SESSION_CONFIG_H_
