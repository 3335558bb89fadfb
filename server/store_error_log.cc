#include "server/store_error_log.h"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace memoryd {
namespace {

constexpr std::chrono::seconds kInterval(10);

}  // namespace

void StoreErrorLog::Note(StoreOperation operation, const absl::Status& error,
                         std::chrono::steady_clock::time_point now) {
  const auto index = static_cast<std::size_t>(operation);
  std::uint64_t errors = 0;
  {
    MutexLock lock(mutex_);
    Told& told = told_[index];
    ++told.errors;
    if (told.at.has_value() && now - *told.at < kInterval) return;
    told.at = now;
    errors = std::exchange(told.errors, 0);
  }
  const std::array<LogField, 4> fields = {
      LogField{"operation", std::string(kStoreOperations[index])},
      LogField{"code", absl::StatusCodeToString(error.code())},
      LogField{"error", std::string(error.message())},
      LogField{"errors", fmt::format("{}", errors), /*is_number=*/true}};
  log_.Write(spdlog::level::warn, "store", fields);
}

}  // namespace memoryd
