// The column checksum of a message row, the same in every store.
#ifndef MEMORYD_CORE_STORAGE_CHECKSUM_H_
#define MEMORYD_CORE_STORAGE_CHECKSUM_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "core/model/message.h"

namespace memoryd {

// Reason of a row that is not what was written.
inline constexpr std::string_view kChecksumMismatch = "CHECKSUM_MISMATCH";

// CRC-32 of all that is stored of a message; `tool_ids` is that column of it. Never 0.
std::int64_t ChecksumOf(const Message& message, std::string_view tool_ids);

// DATA_LOSS `CHECKSUM_MISMATCH`. `stored` is 0 for a row of a version that had none, which is taken
// as it is.
absl::Status CheckChecksum(const Message& message, std::string_view tool_ids, std::int64_t stored);

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_CHECKSUM_H_
