#include "core/model/job.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "core/model/session.h"

namespace memoryd {

std::string JobId(const JobKey& job) {
  return fmt::format("{:016x}-{}-{}", job.generation, job.number, job.block);
}

std::optional<JobKey> ParseJobId(const SessionKey& session, std::string_view id) {
  JobKey job;
  job.session = session;
  const char* const end = id.data() + id.size();
  const auto generation = std::from_chars(id.data(), end, job.generation, 16);
  if (generation.ec != std::errc() || generation.ptr == end || *generation.ptr != '-') return {};
  const auto number = std::from_chars(generation.ptr + 1, end, job.number);
  if (number.ec != std::errc() || number.ptr == end || *number.ptr != '-') return {};
  job.block.assign(number.ptr + 1, end);
  if (JobId(job) != id) return {};
  return job;
}

std::string_view JobStateName(JobState state) {
  switch (state) {
    case JobState::kOpen:
      return "OPEN";
    case JobState::kDone:
      return "DONE";
    case JobState::kFailed:
      return "FAILED";
    case JobState::kCancelled:
      return "CANCELLED";
  }
  return {};
}

}  // namespace memoryd
