// Makes, configures and deletes namespaces.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_NAMESPACE_WRITER_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_NAMESPACE_WRITER_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/storage/item_store.h"
#include "core/storage/postgres/batch_writer.h"
#include "core/storage/postgres/query_connection.h"

namespace memoryd {

// A namespace that some batches need.
struct NeededNamespace {
  NamespaceKey key;
  // When the youngest of their calls began.
  std::int64_t begun_us = 0;
  std::string subject = {};  // That it is made with.
};

// What became of a needed namespace.
struct MadeNamespace {
  bool made = false;           // By this call.
  std::int64_t erased_us = 0;  // When the one before it was erased; 0: it was not.
};

// Makes the namespaces that are not there, with the default configuration. One that was erased
// after `begun_us` is not made. Keys differ.
absl::StatusOr<std::vector<MadeNamespace>> MakeNamespaces(const CommitContext& context,
                                                          std::span<const NeededNamespace> needed,
                                                          std::int64_t now_us);

// Runs a statement that changes namespaces on a connection that tells whether it is durable.
absl::StatusOr<BatchReply> RunDurably(const CommitContext& context, const Query& query,
                                      const std::vector<std::string>& parameters);

// ItemStore::WriteNamespace and DeleteNamespace. UNAVAILABLE `OUTCOME_UNKNOWN` when the answer was
// lost, or a standby may lack the change.
absl::StatusOr<bool> WriteNamespaceRow(const CommitContext& context, const NamespaceKey& key,
                                       const NamespaceChange& change, std::int64_t now_us);
absl::StatusOr<DeletedNamespace> DeleteNamespaceRow(const CommitContext& context,
                                                    const NamespaceKey& key,
                                                    const NamespaceDeletion& deletion,
                                                    std::int64_t now_us);

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_NAMESPACE_WRITER_H_
