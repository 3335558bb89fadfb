// Entries of vector blocks before they are embedded.
#ifndef MEMORYD_CORE_BLOCKS_TURN_ENTRIES_H_
#define MEMORYD_CORE_BLOCKS_TURN_ENTRIES_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/blocks/block.h"
#include "core/blocks/vector_entry.h"

namespace memoryd {

// What is to be embedded and stored.
struct EntryDraft {
  std::string text;
  std::string metadata_json;
  std::vector<EntrySource> sources;
  std::int64_t ingest_us = 0;  // Of the latest of its messages.
  std::int64_t expire_us = 0;  // When the first of them expires; 0: none does.

  // Notes that the text holds some of this message.
  void Add(const BlockMessage& message);
};

// An entry for each turn, with the metadata of its messages: scalars only, since those can be asked
// for. A turn of more than 2,000 bytes is cut into pieces: small embedders read little more.
std::vector<EntryDraft> EntriesOfTurns(std::span<const BlockMessage> messages);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_TURN_ENTRIES_H_
