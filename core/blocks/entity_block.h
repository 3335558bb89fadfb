// A block that keeps a line about each person, place or thing that is talked about.
#ifndef MEMORYD_CORE_BLOCKS_ENTITY_BLOCK_H_
#define MEMORYD_CORE_BLOCKS_ENTITY_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/blocks/block_traits.h"

namespace memoryd {

// Options: `model`, `max_entities` (50), `top_k` (10), `retrieval_context_window` (5), `prompt`
// with {existing_entities}, {messages} or {dated_messages}, {today} and {time_zone},
// `accept_short_term_memory` (true), `template`.
//
// A model names the entities of the messages and writes the line of each anew, of the old line and
// of what it read. A Get is told of those whose name stands in the last messages, the ones seen
// last first.
std::shared_ptr<const BlockTraits> ReadEntityTraits(const BlockSettings& settings,
                                                    const std::string& field, Profile profile);

struct Entity {
  std::string name;
  std::string line;
  std::vector<std::string> evidence;  // Ids of messages, the oldest first; the latest few.
  std::int64_t first_us = 0;          // By the server's clock.
  std::int64_t last_us = 0;

  friend bool operator==(const Entity&, const Entity&) = default;
};

// A line that was written anew, or an entity that there was no more room for.
struct PastEntity {
  Entity entity;
  std::int64_t time_us = 0;
  std::string job_id;

  friend bool operator==(const PastEntity&, const PastEntity&) = default;
};

struct EntityState {
  std::vector<Entity> entities;     // The one seen longest ago first.
  std::vector<PastEntity> history;  // The latest last; at most kMaxPastEntities.

  friend bool operator==(const EntityState&, const EntityState&) = default;

  // At most kMaxBlockState bytes: the oldest history is left out.
  std::string ToJson() const;
  // DATA_LOSS for what ToJson() did not write. "" is the empty state.
  static absl::StatusOr<EntityState> FromJson(std::string_view json);
};

inline constexpr std::size_t kMaxPastEntities = 100;
inline constexpr std::size_t kMaxEntityName = 100;
inline constexpr std::size_t kMaxEntityLine = 500;

struct AnsweredEntity {
  std::string name;
  std::string line;
  std::vector<std::int64_t> evidence;  // Numbers of messages.

  friend bool operator==(const AnsweredEntity&, const AnsweredEntity&) = default;
};

struct EntityAnswer {
  std::vector<AnsweredEntity> entities;
  bool understood = false;  // As in FactAnswer.
};

// Reads `<entity name="NAME" evidence="1,2">LINE</entity>`, a JSON array of objects with a name and
// a line, a JSON object of lines by name, lines of `NAME: LINE`, and "none".
EntityAnswer ReadEntityAnswer(std::string_view answer);

// Whether `text` has the name in it, as words, in any case of (ASCII) letters.
bool Mentions(std::string_view text, std::string_view name);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_ENTITY_BLOCK_H_
