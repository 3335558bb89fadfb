#include "core/lifecycle/subject_erase.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/blocks/block_traits.h"
#include "core/calls/call_end.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/sessions/session.h"
#include "core/storage/item_store.h"
#include "core/storage/store.h"
#include "core/writes/commands/sessions.h"
#include "core/writes/write.h"

namespace memoryd {
namespace {

constexpr std::int64_t kListedAtOnce = 1000;
constexpr std::int64_t kPurgedAtOnce = 500;
constexpr std::int64_t kNamespacesAtOnce = 100;
// How often one looks for sessions that were written meanwhile.
constexpr int kLooks = 3;
// How often a log is tried that somebody reads: for a second or two, where that is another program.
constexpr int kTries = 40;
// The answer is under way by then before the call's deadline.
constexpr std::chrono::milliseconds kTimeToAnswer(200);

bool HandsOn(const SessionRow& row) {
  const auto settings = SessionSettings::FromJson(row.config);
  if (!settings.ok() || !settings->blocks.has_value()) return false;
  const Profile profile = settings->profile.value_or(Profile::kDefault);
  return std::any_of(settings->blocks->begin(), settings->blocks->end(),
                     [profile](const BlockSettings& block) {
                       return TraitsOf(block, profile)->feed() == BlockFeed::kPut;
                     });
}

}  // namespace

void SubjectErase::Start() {
  options_.run([self = shared_from_this()] {
    if (self->request_.dry_run) {
      self->options_.done(self->Count());
    } else {
      self->Look();
    }
  });
}

absl::Status SubjectErase::ForEach(bool with_configs,
                                   const std::function<absl::Status(ListedSession)>& each) {
  const SessionListLimits limits{.max_sessions = kListedAtOnce, .with_configs = with_configs};
  for (std::string after;;) {
    MEMORYD_ASSIGN_OR_RETURN(SessionPage page, options_.store->ListSubject(
                                                   request_.tenant, request_.subject, after, limits,
                                                   /*tombstones=*/true));
    if (page.more) after = page.sessions.back().session;
    for (ListedSession& entry : page.sessions) MEMORYD_RETURN_IF_ERROR(each(std::move(entry)));
    if (!page.more) return absl::OkStatus();
  }
}

absl::StatusOr<EraseReceipt> SubjectErase::Count() {
  EraseReceipt receipt;
  const auto add = [&](const ListedSession& entry) -> absl::Status {
    if (IsLate()) {
      return Error(absl::StatusCode::kDeadlineExceeded, "SUBJECT_TOO_LARGE",
                   "what there is of the subject could not be counted within the call's time");
    }
    const SessionKey key{request_.tenant, entry.session};
    MEMORYD_ASSIGN_OR_RETURN(const std::int64_t replies, options_.store->CountRequests(key));
    receipt.replies += replies;
    // All else is in the row.
    if (entry.row.block_generation == 0) {
      receipt.removed += CountsOf(entry.row, {});
      return absl::OkStatus();
    }
    MEMORYD_ASSIGN_OR_RETURN(const std::optional<LoadedSession> loaded,
                             options_.store->LoadSession(key, /*max_active_bytes=*/0));
    if (loaded.has_value()) receipt.removed += CountsOf(loaded->row, loaded->blocks);
    return absl::OkStatus();
  };
  MEMORYD_RETURN_IF_ERROR(ForEach(/*with_configs=*/false, add));
  MEMORYD_RETURN_IF_ERROR(CountItems(receipt));
  return receipt;
}

absl::Status SubjectErase::CountItems(EraseReceipt& receipt) {
  for (std::string after;;) {
    MEMORYD_ASSIGN_OR_RETURN(const std::vector<ListedNamespace> page,
                             options_.store->Items().ListNamespaces(
                                 request_.tenant, {}, after, request_.subject, kListedAtOnce));
    for (const ListedNamespace& listed : page) {
      ++receipt.namespaces;
      receipt.items += listed.row.item_count;
    }
    if (std::ssize(page) < kListedAtOnce) return absl::OkStatus();
    after = page.back().path.stored();
  }
}

void SubjectErase::EraseNamespaces() {
  if (IsLate()) {
    Answer("DEADLINE");
    return;
  }
  ItemStore& items = options_.store->Items();
  const auto found =
      items.ListNamespaces(request_.tenant, {}, "", request_.subject, kNamespacesAtOnce);
  if (!found.ok()) {
    options_.done(found.status());
    return;
  }
  if (!found->empty() && !options_.begin_write()) {
    options_.done(NobodyWaits());
    return;
  }
  for (const ListedNamespace& listed : *found) {
    // It may have been given to another subject since it was listed.
    const auto deleted = items.DeleteNamespace({request_.tenant, listed.path},
                                               {.forget = true, .subject = request_.subject},
                                               options_.clock->NowUs());
    if (!deleted.ok()) {
      options_.done(deleted.status());
      return;
    }
    receipt_.namespaces += deleted->existed ? 1 : 0;
    receipt_.items += deleted->item_count;
  }
  options_.run([self = shared_from_this(), is_last = found->empty()] {
    if (is_last) {
      self->PurgeItems();
    } else {
      self->EraseNamespaces();
    }
  });
}

// Of all tenants, as the sweeper does: what is deleted names no subject any more.
void SubjectErase::PurgeItems() {
  if (IsLate()) {
    Answer("DEADLINE");
    return;
  }
  const std::int64_t now_us = options_.clock->NowUs();
  // What request_ids keep stays as long as it should.
  const auto purged = options_.store->Items().PurgeItems(now_us, /*keep_us=*/now_us, kPurgedAtOnce);
  if (!purged.ok()) {
    options_.done(purged.status());
    return;
  }
  options_.run([self = shared_from_this(), is_done = *purged < kPurgedAtOnce] {
    if (is_done) {
      self->PurgeTenant();
    } else {
      self->PurgeItems();
    }
  });
}

void SubjectErase::Look() {
  found_.clear();
  const absl::Status status = ForEach(/*with_configs=*/true, [this](const ListedSession& entry) {
    found_.push_back({entry.session, entry.row.deleted, HandsOn(entry.row)});
    return absl::OkStatus();
  });
  if (!status.ok()) {
    options_.done(status);
    return;
  }
  next_ = 0;
  still_written_ = !found_.empty() && ++looks_ > kLooks;
  if (found_.empty() || still_written_) {
    EraseNamespaces();
    return;
  }
  std::stable_partition(found_.begin(), found_.end(),
                        [](const Found& session) { return session.hands_on; });
  EraseNext();
}

void SubjectErase::EraseNext() {
  if (IsLate()) {
    Answer("DEADLINE");
  } else if (next_ == found_.size()) {
    Look();
  } else {
    const Found& entry = found_[next_++];
    const SessionKey key{request_.tenant, entry.session};
    if (entry.deleted) {
      ForgetReplies(key);
      return;
    }
    Submit(commands::DeleteSession{request_.subject}, key,
           [this, key](const SessionCounts& removed, bool) {
             receipt_.removed += removed;
             ForgetReplies(key);
           });
  }
}

void SubjectErase::ForgetReplies(const SessionKey& key) {
  const auto replies = options_.store->CountRequests(key);
  if (!replies.ok()) {
    options_.done(replies.status());
    return;
  }
  Submit(commands::ForgetSession{request_.subject}, key,
         [this, key, count = *replies](const SessionCounts&, bool changed) {
           if (changed) receipt_.replies += count;
           options_.forget(key);
           PurgeSession(key, [this] { EraseNext(); });
         });
}

void SubjectErase::Submit(WriteCommand command, const SessionKey& key,
                          std::function<void(SessionCounts, bool)> then) {
  WriteRequest write;
  write.command = std::move(command);
  write.key = key;
  write.deadline = request_.deadline;
  if (!options_.begin_write()) {
    options_.done(NobodyWaits());
    return;
  }
  options_.writes->Submit(std::move(write), [self = shared_from_this(), then = std::move(then)](
                                                const absl::StatusOr<WriteReply>& reply) {
    if (!reply.ok()) {
      self->options_.done(reply.status());
      return;
    }
    const SessionCounts removed = reply->result.removed;
    const bool changed = reply->result.revision > 0;
    self->options_.run([self, then, removed, changed] { then(removed, changed); });
  });
}

void SubjectErase::PurgeSession(const SessionKey& key, std::function<void()> then) {
  if (IsLate()) {
    Answer("DEADLINE");
    return;
  }
  const auto purged = options_.store->PurgeSession(key, kPurgedAtOnce);
  if (!purged.ok()) {
    options_.done(purged.status());
  } else if (purged->done) {
    then();
  } else {
    options_.run([self = shared_from_this(), key, then = std::move(then)] {
      self->PurgeSession(key, then);
    });
  }
}

// All of it, since garbage of sessions that were deleted earlier, or made anew under their ids,
// names no subject.
void SubjectErase::PurgeTenant() {
  if (next_purged_ == to_purge_.size()) {
    auto listed = options_.store->ListGarbage(request_.tenant, purged_up_to_, kListedAtOnce);
    if (!listed.ok()) {
      options_.done(listed.status());
      return;
    }
    if (listed->empty()) {
      if (still_written_) {
        Answer("STILL_WRITTEN");
      } else {
        RemoveTraces();
      }
      return;
    }
    to_purge_ = *std::move(listed);
    next_purged_ = 0;
  }
  purged_up_to_ = to_purge_[next_purged_++];
  PurgeSession({request_.tenant, purged_up_to_}, [self = shared_from_this()] {
    self->options_.run([self] { self->PurgeTenant(); });
  });
}

void SubjectErase::RemoveTraces() {
  if (IsLate()) {
    Answer("DEADLINE");
    return;
  }
  const absl::StatusOr<PurgedTraces> traces = options_.store->RemoveTraces();
  if (!traces.ok()) {
    options_.done(traces.status());
  } else if (traces->removed) {
    receipt_.left_elsewhere = traces->left_elsewhere;
    Answer("");
  } else if (++tries_ == kTries) {
    Answer("LOG_READ");
  } else {
    // Commits, and others' reads, get their turn.
    options_.run([self = shared_from_this()] { self->RemoveTraces(); });
  }
}

bool SubjectErase::IsLate() const {
  return std::chrono::steady_clock::now() + kTimeToAnswer >= request_.deadline;
}

void SubjectErase::Answer(std::string left) {
  receipt_.purged = left.empty();
  receipt_.left = std::move(left);
  options_.done(std::move(receipt_));
}

}  // namespace memoryd
