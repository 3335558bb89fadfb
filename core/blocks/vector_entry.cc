#include "core/blocks/vector_entry.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace memoryd {
namespace {

constexpr char kVersion = 1;

void AppendVarint(std::uint64_t value, std::string& out) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>((value & 0x7F) | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

void AppendText(std::string_view text, std::string& out) {
  AppendVarint(text.size(), out);
  out += text;
}

// Each method is false when the bytes are at their end or are not what was written.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  bool Byte(char& value) {
    if (bytes_.empty()) return false;
    value = bytes_.front();
    bytes_.remove_prefix(1);
    return true;
  }

  // Only the shortest form.
  bool Varint(std::uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      char c = 0;
      if (!Byte(c)) return false;
      const auto byte = static_cast<unsigned char>(c);
      const std::uint64_t digit = byte & 0x7FU;
      if (shift == 63 && digit > 1) return false;
      value |= digit << shift;
      if ((byte & 0x80) == 0) return byte != 0 || shift == 0;
    }
    return false;
  }

  // A count of things that take at least `bytes_each`.
  bool Count(std::size_t bytes_each, std::size_t& count) {
    std::uint64_t value = 0;
    if (!Varint(value) || value > bytes_.size() / bytes_each) return false;
    count = static_cast<std::size_t>(value);
    return true;
  }

  bool Text(std::string& text) {
    std::size_t size = 0;
    if (!Count(1, size)) return false;
    text = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return true;
  }

  bool Float(float& value) {
    std::uint32_t bits = 0;
    for (unsigned shift = 0; shift < 32; shift += 8) {
      char c = 0;
      if (!Byte(c)) return false;
      bits |= static_cast<std::uint32_t>(static_cast<unsigned char>(c)) << shift;
    }
    value = std::bit_cast<float>(bits);
    return std::isfinite(value);
  }

  bool AtEnd() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

bool Decode(std::string_view bytes, VectorEntry& entry) {
  Reader reader(bytes);
  char version = 0;
  std::size_t count = 0;
  if (!reader.Byte(version) || version != kVersion || !reader.Count(sizeof(float), count)) {
    return false;
  }
  entry.vector.resize(count);
  for (float& number : entry.vector) {
    if (!reader.Float(number)) return false;
  }
  if (!reader.Text(entry.text) || !reader.Text(entry.metadata_json) || !reader.Count(2, count)) {
    return false;
  }
  entry.sources.resize(count);
  for (EntrySource& source : entry.sources) {
    std::uint64_t position = 0;
    if (!reader.Varint(position) || !reader.Text(source.message_id)) return false;
    if (position > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return false;
    }
    source.position = static_cast<std::int64_t>(position);
  }
  return reader.AtEnd();
}

}  // namespace

std::string EncodeVectorEntry(const VectorEntry& entry) {
  std::string bytes(1, kVersion);
  bytes.reserve(32 + 4 * entry.vector.size() + entry.text.size() + entry.metadata_json.size());
  AppendVarint(entry.vector.size(), bytes);
  for (const float number : entry.vector) {
    const auto bits = std::bit_cast<std::uint32_t>(number);
    for (unsigned shift = 0; shift < 32; shift += 8) {
      bytes.push_back(static_cast<char>((bits >> shift) & 0xFF));
    }
  }
  AppendText(entry.text, bytes);
  AppendText(entry.metadata_json, bytes);
  AppendVarint(entry.sources.size(), bytes);
  for (const EntrySource& source : entry.sources) {
    AppendVarint(static_cast<std::uint64_t>(source.position), bytes);
    AppendText(source.message_id, bytes);
  }
  return bytes;
}

absl::StatusOr<VectorEntry> DecodeVectorEntry(std::string_view bytes) {
  VectorEntry entry;
  if (!Decode(bytes, entry)) return absl::DataLossError("a stored entry can't be read back");
  return entry;
}

}  // namespace memoryd
