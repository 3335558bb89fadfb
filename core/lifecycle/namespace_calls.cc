#include "core/lifecycle/namespace_calls.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "core/base/status_macros.h"
#include "core/calls/admission.h"
#include "core/calls/call_end.h"
#include "core/calls/calls.h"
#include "core/calls/executor.h"
#include "core/items/item.h"
#include "core/items/namespace_config.h"
#include "core/items/namespace_path.h"
#include "core/lifecycle/namespace_import.h"
#include "core/reads/item_reads.h"
#include "core/reads/item_view.h"
#include "core/sessions/session_errors.h"
#include "core/storage/item_batch.h"
#include "core/storage/item_store.h"
#include "core/storage/store.h"
#include "core/writes/items/item_call.h"
#include "core/writes/items/item_quota.h"

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

// Whether a caller whose credential is of `subject`, empty for none, must leave it alone.
bool IsOfOther(const std::optional<NamespaceRow>& row, std::string_view subject) {
  return row.has_value() && !subject.empty() && row->subject != subject;
}

std::int64_t CountedBytes(const NamespaceKey& key, const NamespaceRow& row) {
  return memoryd::CountedBytes(key.path, row.subject, row.config);
}

}  // namespace

// ---- configurations ----

absl::StatusOr<bool> NamespaceCalls::IsKept(const NamespaceKey& key,
                                            const std::string& request_id) {
  if (request_id.empty()) return false;
  MEMORYD_ASSIGN_OR_RETURN(const auto records,
                           options_.store->FindItemRequests(key, {&request_id, 1}));
  return records.front().has_value();
}

absl::StatusOr<bool> NamespaceCalls::WriteRow(const NamespaceKey& key,
                                              const NamespaceChange& change,
                                              const std::optional<NamespaceRow>& row,
                                              PendingRead& call) {
  if (!call.BeginWrite()) return NobodyWaits();
  ItemQuota& quota = options_.writes->quota();
  TenantUsage growth{.bytes = memoryd::CountedBytes(key.path, change.subject, change.config)};
  if (row.has_value()) growth.bytes -= CountedBytes(key, *row);
  MEMORYD_ASSIGN_OR_RETURN(const ItemQuota::Room room, quota.ReserveNow(key.tenant, growth));
  absl::StatusOr<bool> written =
      options_.store->WriteNamespace(key, change, options_.clock->NowUs());
  CommitOutcome outcome = CommitOutcome::kFailed;
  if (written.ok() && *written) outcome = CommitOutcome::kCommitted;
  if (absl::IsUnavailable(written.status())) outcome = CommitOutcome::kUnknown;
  quota.Settle(key.tenant, room, outcome, growth);
  return written;
}

absl::Status NamespaceCalls::Ensure(const ItemBatch& batch, const NamespaceSettings& settings,
                                    PendingRead& call) {
  const NamespaceKey& key = batch.key;
  for (int i = 0; i < kTries; ++i) {
    MEMORYD_ASSIGN_OR_RETURN(const auto rows, options_.store->FindNamespaces({&key, 1}));
    if (IsOfOther(rows.front(), batch.subject)) return SubjectNotGranted("namespace");
    NamespaceConfig config;
    std::string_view different;
    if (rows.front().has_value()) {
      MEMORYD_ASSIGN_OR_RETURN(config, ConfigOf(*rows.front()));
      different = config.DifferenceTo(settings);
      if (different.empty()) return absl::OkStatus();
    }
    MEMORYD_ASSIGN_OR_RETURN(const bool kept, IsKept(key, batch.request_id));
    if (kept) return absl::OkStatus();
    if (!different.empty()) return ConfigMismatch(different);
    config.Apply(settings);
    if (!batch.subject.empty()) config.subject = batch.subject;
    NamespaceChange change = ChangeTo(config, 0);
    change.begun_us = batch.begun_us;
    MEMORYD_ASSIGN_OR_RETURN(const bool written, WriteRow(key, change, std::nullopt, call));
    if (written) return absl::OkStatus();
  }
  return NamespaceErased();
}

void NamespaceCalls::Write(ItemBatch batch, NamespaceSettings settings, std::size_t byte_size,
                           CallEnd end, ItemCall::Done done) {
  if (settings.empty()) {
    options_.writes->Submit(std::move(batch), byte_size, std::move(end), std::move(done));
    return;
  }
  const std::string tenant = batch.key.tenant;
  auto place = options_.calls->Admit(tenant, static_cast<std::int64_t>(byte_size));
  if (!place.ok()) {
    done(place.status());
    return;
  }
  batch.begun_us = options_.clock->NowUs();
  // Shared, since a function must be one that can be copied.
  struct Asked {
    ItemBatch batch;
    NamespaceSettings settings;
    Admission::Place place;
    ItemCall::Done done;
  };
  auto asked = std::make_shared<Asked>(
      Asked{std::move(batch), std::move(settings), *std::move(place), std::move(done)});
  // Ends at once when the namespace is there; the batch then goes on in the same place.
  struct Ensured {};
  const auto read = options_.calls->BeginAdmitted<Ensured>(
      end, [this, asked, byte_size, end](const absl::StatusOr<Ensured>& ensured) {
        if (!ensured.ok()) {
          asked->done(ensured.status());
        } else {
          options_.writes->SubmitAdmitted(std::move(asked->batch), byte_size, end,
                                          std::move(asked->place), std::move(asked->done));
        }
      });
  RunWithQuota(tenant, read,
               [this, read, settings = asked->settings,
                batch = ItemBatch{.key = asked->batch.key,
                                  .subject = asked->batch.subject,
                                  .request_id = asked->batch.request_id,
                                  .begun_us = asked->batch.begun_us}] {
                 const absl::Status status = Ensure(batch, settings, *read);
                 read->Finish(status.ok() ? absl::StatusOr<Ensured>(Ensured()) : status);
               });
}

void NamespaceCalls::RunWithQuota(const std::string& tenant,
                                  const std::shared_ptr<PendingRead>& read, Executor::Task task) {
  options_.writes->quota().Reserve(
      tenant, {},
      [this, tenant, read, task = std::move(task)](const absl::StatusOr<ItemQuota::Room>& room) {
        if (room.ok()) {
          options_.calls->Run(tenant, read, task);
        } else {
          read->Fail(room.status());
        }
      });
}

void NamespaceCalls::Update(NamespaceKey key, NamespaceSettings settings, std::string subject,
                            CallEnd end, Done<NamespaceRow> done) {
  const std::string tenant = key.tenant;
  const auto read = options_.calls->Begin<NamespaceRow>(tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  RunWithQuota(
      tenant, read,
      [this, read, key = std::move(key), settings = std::move(settings),
       subject = std::move(subject)] { read->Finish(UpdateNow(key, settings, subject, *read)); });
}

absl::StatusOr<NamespaceRow> NamespaceCalls::UpdateNow(const NamespaceKey& key,
                                                       NamespaceSettings settings,
                                                       const std::string& subject,
                                                       PendingRead& call) {
  if (!subject.empty()) settings.subject = subject;
  const ItemView view(options_.store, subject);
  for (int i = 0; i < kTries; ++i) {
    MEMORYD_ASSIGN_OR_RETURN(const auto rows, options_.store->FindNamespaces({&key, 1}));
    if (IsOfOther(rows.front(), subject)) return SubjectNotGranted("namespace");
    NamespaceConfig config;
    std::int64_t expected_version = 0;
    if (rows.front().has_value()) {
      MEMORYD_ASSIGN_OR_RETURN(config, ConfigOf(*rows.front()));
      // Written also where nothing differs: what is there may be a change that no standby has.
      expected_version = rows.front()->config_version;
    }
    config.Apply(settings);
    MEMORYD_ASSIGN_OR_RETURN(const bool written,
                             WriteRow(key, ChangeTo(config, expected_version), rows.front(), call));
    if (!written) continue;
    MEMORYD_ASSIGN_OR_RETURN(const auto changed, view.FindNamespace(key));
    if (changed.has_value()) return *changed;
  }
  return absl::AbortedError("the namespace is being changed by others; try again");
}

// ---- deletion ----

void NamespaceCalls::Delete(NamespaceKey key, bool recursive, std::string subject, CallEnd end,
                            Done<NamespaceCounts> done) {
  const std::string tenant = key.tenant;
  const auto read = options_.calls->Begin<NamespaceCounts>(tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  options_.calls->Run(tenant, read,
                      [this, read, key = std::move(key), recursive, subject = std::move(subject)] {
                        read->Finish(DeleteNow(key, recursive, subject, *read));
                      });
}

absl::StatusOr<NamespaceCounts> NamespaceCalls::DeleteNow(const NamespaceKey& key, bool recursive,
                                                          const std::string& subject,
                                                          PendingRead& read) {
  const ItemView view(options_.store, subject);
  NamespaceCounts counts;
  const auto remove = [&](const NamespacePath& path, const NamespaceRow& row) -> absl::Status {
    if (!read.BeginWrite()) return NobodyWaits();
    MEMORYD_ASSIGN_OR_RETURN(
        const DeletedNamespace deleted,
        options_.store->DeleteNamespace({key.tenant, path}, {.subject = subject},
                                        options_.clock->NowUs()));
    // One below was given away since it was listed.
    if (deleted.of_other && path == key.path) return SubjectNotGranted("namespace");
    if (!deleted.existed) return absl::OkStatus();
    ++counts.namespaces;
    counts.items += deleted.item_count;
    options_.writes->quota().Count(
        key.tenant, {.messages = -deleted.item_count,
                     .bytes = -deleted.item_bytes - CountedBytes({key.tenant, path}, row)});
    return absl::OkStatus();
  };
  // Also where there is none: a deletion before may have ended without its standby.
  MEMORYD_ASSIGN_OR_RETURN(const auto row, view.FindNamespace(key));
  MEMORYD_RETURN_IF_ERROR(remove(key.path, row.value_or(NamespaceRow())));
  for (std::string after = key.path.stored(); recursive;) {
    MEMORYD_ASSIGN_OR_RETURN(const std::vector<ListedNamespace> page,
                             view.ListNamespaces(key.tenant, key.path, after, kListedAtOnce));
    for (const ListedNamespace& listed : page) {
      if (read.finished()) return NobodyWaits();
      MEMORYD_RETURN_IF_ERROR(remove(listed.path, listed.row));
    }
    if (std::ssize(page) < kListedAtOnce) break;
    after = page.back().path.stored();
  }
  return counts;
}

// ---- imports ----

std::shared_ptr<NamespaceImport> NamespaceCalls::Import(NamespaceImportRequest request) {
  return std::make_shared<NamespaceImport>(
      NamespaceImport::Options{options_.store, options_.calls, &options_.writes->quota(),
                               options_.clock},
      std::move(request));
}

// ---- copies ----

// One copy on its way: a namespace is read on a reader, then written as one batch, and so on.
class NamespaceCalls::NamespaceCopy : public std::enable_shared_from_this<NamespaceCopy> {
 public:
  NamespaceCopy(NamespaceCalls* calls, NamespaceCopyRequest request,
                std::shared_ptr<ReadCall<NamespaceCounts>> read)
      : calls_(*calls),
        options_(calls->options_),
        request_(std::move(request)),
        view_(options_.store, request_.subject),
        read_(std::move(read)) {}

  void Start() {
    if (const absl::Status status = FindSources(); !status.ok()) {
      read_->Finish(status);
      return;
    }
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
  // All before the first is copied: copies may stand below the source, too.
  absl::Status FindSources() {
    MEMORYD_ASSIGN_OR_RETURN(listed_memory_,
                             options_.memory->Take(request_.tenant, MemoryUse::kRequests, 0));
    const NamespaceKey key{request_.tenant, request_.source};
    if (!request_.recursive) {
      MEMORYD_ASSIGN_OR_RETURN(auto row, view_.FindNamespace(key));
      if (row.has_value()) sources_.push_back({key.path, *std::move(row)});
      return absl::OkStatus();
    }
    for (std::string after;;) {
      MEMORYD_ASSIGN_OR_RETURN(std::vector<ListedNamespace> page,
                               view_.ListNamespaces(key.tenant, key.path, after, kListedAtOnce));
      const bool is_last = std::ssize(page) < kListedAtOnce;
      for (ListedNamespace& listed : page) {
        MEMORYD_RETURN_IF_ERROR(
            listed_memory_.Grow(static_cast<std::int64_t>(sizeof(listed)) +
                                CountedBytes({key.tenant, listed.path}, listed.row)));
        sources_.push_back(std::move(listed));
      }
      if (is_last) return absl::OkStatus();
      after = sources_.back().path.stored();
    }
  }

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
    batch.subject = request_.subject;
    batch.key = {request_.tenant, source.path.Moved(request_.source, request_.target)};
    MEMORYD_ASSIGN_OR_RETURN(const auto rows, options_.store->FindNamespaces({&batch.key, 1}));
    const std::optional<NamespaceRow>& target = rows.front();
    if (IsOfOther(target, request_.subject)) return SubjectNotGranted("new_namespace");
    if (target.has_value() && target->item_count > 0) return NamespaceExists();
    MEMORYD_RETURN_IF_ERROR(ReadAll(source, batch));
    MEMORYD_ASSIGN_OR_RETURN(NamespaceConfig config, ConfigOf(source.row));
    config.subject = target.has_value() ? target->subject : request_.subject;
    const NamespaceChange change =
        ChangeTo(config, target.has_value() ? target->config_version : 0);
    MEMORYD_ASSIGN_OR_RETURN(const bool written,
                             calls_.WriteRow(batch.key, change, target, *read_));
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
      MEMORYD_ASSIGN_OR_RETURN(
          ItemPage page, view_.ListItems({request_.tenant, source.path}, source.row.generation,
                                         range, options_.clock->NowUs()));
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
    MEMORYD_ASSIGN_OR_RETURN(const auto now, view_.FindNamespace({request_.tenant, source.path}));
    if (batch.writes.empty() || (now.has_value() && now->generation == source.row.generation)) {
      return absl::OkStatus();
    }
    return Error(absl::StatusCode::kAborted, "NAMESPACE_REPLACED",
                 "namespace: was deleted while it was copied; nothing of it was copied");
  }

  NamespaceCalls& calls_;
  const Options& options_;
  const NamespaceCopyRequest request_;
  const ItemView view_;
  const std::shared_ptr<ReadCall<NamespaceCounts>> read_;
  std::vector<ListedNamespace> sources_;
  std::size_t next_ = 0;
  NamespaceCounts counts_;
  MemoryBudget::Hold listed_memory_;  // Of the sources.
  MemoryBudget::Hold memory_;         // Of the items of one.
};

void NamespaceCalls::Copy(NamespaceCopyRequest request, CallEnd end, Done<NamespaceCounts> done) {
  const std::string tenant = request.tenant;
  const auto read = options_.calls->Begin<NamespaceCounts>(tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  auto copy = std::make_shared<NamespaceCopy>(this, std::move(request), read);
  RunWithQuota(tenant, read, [copy] { copy->Start(); });
}

}  // namespace memoryd
