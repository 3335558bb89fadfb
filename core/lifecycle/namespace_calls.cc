#include "core/lifecycle/namespace_calls.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/reads/item_reads.h"

namespace memoryd {
namespace {

constexpr std::int64_t kListedAtOnce = 1000;
// What is copied at once, and so whole.
constexpr std::int64_t kMaxItemsCopied = 50'000;
constexpr std::int64_t kMaxBytesCopied = std::int64_t{32} << 20;
constexpr std::int64_t kItemsReadAtOnce = 1000;
// How often a configuration is decided again that another call has changed meanwhile.
constexpr int kTries = 10;

NamespaceChange ChangeTo(const NamespaceConfig& config, std::int64_t expected_version) {
  return {expected_version, config.ttl_us, config.subject, config.Encode()};
}

absl::Status ConfigMismatch(std::string_view field) {
  const std::string name = "config." + std::string(field);
  return Error(absl::StatusCode::kFailedPrecondition, "CONFIG_MISMATCH",
               name +
                   ": differs from that of the existing namespace; nothing was stored, leave it "
                   "out or change it by UpdateNamespace",
               {{"field", name}});
}

absl::Status NamespaceExists() {
  return Error(absl::StatusCode::kAlreadyExists, "NAMESPACE_EXISTS",
               "new_namespace: a namespace there has items; delete it first or take another path");
}

}  // namespace

absl::StatusOr<std::vector<ListedNamespace>> NamespacesAt(ItemStore& store, const NamespaceKey& key,
                                                          bool recursive) {
  std::vector<ListedNamespace> found;
  if (!recursive) {
    MEMORYD_ASSIGN_OR_RETURN(auto rows, store.FindNamespaces({&key, 1}));
    if (rows.front().has_value()) found.push_back({key.path, *std::move(rows.front())});
    return found;
  }
  for (std::string after;;) {
    MEMORYD_ASSIGN_OR_RETURN(std::vector<ListedNamespace> page,
                             store.ListNamespaces(key.tenant, key.path, after, "", kListedAtOnce));
    const bool is_last = std::ssize(page) < kListedAtOnce;
    for (ListedNamespace& listed : page) found.push_back(std::move(listed));
    if (is_last) return found;
    after = found.back().path.stored();
  }
}

// ---- configurations ----

absl::StatusOr<bool> NamespaceCalls::IsKept(const NamespaceKey& key,
                                            const std::string& request_id) {
  if (request_id.empty()) return false;
  MEMORYD_ASSIGN_OR_RETURN(const auto records,
                           options_.store->FindItemRequests(key, {&request_id, 1}));
  return records.front().has_value();
}

absl::Status NamespaceCalls::Ensure(const NamespaceKey& key, const NamespaceSettings& settings,
                                    const std::string& request_id) {
  for (int i = 0; i < kTries; ++i) {
    MEMORYD_ASSIGN_OR_RETURN(const auto rows, options_.store->FindNamespaces({&key, 1}));
    NamespaceConfig config;
    std::string_view different;
    if (rows.front().has_value()) {
      MEMORYD_ASSIGN_OR_RETURN(config, ConfigOf(*rows.front()));
      different = config.DifferenceTo(settings);
      if (different.empty()) return absl::OkStatus();
    }
    MEMORYD_ASSIGN_OR_RETURN(const bool kept, IsKept(key, request_id));
    if (kept) return absl::OkStatus();
    if (!different.empty()) return ConfigMismatch(different);
    config.Apply(settings);
    MEMORYD_ASSIGN_OR_RETURN(const bool written, options_.store->WriteNamespace(
                                                     key, ChangeTo(config, 0), options_.now_us()));
    if (written) return absl::OkStatus();
  }
  return absl::AbortedError("the namespace was made and deleted meanwhile; try again");
}

void NamespaceCalls::Write(ItemBatch batch, NamespaceSettings settings, std::size_t byte_size,
                           CallEnd end, ItemCall::Done done) {
  if (settings.empty()) {
    options_.writes->Submit(std::move(batch), byte_size, std::move(end), std::move(done));
    return;
  }
  const std::string tenant = batch.key.tenant;
  // Ends at once when the namespace is there; the batch has a call of its own.
  struct Ensured {};
  auto shared_done = std::make_shared<ItemCall::Done>(std::move(done));
  auto shared_batch = std::make_shared<ItemBatch>(std::move(batch));
  const auto read = options_.calls->Begin<Ensured>(
      tenant, end,
      [this, shared_done, shared_batch, byte_size, end](const absl::StatusOr<Ensured>& ensured) {
        if (!ensured.ok()) {
          (*shared_done)(ensured.status());
        } else {
          options_.writes->Submit(std::move(*shared_batch), byte_size, end, *shared_done);
        }
      },
      static_cast<std::int64_t>(byte_size));
  if (read == nullptr) return;
  options_.calls->Run(tenant, read,
                      [this, read, key = shared_batch->key, request_id = shared_batch->request_id,
                       settings = std::move(settings)] {
                        const absl::Status status = Ensure(key, settings, request_id);
                        read->Finish(status.ok() ? absl::StatusOr<Ensured>(Ensured()) : status);
                      });
}

void NamespaceCalls::Update(NamespaceKey key, NamespaceSettings settings, CallEnd end,
                            Done<NamespaceRow> done) {
  const std::string tenant = key.tenant;
  const auto read = options_.calls->Begin<NamespaceRow>(tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  options_.calls->Run(tenant, read,
                      [this, read, key = std::move(key), settings = std::move(settings)] {
                        read->Finish(UpdateNow(key, settings));
                      });
}

absl::StatusOr<NamespaceRow> NamespaceCalls::UpdateNow(const NamespaceKey& key,
                                                       const NamespaceSettings& settings) {
  for (int i = 0; i < kTries; ++i) {
    MEMORYD_ASSIGN_OR_RETURN(const auto rows, options_.store->FindNamespaces({&key, 1}));
    NamespaceConfig config;
    std::int64_t expected_version = 0;
    if (rows.front().has_value()) {
      MEMORYD_ASSIGN_OR_RETURN(config, ConfigOf(*rows.front()));
      if (config.DifferenceTo(settings).empty()) return *rows.front();
      expected_version = rows.front()->config_version;
    }
    config.Apply(settings);
    MEMORYD_ASSIGN_OR_RETURN(
        const bool written,
        options_.store->WriteNamespace(key, ChangeTo(config, expected_version), options_.now_us()));
    if (!written) continue;
    MEMORYD_ASSIGN_OR_RETURN(const auto changed, options_.store->FindNamespaces({&key, 1}));
    if (changed.front().has_value()) return *changed.front();
  }
  return absl::AbortedError("the namespace is being changed by others; try again");
}

// ---- deletion ----

void NamespaceCalls::Delete(NamespaceKey key, bool recursive, CallEnd end,
                            Done<NamespaceCounts> done) {
  const std::string tenant = key.tenant;
  const auto read = options_.calls->Begin<NamespaceCounts>(tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  options_.calls->Run(tenant, read, [this, read, key = std::move(key), recursive] {
    read->Finish(DeleteNow(key, recursive, *read));
  });
}

absl::StatusOr<NamespaceCounts> NamespaceCalls::DeleteNow(const NamespaceKey& key, bool recursive,
                                                          const PendingRead& read) {
  MEMORYD_ASSIGN_OR_RETURN(const auto found, NamespacesAt(*options_.store, key, recursive));
  NamespaceCounts counts;
  for (const ListedNamespace& listed : found) {
    if (read.finished()) return absl::CancelledError("nobody waits for the call any more");
    MEMORYD_ASSIGN_OR_RETURN(
        const DeletedNamespace deleted,
        options_.store->DeleteNamespace({key.tenant, listed.path}, /*forget=*/false,
                                        options_.now_us()));
    counts.namespaces += deleted.existed ? 1 : 0;
    counts.items += deleted.item_count;
  }
  return counts;
}

// ---- copies ----

// One copy on its way: a namespace is read on a reader, then written as one batch, and so on.
class NamespaceCalls::NamespaceCopy : public std::enable_shared_from_this<NamespaceCopy> {
 public:
  NamespaceCopy(const Options* options, NamespaceCopyRequest request,
                std::shared_ptr<ReadCall<NamespaceCounts>> read)
      : options_(*options), request_(std::move(request)), read_(std::move(read)) {}

  void Start() {
    auto found =
        NamespacesAt(*options_.store, {request_.tenant, request_.source}, request_.recursive);
    if (!found.ok()) {
      read_->Finish(found.status());
      return;
    }
    sources_ = *std::move(found);
    for (const ListedNamespace& listed : sources_) {
      const std::size_t depth =
          listed.path.depth() - request_.source.depth() + request_.target.depth();
      if (depth <= kMaxNamespaceNames) continue;
      read_->Finish(InvalidField("new_namespace",
                                 "is so long that a namespace below would get more than 16 names"));
      return;
    }
    Next();
  }

 private:
  // Up to the next namespace that has items.
  void Next() {
    while (next_ < sources_.size()) {
      // What was copied stays; the rest would be for nobody.
      if (read_->finished()) return;
      auto batch = MakeBatch(sources_[next_]);
      if (!batch.ok()) {
        read_->Finish(batch.status());
        return;
      }
      ++next_;
      ++counts_.namespaces;
      if (batch->writes.empty()) continue;
      counts_.items += std::ssize(batch->writes);
      const auto bytes = static_cast<std::size_t>(memory_.bytes());
      options_.writes->Submit(
          *std::move(batch), bytes, read_->end_of_part(),
          [self = shared_from_this()](const absl::StatusOr<ItemsWritten>& written) {
            self->OnWritten(written.status());
          });
      return;
    }
    read_->Finish(counts_);
  }

  void OnWritten(const absl::Status& status) {
    memory_.Release();
    if (!status.ok()) {
      read_->Finish(ErrorReason(status) == "VERSION_MISMATCH" ? NamespaceExists() : status);
      return;
    }
    options_.calls->Run(request_.tenant, read_, [self = shared_from_this()] { self->Next(); });
  }

  // The configuration is stored by then.
  absl::StatusOr<ItemBatch> MakeBatch(const ListedNamespace& source) {
    ItemBatch batch;
    batch.key = {request_.tenant, source.path.Moved(request_.source, request_.target)};
    MEMORYD_ASSIGN_OR_RETURN(const auto rows, options_.store->FindNamespaces({&batch.key, 1}));
    const std::optional<NamespaceRow>& target = rows.front();
    if (target.has_value() && target->item_count > 0) return NamespaceExists();
    MEMORYD_RETURN_IF_ERROR(ReadAll(source, batch));
    MEMORYD_ASSIGN_OR_RETURN(NamespaceConfig config, ConfigOf(source.row));
    config.subject = target.has_value() ? target->subject : std::string();
    MEMORYD_ASSIGN_OR_RETURN(
        const bool written,
        options_.store->WriteNamespace(
            batch.key, ChangeTo(config, target.has_value() ? target->config_version : 0),
            options_.now_us()));
    if (!written) return NamespaceExists();
    return batch;
  }

  absl::Status ReadAll(const ListedNamespace& source, ItemBatch& batch) {
    MEMORYD_ASSIGN_OR_RETURN(memory_,
                             options_.memory->Take(request_.tenant, MemoryUse::kRequests, 0));
    ItemRange range;
    range.order = ItemListOrder::kOldestFirst;
    range.max_items = kItemsReadAtOnce;
    range.with_vectors = true;
    for (bool more = true; more;) {
      MEMORYD_ASSIGN_OR_RETURN(ItemPage page, options_.store->ListItems(
                                                  {request_.tenant, source.path},
                                                  source.row.generation, range, options_.now_us()));
      more = page.more && !page.items.empty();
      for (Item& item : page.items) {
        range.after_version = item.version;
        MEMORYD_RETURN_IF_ERROR(memory_.Grow(CountedBytes(item.key, item.content)));
        batch.writes.push_back({std::move(item.key), std::move(item.content),
                                /*expected_version=*/0, item.ttl_us});
      }
      if (std::ssize(batch.writes) <= kMaxItemsCopied && memory_.bytes() <= kMaxBytesCopied) {
        continue;
      }
      return Error(absl::StatusCode::kFailedPrecondition, "NAMESPACE_TOO_LARGE",
                   "namespace: only namespaces of at most 50,000 items and 32 MiB can be copied; "
                   "nothing of it was copied, read and store its items instead");
    }
    return absl::OkStatus();
  }

  const Options& options_;
  const NamespaceCopyRequest request_;
  const std::shared_ptr<ReadCall<NamespaceCounts>> read_;
  std::vector<ListedNamespace> sources_;
  std::size_t next_ = 0;
  NamespaceCounts counts_;
  MemoryBudget::Hold memory_;
};

void NamespaceCalls::Copy(NamespaceCopyRequest request, CallEnd end, Done<NamespaceCounts> done) {
  const std::string tenant = request.tenant;
  const auto read = options_.calls->Begin<NamespaceCounts>(tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  auto copy = std::make_shared<NamespaceCopy>(&options_, std::move(request), read);
  options_.calls->Run(tenant, read, [copy] { copy->Start(); });
}

}  // namespace memoryd
