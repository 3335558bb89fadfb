#include "core/jobs/retry_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/model/job.h"

namespace memoryd {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMaxErrorBytes = 1024;
// How long a job whose worker is not attached here is left to other servers: soon again for a
// worker that comes back to this server, rarely for one that does not.
constexpr milliseconds kElsewhereDelay(2000);
constexpr milliseconds kLongestElsewhereDelay(30'000);

// Whether a model has refused what it was asked.
bool IsRefusal(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status) ||
         absl::IsOutOfRange(status);
}

// At most kMaxErrorBytes, cut between characters.
std::string Shortened(std::string text) {
  if (text.size() <= kMaxErrorBytes) return text;
  std::size_t end = kMaxErrorBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  text.resize(end);
  return text;
}

std::string_view MessageOf(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

milliseconds HalfRandom(milliseconds delay, std::uint64_t random) {
  const auto half = static_cast<std::uint64_t>(delay.count() / 2 + 1);
  return delay / 2 + milliseconds(static_cast<std::int64_t>(random % half));
}

// Soon at first, since what the job waits for may be mended at once; then less and less often.
milliseconds WaitDelay(const Job& job, std::int64_t now_us, milliseconds shortest,
                       milliseconds longest) {
  const auto age = std::chrono::microseconds(now_us - job.create_us);
  return std::clamp(std::chrono::duration_cast<milliseconds>(age / 4), shortest, longest);
}

}  // namespace

std::string JobErrorText(const absl::Status& status) {
  std::string text = absl::StatusCodeToString(status.code());
  text += ": ";
  text += MessageOf(status);
  return Shortened(std::move(text));
}

Verdict RetryPolicy::Judge(const FailedAttempt& attempt, const absl::Status& why) const {
  const std::string reason = ErrorReason(why);
  if (reason == "WORKER_ELSEWHERE") return Verdict::kLeaveToOthers;
  if (reason == "MODEL_BUDGET") return Verdict::kAwaitBudget;
  const bool is_last = attempt.attempts >= settings_.max_attempts;
  if (is_last && attempt.entries == 1 && IsRefusal(why)) return Verdict::kEndWithoutVector;
  if (is_last && !attempt.embeds_anew) return Verdict::kGiveUp;
  // A model's answer that was cut has been asked for with all the room that it may get.
  const bool is_final = absl::IsInvalidArgument(why) || reason == "ANSWER_CUT";
  return is_final && attempt.entries == 0 ? Verdict::kGiveUp : Verdict::kTryAgain;
}

JobRelease RetryPolicy::TryAgain(const Job& job, const absl::Status& why,
                                 std::uint64_t random) const {
  milliseconds delay = settings_.first_retry;
  for (std::int64_t i = 1; i < job.attempts && delay < settings_.max_retry; ++i) delay *= 2;
  const std::string text = JobErrorText(why);
  return {HalfRandom(std::min(delay, settings_.max_retry), random), text, text, /*begun=*/true};
}

JobRelease RetryPolicy::AwaitMemory(const Job& job, const absl::Status& why, std::int64_t now_us,
                                    std::uint64_t random) const {
  const std::string text = Shortened(fmt::format("MEMORY_SHORT: {}", MessageOf(why)));
  const milliseconds delay =
      WaitDelay(job, now_us, settings_.first_memory_wait, settings_.max_memory_wait);
  return {HalfRandom(delay, random), text, text, /*begun=*/false};
}

JobRelease RetryPolicy::AwaitBudget(const Job& job, const absl::Status& why,
                                    std::int64_t now_us) const {
  const std::string text = Shortened(fmt::format("MODEL_BUDGET: {}", MessageOf(why)));
  return {WaitDelay(job, now_us, settings_.first_budget_wait, settings_.max_budget_wait), text,
          text, /*begun=*/false};
}

JobRelease RetryPolicy::LeaveToOthers(const Job& job, const absl::Status& why,
                                      std::int64_t now_us) {
  return {WaitDelay(job, now_us, kElsewhereDelay, kLongestElsewhereDelay),
          {},
          JobErrorText(why),
          /*begun=*/false};
}

}  // namespace memoryd
