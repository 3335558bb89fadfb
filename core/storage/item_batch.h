// Writes to a namespace, and what becomes of them.
#ifndef MEMORYD_CORE_STORAGE_ITEM_BATCH_H_
#define MEMORYD_CORE_STORAGE_ITEM_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/items/item.h"
#include "core/items/namespace_path.h"

namespace memoryd {

// An item to store, or a key whose item is deleted.
struct ItemWrite {
  std::string key;
  // Absent: the item is deleted.
  std::optional<ItemContent> content = {};
  // The version that the item must be at. 0: it must not exist, or have expired.
  std::optional<std::int64_t> expected_version = {};
  // 0: none. Absent: the namespace's.
  std::optional<std::int64_t> ttl_us = {};
};

// Writes to one namespace, stored whole or not at all.
struct ItemBatch {
  NamespaceKey key;
  // The one that the namespace must have, and that it gets when it is made for the batch. Empty:
  // any, and none.
  std::string subject = {};
  // At least one; keys differ.
  std::vector<ItemWrite> writes = {};
  // Under which the results are kept; empty: they are not. It belongs to the namespace's path, and
  // outlives the namespace.
  std::string request_id = {};
  std::string fingerprint = {};  // SHA-256 of the request, 32 bytes; with a request_id.
  // When its call began. The batch makes no namespace that was erased since.
  std::int64_t begun_us = std::numeric_limits<std::int64_t>::max();
};

// What became of one write.
struct ItemWriteResult {
  std::int64_t version = 0;    // 0: it was deleted.
  std::int64_t create_us = 0;  // Of the item; 0 where a deletion found none.
  std::int64_t expire_us = 0;  // 0: never.
  bool existed = false;        // There was an item that had not expired.

  friend bool operator==(const ItemWriteResult&, const ItemWriteResult&) = default;
};

enum class ItemBatchOutcome {
  kWritten,         // Durable.
  kVersionLost,     // Not stored: `lost` is not at its expected version.
  kVectorSize,      // Not stored: the vector of `lost` has not the size of the namespace's.
  kRequestIdTaken,  // Not stored: results are kept under the request_id.
  kOtherSubject,    // Not stored: the namespace is not of the batch's subject.
  kErased,          // Not stored: the namespace was erased after the batch's call began.
  kFailed,          // Not stored, for the reason in `status`.
  kUnknown,         // May or may not be stored: the connection broke and could not be settled.
};

struct ItemBatchResult {
  ItemBatchOutcome outcome = ItemBatchOutcome::kFailed;
  absl::Status status = {};                  // OK unless kFailed or kUnknown.
  std::vector<ItemWriteResult> writes = {};  // In order; kWritten only.
  bool made_namespace = false;               // There was none before; kWritten only.
  std::size_t lost = 0;                      // Index of a write.
  // kVersionLost: the version that the item is at, 0 for none. kVectorSize: the namespace's size.
  std::int64_t stored = 0;
};

// The results that are kept under a request_id.
struct ItemRequestRecord {
  std::string fingerprint;
  std::vector<ItemWriteResult> writes;
  std::int64_t create_us = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_ITEM_BATCH_H_
