// What blocks know, and the durable work that feeds them.
#ifndef MEMORYD_CORE_MODEL_JOB_H_
#define MEMORYD_CORE_MODEL_JOB_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/model/session.h"

namespace memoryd {

// What one block of a session knows, and how far it has been fed. A row under the session's
// block_generation.
//
// The jobs of a block are numbered without gaps and end in order: `done` is the number of the last
// one that ended, well or not, `next` that of the next one to be made. State and `done` are written
// together, which is what makes a job take effect exactly once.
struct BlockState {
  std::string name;
  std::int64_t done = 0;
  std::int64_t next = 1;
  // Rows of its own (vector: its entries), kept as messages are; 0: none yet.
  std::uint64_t entry_generation = 0;
  std::int64_t next_entry = 1;
  std::int64_t update_us = 0;
  // In the form of the block's kind; opaque to stores. At most kMaxBlockState bytes.
  std::string state;

  friend bool operator==(const BlockState&, const BlockState&) = default;
};

inline constexpr std::size_t kMaxBlockState = std::size_t{1} << 20;

// The largest count that one answer of a model is believed. A larger or negative one counts as 0.
inline constexpr std::int64_t kMaxAnswerUsage = 1'000'000'000'000;

// What models took. No count rises above kMax, so that sums of two never overflow.
struct Usage {
  static constexpr std::int64_t kMax = std::int64_t{1} << 60;

  std::int64_t calls = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;

  std::int64_t tokens() const { return prompt_tokens + completion_tokens; }
  Usage& operator+=(const Usage& other) {
    calls = std::min(kMax, calls + other.calls);
    prompt_tokens = std::min(kMax, prompt_tokens + other.prompt_tokens);
    completion_tokens = std::min(kMax, completion_tokens + other.completion_tokens);
    return *this;
  }
  friend bool operator==(const Usage&, const Usage&) = default;
};

// The numbers are stored.
enum class JobState : std::int16_t {
  kOpen = 0,       // Waits, or is being run.
  kDone = 1,       // Its block has taken the messages in.
  kFailed = 2,     // Given up; the block has a gap.
  kCancelled = 3,  // By a Set, a Reset, or an operator: the block has not taken the messages in.
};

struct JobKey {
  SessionKey session;
  std::uint64_t generation = 0;  // The session's block_generation.
  std::string block;
  std::int64_t number = 0;

  friend auto operator<=>(const JobKey&, const JobKey&) = default;
};

// Feeds one block with the messages of one flush: positions [begin, end) of message_generation.
struct Job {
  JobKey key;
  std::uint64_t message_generation = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  JobState state = JobState::kOpen;
  std::int64_t attempts = 0;  // Begun.
  std::int64_t create_us = 0;
  // Of its last change but for leases. By the clock of whoever committed its making or its end,
  // else the store's.
  std::int64_t update_us = 0;
  // Not to be begun before, by the store's clock.
  std::int64_t due_us = 0;
  // Whose it is until `lease_until_us`, by the store's clock; 0: nobody's.
  std::uint64_t lease = 0;
  std::int64_t lease_until_us = 0;
  std::string
      last_error;  // Any bytes; empty for none. At most 1 KiB, which whoever sets it sees to.
  Usage usage;     // Over all attempts.

  friend bool operator==(const Job&, const Job&) = default;
};

// Names a job within its session: `<generation>-<number>-<block>`.
std::string JobId(const JobKey& job);
// The job that JobId() named so; nullopt when it named none.
std::optional<JobKey> ParseJobId(const SessionKey& session, std::string_view id);

// As in memoryd.v1: OPEN, DONE, FAILED, CANCELLED.
std::string_view JobStateName(JobState state);

}  // namespace memoryd

#endif  // MEMORYD_CORE_MODEL_JOB_H_
