// An entry of a block that finds by meaning, and its stored form.
#ifndef MEMORYD_CORE_BLOCKS_VECTOR_ENTRY_H_
#define MEMORYD_CORE_BLOCKS_VECTOR_ENTRY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace memoryd {

// A message that an entry was made of.
struct EntrySource {
  std::int64_t position = 0;
  std::string message_id;

  friend bool operator==(const EntrySource&, const EntrySource&) = default;
};

struct VectorEntry {
  std::vector<float> vector;
  std::string text;           // What was embedded, and is given back.
  std::string metadata_json;  // An object; empty for none.
  std::vector<EntrySource> sources;

  friend bool operator==(const VectorEntry&, const VectorEntry&) = default;
};

// A version byte, then the vector's size and numbers (IEEE 754, 4 bytes, low byte first), text,
// metadata and sources; sizes as base-128 varints.
std::string EncodeVectorEntry(const VectorEntry& entry);

// DATA_LOSS for what EncodeVectorEntry() did not write, and for a number that is not finite.
absl::StatusOr<VectorEntry> DecodeVectorEntry(std::string_view bytes);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_VECTOR_ENTRY_H_
