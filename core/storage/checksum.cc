#include "core/storage/checksum.h"

#include <zconf.h>
#include <zlib.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/model/message.h"

namespace memoryd {
namespace {

class Crc32 {
 public:
  void Add(std::string_view bytes) {
    // The size too, so that nothing moves from one column into the next unseen.
    Add(static_cast<std::int64_t>(bytes.size()));
    Append(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  }
  // Low byte first on every machine.
  void Add(std::int64_t number) {
    std::array<unsigned char, 8> bytes;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<unsigned char>(static_cast<std::uint64_t>(number) >> (8 * i));
    }
    Append(bytes.data(), bytes.size());
  }

  std::int64_t value() const { return static_cast<std::int64_t>(value_); }

 private:
  void Append(const unsigned char* bytes, std::size_t size) {
    if (size > 0) value_ = crc32_z(value_, bytes, size);
  }

  uLong value_ = 0;
};

}  // namespace

std::int64_t ChecksumOf(const Message& message, std::string_view tool_ids) {
  Crc32 crc;
  crc.Add(message.position);
  crc.Add(static_cast<std::int64_t>(message.role));
  crc.Add(message.token_count);
  crc.Add(message.ingest_us);
  crc.Add(message.ids->message_id);
  crc.Add(tool_ids);
  crc.Add(message.body);
  return crc.value() == 0 ? 1 : crc.value();
}

absl::Status CheckChecksum(const Message& message, std::string_view tool_ids, std::int64_t stored) {
  if (stored == 0 || stored == ChecksumOf(message, tool_ids)) return absl::OkStatus();
  return Error(absl::StatusCode::kDataLoss, kChecksumMismatch,
               "a stored message is not what was written: restore it from a backup");
}

}  // namespace memoryd
