// EraseSubject: every session and namespace of a subject removed, and what they leave purged.
#ifndef MEMORYD_CORE_LIFECYCLE_SUBJECT_ERASE_H_
#define MEMORYD_CORE_LIFECYCLE_SUBJECT_ERASE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/wall_clock.h"
#include "core/sessions/session.h"
#include "core/storage/store.h"
#include "core/writes/write.h"
#include "core/writes/write_queue.h"

namespace memoryd {

struct EraseRequest {
  std::string tenant;
  std::string subject;
  bool dry_run = false;
  std::chrono::steady_clock::time_point deadline;
};

struct EraseReceipt {
  SessionCounts removed;
  std::int64_t namespaces = 0;
  std::int64_t items = 0;  // Of those.
  // Replies kept for a request_id, of sessions that were deleted before too.
  std::int64_t replies = 0;
  // Nothing of the subject is in the store any more, nor in files beside its tables.
  bool purged = false;
  std::string left;  // Why not, in capitals; empty for a dry run.
  // What of it the server can't remove, in words; empty unless `purged`.
  std::string left_elsewhere;
};

// One erasure on its way (docs/adr/0030). Each step is a read or a purge on a reader, or a write
// through the committers, and only one of them is under way at a time.
class SubjectErase : public std::enable_shared_from_this<SubjectErase> {
 public:
  // What is pointed to outlives it.
  struct Options {
    Store* store = nullptr;
    // Has a reader run the task. Must not block, nor refuse.
    std::function<void(std::function<void()>)> run;
    WriteQueue* writes = nullptr;
    // Asked before anything is erased. False: nobody waits for it any more.
    std::function<bool()> begin_write;
    const WallClock* clock = nullptr;
    // Lets go of what is in memory of a session that is no more.
    std::function<void(const SessionKey&)> forget;
    std::function<void(absl::StatusOr<EraseReceipt>)> done;
  };

  SubjectErase(Options options, EraseRequest request)
      : options_(std::move(options)), request_(std::move(request)) {}

  void Start();

 private:
  struct Found {
    std::string session;
    bool deleted = false;
    bool hands_on = false;  // What is put, to other sessions.
  };

  // Calls `each` for every session of the subject, a page at a time.
  absl::Status ForEach(bool with_configs, const std::function<absl::Status(ListedSession)>& each);
  absl::StatusOr<EraseReceipt> Count();
  absl::Status CountItems(EraseReceipt& receipt);
  // Looks for what is left of the subject, and erases that.
  void Look();
  void EraseNext();
  // The session is gone, but for its tombstone and the replies.
  void ForgetReplies(const SessionKey& key);
  // Deletes what the session's garbage names, a few hundred rows at a time.
  void PurgeSession(const SessionKey& key, std::function<void()> then);
  // Deletes the subject's namespaces, some at a time, then what is left of all deleted ones.
  void EraseNamespaces();
  void PurgeItems();
  // The same of every session of the tenant.
  void PurgeTenant();
  // What no table shows any more.
  void RemoveTraces();
  bool IsLate() const;
  void Answer(std::string left);
  void Submit(WriteCommand command, const SessionKey& key,
              std::function<void(SessionCounts, bool)> then);

  const Options options_;
  const EraseRequest request_;
  EraseReceipt receipt_;
  int looks_ = 0;
  bool still_written_ = false;
  // In the order in which they are erased: those that hand on before all others, so that nothing is
  // put to a session of which all is gone.
  std::vector<Found> found_;
  std::size_t next_ = 0;
  // Sessions that have garbage, and the last one that has none any more.
  std::vector<std::string> to_purge_;
  std::size_t next_purged_ = 0;
  std::string purged_up_to_;
  int tries_ = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_LIFECYCLE_SUBJECT_ERASE_H_
