// What the core gives of items -> messages of the wire.
#ifndef MEMORYD_SERVER_RPC_ITEM_REPLY_H_
#define MEMORYD_SERVER_RPC_ITEM_REPLY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/reads/item_reads.h"
#include "core/writes/items/item_call.h"
#include "memoryd/v1/item_service.pb.h"
#include "server/wire/convert_item.h"

namespace memoryd {

// Moves the item's texts into `proto`.
void Fill(const NamespacePath& path, Item item, v1::Item& proto);
void Fill(const ItemWriteResult& result, std::int64_t update_us, v1::ItemWrite& proto);
// DATA_LOSS when the row's configuration can't be read.
absl::Status Fill(const NamespacePath& path, const NamespaceRow& row, v1::Namespace& proto);

// What became of a batch: `items` are those that it read, from `first` on.
void Fill(const CheckedBatch& batch, const ItemsWritten& written,
          std::vector<std::optional<Item>>& items, std::size_t first,
          v1::ItemBatchOutcome& outcome);
// `is_get`, by operation: an error that names a write is told of its operation.
void Fill(const absl::Status& status, const std::vector<bool>& is_get, v1::ItemError& error);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_ITEM_REPLY_H_
