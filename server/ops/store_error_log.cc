#include "server/ops/store_error_log.h"

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error_cause.h"
#include "core/base/mutex.h"
#include "core/storage/observed_store.h"
#include "server/ops/log.h"

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
  std::vector<LogField> fields = {{"operation", std::string(kStoreOperations[index])},
                                  {"code", absl::StatusCodeToString(error.code())},
                                  {"error", std::string(error.message())},
                                  {"errors", fmt::format("{}", errors), /*is_number=*/true}};
  ErrorCause cause = CauseOf(error);
  if (!cause.code.empty()) fields.push_back({"cause_code", std::move(cause.code)});
  if (!cause.text.empty()) fields.push_back({"cause", std::move(cause.text)});
  log_.Write(spdlog::level::warn, "store", fields);
}

}  // namespace memoryd
