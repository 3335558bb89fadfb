// Columns of the tables of items, the same in every store.
#ifndef MEMORYD_CORE_STORAGE_ITEM_ROWS_H_
#define MEMORYD_CORE_STORAGE_ITEM_ROWS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "core/items/item.h"
#include "core/items/namespace_path.h"
#include "core/storage/item_store.h"

namespace memoryd {

// CRC-32 of an item's key and content, but for its vector, which few reads ask for. Never 0.
std::int64_t ItemChecksum(std::string_view key, const ItemContent& content);

// DATA_LOSS `CHECKSUM_MISMATCH`, see checksum.h.
absl::Status CheckItemChecksum(std::string_view key, const ItemContent& content,
                               std::int64_t stored);

// Numbers of a vector, each with its low byte first.
std::string EncodeVector(std::span<const float> vector);
// False when `bytes` are not of that form.
bool DecodeVector(std::string_view bytes, std::vector<float>& vector);

// Results that are kept under a request_id, each as five decimal numbers, of which the first is its
// index, with commas between results. What deleted nothing may be left out. PostgreSQL's statement
// makes the same text.
std::string EncodeItemResults(std::span<const ItemWriteResult> results);
// Results up to the last that `text` has; what is left out is one that deleted nothing. False when
// `text` is not of that form.
bool DecodeItemResults(std::string_view text, std::vector<ItemWriteResult>& results);

// Random and not 0.
std::uint64_t NewNamespaceGeneration();

// The version that a namespace begins with when it is made at `now_us`.
inline std::int64_t FirstNamespaceVersion(std::int64_t now_us) { return now_us > 0 ? now_us : 1; }

// What is kept of a deleted namespace stands among the records of its request_ids, under this one,
// which no request has: as results its version, as fingerprint kErasedMark if it was erased, and as
// time that of the deletion. It stands at NamespaceDigest(), so no name stays, and is purged as
// they are.
inline constexpr std::string_view kDeletionId;
inline constexpr std::string_view kErasedMark = "e";

// What is staged for a namespace (ItemStore::StageNamespace) stands there, too, under StagingId(),
// which no request has. Its time is in seconds, so that it stands before all others in the index of
// times.
inline constexpr char kStagingMark = '\x01';
std::string StagingId(std::uint64_t generation);
inline constexpr std::int64_t kStagedUs = std::int64_t{3600} * 1'000'000;
inline std::int64_t StagingTime(std::int64_t time_us) { return time_us / 1'000'000; }

// A version that is not above this one can't come again: the clock of no server that shares the
// store is as far behind, and no call waits as long.
inline std::int64_t DeletionKeptAbove(std::int64_t now_us) {
  return now_us - std::int64_t{3600} * 1'000'000;
}

// When an item with this ttl, written now, expires; 0: never.
inline std::int64_t ExpireTime(std::int64_t now_us, std::int64_t ttl_us) {
  return ttl_us == 0 ? 0 : now_us + ttl_us;
}

// 16 bytes of the path's SHA-256, by which PostgreSQL finds a namespace: a path may be longer than
// what an index of its can hold.
std::string NamespaceDigest(const NamespacePath& path);

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_ITEM_ROWS_H_
