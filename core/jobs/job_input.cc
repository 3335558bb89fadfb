#include "core/jobs/job_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "core/base/status_macros.h"
#include "core/blocks/block.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/message_embedder.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/storage/store.h"

namespace memoryd {
namespace {

// The bytes of one read. The library of the store holds them too.
constexpr std::int64_t kReadBytes = std::int64_t{4} << 20;
// How often a message is in memory while its block is fed: as a row, as its parts, and as the
// block's text.
constexpr std::int64_t kCopies = 3;
constexpr std::int64_t kMessageBytes = 1024;
constexpr std::int64_t kSizesAtOnce = 10'000;
constexpr auto kEmbeddedBytes = static_cast<std::int64_t>(kEmbeddedTextBytes);
// How many entries are re-embedded at once.
constexpr std::int64_t kEntriesAnew = 128;
constexpr std::int64_t kEntryBytes = std::int64_t{4} << 20;

std::int64_t EntriesOfAttempt(std::int64_t attempts) {
  return std::max<std::int64_t>(1,
                                kEntriesAnew >> std::clamp<std::int64_t>(2 * (attempts - 2), 0, 8));
}

// Whether the job is of a block's entries and not of messages.
bool IsOfEntries(const BlockState& fed, const Job& job) {
  return fed.entry_generation != 0 && job.message_generation == fed.entry_generation;
}

}  // namespace

bool EmbedsMessages(const JobKey& job) { return job.block == kRetrievalBlock; }

bool EmbedsAnew(const BlockState* fed, const Job& job) {
  if (fed == nullptr) return false;
  const auto state = StateWithNext(fed->state);
  if (!state.has_value()) return false;
  return fed->name == kRetrievalBlock || state->next->job == job.key.number;
}

absl::StatusOr<std::int64_t> JobInput::BytesOfMessages(const Job& job, std::int64_t most) const {
  const bool embeds = EmbedsMessages(job.key);
  PositionRange range{job.begin, job.end};
  std::int64_t bytes = 0;
  std::int64_t stored = 0;
  std::int64_t largest = kReadBytes;
  while (range.begin < range.end) {
    MEMORYD_ASSIGN_OR_RETURN(
        const std::vector<RowSize> sizes,
        options_.store->ReadSizes(job.key.session, job.message_generation, range, kSizesAtOnce));
    for (const RowSize& row : sizes) {
      stored += row.bytes;
      largest = std::max(largest, row.bytes);
      const std::int64_t fed = embeds ? std::min(row.bytes, kEmbeddedBytes) : row.bytes;
      bytes += kCopies * fed + kMessageBytes;
    }
    if (std::ssize(sizes) < kSizesAtOnce) break;
    range.end = sizes.back().position;
  }
  if (embeds) {
    // One read at a time is held whole.
    bytes += 2 * std::min(stored, largest);
  } else if (stored > options_.max_message_bytes) {
    return Error(absl::StatusCode::kResourceExhausted, "JOB_TOO_LARGE",
                 fmt::format("the job's messages have {} bytes; the most is {}, twice the "
                             "setting active_mib. Raise active_mib",
                             stored, options_.max_message_bytes));
  }
  if (options_.memory->limit() > 0 && bytes > most) {
    return Error(absl::StatusCode::kResourceExhausted, "JOB_TOO_LARGE",
                 fmt::format("the job's messages take {} MiB of memory while its block is fed; a "
                             "tenant can have {} MiB of it. Raise memory_limit_mib, or flush less "
                             "at a time",
                             (bytes >> 20) + 1, most >> 20));
  }
  return bytes;
}

absl::StatusOr<MemoryBudget::Hold> JobInput::TakeMemory(const Job& job, bool of_entries) const {
  const std::int64_t most = options_.memory->MostOfTenant(MemoryUse::kJobs);
  std::int64_t bytes = kCopies * kEntryBytes;
  if (!of_entries) {
    MEMORYD_ASSIGN_OR_RETURN(bytes, BytesOfMessages(job, most));
  } else if (options_.memory->limit() > 0) {
    bytes = std::min(bytes, most);
  }
  std::optional<MemoryBudget::Hold> memory =
      options_.memory->TryTake(job.key.session.tenant, MemoryUse::kJobs, bytes);
  if (memory.has_value()) return *std::move(memory);
  return Error(absl::StatusCode::kResourceExhausted, "MEMORY_SHORT",
               "the job waits until the server has memory for its messages");
}

absl::StatusOr<std::vector<BlockMessage>> JobInput::ReadMessages(const Job& job) const {
  std::vector<BlockMessage> messages;
  PositionRange range{job.begin, job.end};
  while (range.begin < range.end) {
    MEMORYD_ASSIGN_OR_RETURN(
        const std::vector<MessagePtr> rows,
        options_.store->ReadRange(job.key.session, job.message_generation, range,
                                  std::numeric_limits<std::int32_t>::max(), kReadBytes));
    if (rows.empty()) break;
    range.begin = rows.back()->position + 1;
    for (const MessagePtr& row : rows) {
      if (EmbedsMessages(job.key)) {
        messages.push_back(WordsAlone(*options_.bodies, *row));
        continue;
      }
      BlockMessage& message = messages.emplace_back();
      message.row = row;
      message.id = MessageId(*row, job.message_generation);
      MEMORYD_ASSIGN_OR_RETURN(message.parts, options_.bodies->ReadParts(row->body));
    }
  }
  return messages;
}

absl::Status JobInput::ReadEntries(const BlockState& fed, const Job& job, Input& input) const {
  // Those too that came since the job was made: a busy session would never have none left.
  const PositionRange range{job.begin, fed.next_entry};
  input.entries_to = range.end;
  // Those of a job that another has taken the place of have been embedded by that.
  if (!EmbedsAnew(&fed, job)) return absl::OkStatus();
  MEMORYD_ASSIGN_OR_RETURN(input.entries,
                           options_.store->ReadRange(job.key.session, job.message_generation, range,
                                                     EntriesOfAttempt(job.attempts), kEntryBytes));
  if (!input.entries.empty()) input.entries_to = input.entries.back()->position + 1;
  return absl::OkStatus();
}

absl::StatusOr<JobInput::Input> JobInput::Read(const Job& job, const BlockState& fed) const {
  Input input;
  const bool of_entries = IsOfEntries(fed, job);
  MEMORYD_ASSIGN_OR_RETURN(input.memory, TakeMemory(job, of_entries));
  if (of_entries) {
    MEMORYD_RETURN_IF_ERROR(ReadEntries(fed, job, input));
  } else {
    MEMORYD_ASSIGN_OR_RETURN(input.messages, ReadMessages(job));
  }
  return input;
}

}  // namespace memoryd
