// Calls that change whole namespaces: their configuration, copies, deletion.
#ifndef MEMORYD_CORE_LIFECYCLE_NAMESPACE_CALLS_H_
#define MEMORYD_CORE_LIFECYCLE_NAMESPACE_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "core/base/wall_clock.h"
#include "core/calls/calls.h"
#include "core/items/namespace_config.h"
#include "core/items/namespace_path.h"
#include "core/lifecycle/namespace_import.h"
#include "core/storage/item_store.h"
#include "core/writes/items/item_write_path.h"

namespace memoryd {

struct NamespaceCounts {
  std::int64_t namespaces = 0;
  std::int64_t items = 0;
};

struct NamespaceCopyRequest {
  std::string tenant;
  NamespacePath source;
  NamespacePath target;  // Neither the source nor below it.
  bool recursive = false;
  // Of the credential, see ItemView. The copies get it.
  std::string subject = {};
};

// A caller of one subject changes the namespaces of that: PERMISSION_DENIED `SUBJECT_NOT_GRANTED`
// for others. Any thread may call; nothing waits. `done` runs exactly once.
class NamespaceCalls {
 public:
  // What is pointed to outlives it.
  struct Options {
    ItemStore* store = nullptr;
    MemoryBudget* memory = nullptr;
    Calls* calls = nullptr;
    ItemWritePath* writes = nullptr;
    const WallClock* clock = nullptr;
  };
  template <typename T>
  using Done = std::function<void(absl::StatusOr<T>)>;

  explicit NamespaceCalls(const Options& options) : options_(options) {}

  // Writes a batch to a namespace that is to have these settings, and the batch's subject, if any:
  // they are stored first where there is none, and stay if the batch then fails.
  // FAILED_PRECONDITION `CONFIG_MISMATCH` where there is one that differs; RESOURCE_EXHAUSTED
  // `QUOTA_EXCEEDED` also for the settings; else as ItemWritePath.
  void Write(ItemBatch batch, NamespaceSettings settings, std::size_t byte_size, CallEnd end,
             ItemCall::Done done);
  // See ItemWritePath::Gather.
  ItemCommitter::Gathering Gather(const std::string& tenant) {
    return options_.writes->Gather(tenant);
  }
  // Makes the namespace or changes its configuration; absent fields stay.
  void Update(NamespaceKey key, NamespaceSettings settings, std::string subject, CallEnd end,
              Done<NamespaceRow> done);
  // Deletes it, and with `recursive` all that the caller sees below its path.
  void Delete(NamespaceKey key, bool recursive, std::string subject, CallEnd end,
              Done<NamespaceCounts> done);
  // ALREADY_EXISTS `NAMESPACE_EXISTS`, INVALID_ARGUMENT for a path that gets too long,
  // FAILED_PRECONDITION `NAMESPACE_TOO_LARGE`.
  void Copy(NamespaceCopyRequest request, CallEnd end, Done<NamespaceCounts> done);
  // An import that can be begun. All this outlives it.
  std::shared_ptr<NamespaceImport> Import(NamespaceImportRequest request);

 private:
  class NamespaceCopy;

  // Whether results are kept under the request_id, if there is one.
  absl::StatusOr<bool> IsKept(const NamespaceKey& key, const std::string& request_id);
  // Makes the namespace with these settings, unless it is there with them, or the batch that wants
  // them is a repeated one: that gets its reply, whatever has become of the namespace since.
  // `batch`: without its writes.
  absl::Status Ensure(const ItemBatch& batch, const NamespaceSettings& settings, PendingRead& call);
  // ItemStore::WriteNamespace over `row`, within the tenant's quota.
  absl::StatusOr<bool> WriteRow(const NamespaceKey& key, const NamespaceChange& change,
                                const std::optional<NamespaceRow>& row, PendingRead& call);
  // As Calls::Run, once it is known what the tenant has stored, if it has a quota.
  void RunWithQuota(const std::string& tenant, const std::shared_ptr<PendingRead>& read,
                    Executor::Task task);
  absl::StatusOr<NamespaceRow> UpdateNow(const NamespaceKey& key, NamespaceSettings settings,
                                         const std::string& subject, PendingRead& call);
  absl::StatusOr<NamespaceCounts> DeleteNow(const NamespaceKey& key, bool recursive,
                                            const std::string& subject, PendingRead& read);

  const Options options_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_LIFECYCLE_NAMESPACE_CALLS_H_
