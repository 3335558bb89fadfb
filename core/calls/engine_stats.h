// What an engine has done since it began.
#ifndef MEMORYD_CORE_CALLS_ENGINE_STATS_H_
#define MEMORYD_CORE_CALLS_ENGINE_STATS_H_

#include <atomic>
#include <cstdint>

#include "core/base/histogram.h"

namespace memoryd {

struct EngineStats {
  // Refused at admission: too many calls, or too many bytes of requests, wait.
  Counter refused_calls{0};
  Counter refused_bytes{0};
  // … or the store is too slow to end them in their time.
  Counter refused_late{0};
  // Reads dropped before they asked the store, since their caller was gone.
  Counter cancelled_reads{0};
  // Writes that would have gone over a quota of their tenant.
  Counter refused_sessions{0};
  Counter refused_messages{0};
  Counter refused_stored_bytes{0};
  // Writes answered with the stored reply to an earlier request with the same request_id.
  Counter replays{0};
  // Calls whose session was in memory, was not, or was but had been changed by another server.
  Counter cache_hits{0};
  Counter cache_misses{0};
  Counter cache_stale{0};
  // Jobs that ended well, that were given up, and attempts that failed.
  Counter jobs_done{0};
  Counter jobs_failed{0};
  Counter job_failures{0};
  // Attempts that were put off since there was no memory for them.
  Counter jobs_short_of_memory{0};
  // Sessions that expired, messages that retention took out of others, and reads that were not
  // noted since too many were already.
  Counter expired_sessions{0};
  Counter retired_messages{0};
  Counter lost_touches{0};
  // What the last sweep found due, as far as it looked, and for how long the first of it was; 0
  // once it is done.
  std::atomic<std::int64_t> due_sessions{0};
  std::atomic<std::int64_t> due_for_us{0};
  // Exceptions caught in the engine's threads.
  Counter exceptions{0};
  // Writes that went to the store together.
  SizeHistogram batch_writes;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_CALLS_ENGINE_STATS_H_
