#include "core/blocks/turn_entries.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/blocks/block.h"
#include "core/blocks/block_text.h"
#include "core/blocks/model_answer.h"
#include "core/blocks/vector_entry.h"
#include "core/model/body_reader.h"

namespace memoryd {
namespace {

using nlohmann::json;

// The most that the text of an entry has, and its metadata.
constexpr std::size_t kEntryBytes = 2000;
constexpr std::size_t kMetadataBytes = 4096;

EntrySource SourceOf(const BlockMessage& message) {
  return {message.row == nullptr ? 0 : message.row->position, message.id};
}

// A message's own metadata over what came before; scalars only, since those can be asked for.
void MergeMetadata(const StoredMessage& message, json& metadata) {
  if (message.metadata_json.empty()) return;
  const json own = json::parse(message.metadata_json, nullptr, false);
  if (!own.is_object()) return;
  for (const auto& [name, value] : own.items()) {
    if (value.is_primitive()) metadata[name] = value;
  }
}

std::string MetadataText(const json& metadata) {
  if (metadata.empty()) return {};
  std::string text = metadata.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() <= kMetadataBytes ? text : std::string();
}

// Cuts turns into texts of at most kEntryBytes.
class TurnCutter {
 public:
  void Add(const BlockMessage& message) {
    if (message.parts.role == "user") End();
    const std::string words = SpokenWords(message.parts);
    std::string_view rest = PythonStrip(words);
    if (rest.empty()) return;
    const std::string speaker =
        message.parts.name.empty()
            ? fmt::format("{}: ", message.parts.role)
            : fmt::format("{} ({}): ", message.parts.role, message.parts.name);
    while (!rest.empty()) {
      const std::size_t room = kEntryBytes - std::min(kEntryBytes / 2, speaker.size());
      const std::string_view piece = Piece(rest, room);
      rest.remove_prefix(piece.size());
      if (!draft_.text.empty() &&
          draft_.text.size() + speaker.size() + piece.size() + 1 > kEntryBytes) {
        End();
      }
      if (!draft_.text.empty()) draft_.text += '\n';
      draft_.text += speaker;
      draft_.text += PythonStrip(piece);
      draft_.Add(message);
      MergeMetadata(message.parts, metadata_);
      rest = PythonStrip(rest);
    }
  }

  std::vector<EntryDraft> Take() && {
    End();
    return std::move(drafts_);
  }

 private:
  // At most `max_bytes` from the beginning, up to white space if there is some in its second half.
  static std::string_view Piece(std::string_view text, std::size_t max_bytes) {
    if (text.size() <= max_bytes) return text;
    const std::string_view head = Head(text, max_bytes);
    const std::size_t space = head.find_last_of(" \n\t");
    return space == std::string_view::npos || space < head.size() / 2 ? head
                                                                      : head.substr(0, space);
  }

  void End() {
    if (!draft_.text.empty()) {
      draft_.metadata_json = MetadataText(metadata_);
      drafts_.push_back(std::move(draft_));
    }
    draft_ = EntryDraft();
    metadata_ = json::object();
  }

  EntryDraft draft_;
  json metadata_ = json::object();
  std::vector<EntryDraft> drafts_;
};

}  // namespace

void EntryDraft::Add(const BlockMessage& message) {
  EntrySource source = SourceOf(message);
  if (!sources.empty() && sources.back() == source) return;
  sources.push_back(std::move(source));
  if (message.row == nullptr) return;
  ingest_us = std::max(ingest_us, message.row->ingest_us);
  const std::int64_t over_us = message.row->ids->expire_us;
  if (over_us > 0) expire_us = expire_us == 0 ? over_us : std::min(expire_us, over_us);
}

std::vector<EntryDraft> EntriesOfTurns(std::span<const BlockMessage> messages) {
  TurnCutter cutter;
  for (const BlockMessage& message : messages) cutter.Add(message);
  return std::move(cutter).Take();
}

}  // namespace memoryd
