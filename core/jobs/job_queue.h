// Which job of this server runs next.
#ifndef MEMORYD_CORE_JOBS_JOB_QUEUE_H_
#define MEMORYD_CORE_JOBS_JOB_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/model/job.h"
#include "core/model/session.h"

namespace memoryd {

// The jobs that this server holds: those that wait and those that run. Sessions take turns. The
// jobs of a block run in the order they were made, one at a time; those of different blocks of a
// session beside each other, or with `in_order` one after the other. Jobs that have messages
// embedded run beside all others and take half of the room at most, so that nobody who waits for a
// block waits for an embedder.
//
// Not thread-safe: its owner guards it.
class JobQueue {
 public:
  struct Limits {
    // Jobs that run at a time, in all and for one tenant; at least 1.
    int max_running = 64;
    int max_running_of_tenant = 16;
  };

  explicit JobQueue(const Limits& limits) : limits_(limits) {}

  // Takes in jobs of one session, in the order they were made; those that it holds already are left
  // out. `in_order` counts for all jobs of the session from now on.
  void Hold(const SessionKey& session, std::vector<Job> jobs, bool in_order);

  // The next job, which runs until Leave(); nullopt: none may run now.
  std::optional<Job> TakeNext();

  // A job that was taken runs no more. It is still held.
  void Leave(const JobKey& job);

  // A job that was taken is this server's no more: it has ended, or anybody may claim it. It may
  // come again by Hold() before Leave() is called.
  void Unhold(const JobKey& job);

  // Hands out nothing more. Returns the jobs held, and holds none from then on.
  std::set<JobKey> Close();

  // Waiting or running.
  const std::set<JobKey>& held() const { return held_; }
  int HeldOf(const std::string& tenant) const;

 private:
  struct SessionJobs {
    std::deque<Job> waiting;                                  // In the order made.
    std::set<std::pair<std::uint64_t, std::string>> running;  // Block generation and name.
    bool in_order = false;
    bool queued = false;  // In ready_.

    bool Runs(const JobKey& job) const { return running.contains({job.generation, job.block}); }
    // Apart from one that has messages embedded.
    bool FeedsBlock() const;
    bool empty() const { return waiting.empty() && running.empty(); }
  };
  struct Running {
    int all = 0;
    int embedding = 0;
  };

  // Whether another job of the kind may run for the tenant.
  bool MayRun(const std::string& tenant, bool embedding) const;
  void Queue(const SessionKey& session, SessionJobs& jobs);

  const Limits limits_;
  bool closed_ = false;
  std::unordered_map<SessionKey, SessionJobs, SessionKeyHash> sessions_;
  std::deque<SessionKey> ready_;  // Sessions whose turn comes.
  std::set<JobKey> held_;
  std::unordered_map<std::string, int> held_of_tenant_;
  Running running_;
  std::unordered_map<std::string, Running> running_of_tenant_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_JOBS_JOB_QUEUE_H_
