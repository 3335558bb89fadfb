#include "core/storage/item_rows.h"

#include <fmt/format.h>
#include <zconf.h>
#include <zlib.h>

#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/random/random.h"
#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/base/sha256.h"
#include "core/items/item.h"
#include "core/items/namespace_path.h"
#include "core/storage/checksum.h"
#include "core/storage/item_batch.h"

namespace memoryd {
namespace {

constexpr std::size_t kFloatBytes = 4;
constexpr std::size_t kDigestBytes = 16;
// Far more than a batch has: a damaged index must not take all memory.
constexpr std::int64_t kMaxResults = 1'000'000;

void AppendFloat(std::string& bytes, float number) {
  const auto bits = std::bit_cast<std::uint32_t>(number);
  for (std::size_t i = 0; i < kFloatBytes; ++i) bytes += static_cast<char>(bits >> (8 * i));
}

class Crc32 {
 public:
  // The size too, so that nothing moves from one column into the next unseen.
  void Add(std::string_view bytes) {
    const auto size = static_cast<std::uint64_t>(bytes.size());
    std::array<unsigned char, sizeof(size)> head;
    for (std::size_t i = 0; i < head.size(); ++i) {
      head[i] = static_cast<unsigned char>(size >> (8 * i));
    }
    value_ = crc32_z(value_, head.data(), head.size());
    if (bytes.empty()) return;
    value_ = crc32_z(value_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  }

  std::int64_t value() const { return value_ == 0 ? 1 : static_cast<std::int64_t>(value_); }

 private:
  uLong value_ = 0;
};

// Reads a number and the character behind it, which is `end` or the text's end.
bool TakeNumber(std::string_view& text, char end, std::int64_t& number) {
  const auto [behind, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(behind - text.data()));
  if (text.empty()) return end == ',';
  if (text.front() != end) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::int64_t ItemChecksum(std::string_view key, const ItemContent& content) {
  Crc32 crc;
  crc.Add(key);
  crc.Add(content.kind == ItemValueKind::kJson ? "json" : "bytes");
  crc.Add(content.untrusted ? "untrusted" : "");
  crc.Add(content.mime_type);
  crc.Add(content.writer);
  crc.Add(content.search.has_value() ? *content.search : std::string());
  crc.Add(content.value);
  return crc.value();
}

absl::Status CheckItemChecksum(std::string_view key, const ItemContent& content,
                               std::int64_t stored) {
  if (stored == ItemChecksum(key, content)) return absl::OkStatus();
  return Error(absl::StatusCode::kDataLoss, kChecksumMismatch,
               "a stored item is not what was written: restore it from a backup");
}

std::string EncodeVector(std::span<const float> vector) {
  std::string bytes;
  bytes.reserve(vector.size() * kFloatBytes);
  for (const float number : vector) AppendFloat(bytes, number);
  return bytes;
}

bool DecodeVector(std::string_view bytes, std::vector<float>& vector) {
  if (bytes.size() % kFloatBytes != 0) return false;
  vector.clear();
  vector.reserve(bytes.size() / kFloatBytes);
  for (; !bytes.empty(); bytes.remove_prefix(kFloatBytes)) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < kFloatBytes; ++i) {
      bits |= std::uint32_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    }
    vector.push_back(std::bit_cast<float>(bits));
  }
  return true;
}

std::string EncodeItemResults(std::span<const ItemWriteResult> results) {
  std::string text;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ItemWriteResult& result = results[i];
    if (i > 0) text += ',';
    text += fmt::format("{} {} {} {} {}", i, result.version, result.create_us, result.expire_us,
                        result.existed ? 1 : 0);
  }
  return text;
}

bool DecodeItemResults(std::string_view text, std::vector<ItemWriteResult>& results) {
  results.clear();
  while (!text.empty()) {
    std::int64_t index = 0, existed = 0;
    if (!TakeNumber(text, ' ', index) || index < 0 || index >= kMaxResults) return false;
    if (index >= std::ssize(results)) results.resize(static_cast<std::size_t>(index) + 1);
    ItemWriteResult& result = results[static_cast<std::size_t>(index)];
    if (!TakeNumber(text, ' ', result.version) || !TakeNumber(text, ' ', result.create_us) ||
        !TakeNumber(text, ' ', result.expire_us) || !TakeNumber(text, ',', existed)) {
      return false;
    }
    result.existed = existed != 0;
  }
  return true;
}

std::uint64_t NewNamespaceGeneration() {
  thread_local absl::BitGen generator;
  return absl::Uniform<std::uint64_t>(absl::IntervalClosed, generator, 1,
                                      std::numeric_limits<std::uint64_t>::max());
}

std::string NamespaceDigest(const NamespacePath& path) {
  const Sha256Digest digest = Sha256(path.stored());
  return {reinterpret_cast<const char*>(digest.data()), kDigestBytes};
}

std::string StagingId(std::uint64_t generation) {
  return kStagingMark + std::to_string(std::bit_cast<std::int64_t>(generation));
}

}  // namespace memoryd
