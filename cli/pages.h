// Lists that the server gives page by page.
#ifndef MEMORYD_CLI_PAGES_H_
#define MEMORYD_CLI_PAGES_H_

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "absl/status/statusor.h"
#include "cli/connection.h"
#include "cli/printer.h"
#include "cli/progress.h"
#include "core/base/status_macros.h"

namespace memoryd::cli {

inline constexpr std::int64_t kPageSize = 1000;

// `count` while it can be printed.
inline absl::StatusOr<std::int64_t> TakenOf(const Printer& printer, std::int64_t count) {
  MEMORYD_RETURN_IF_ERROR(printer.status());
  return count;
}

// Calls `method` until there are no more pages, or `limit` entries have come; 0: all. `take` is
// given each page and returns how many entries it has, or the error with which that ends: whoever
// prints them returns TakenOf().
template <typename Stub, typename Request, typename Response, typename Take>
absl::Status ReadPages(Connection& connection,
                       grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                    Response*),
                       Request request, std::int64_t limit, const Take& take) {
  // From its second second on.
  const auto begin = std::chrono::steady_clock::now();
  Progress progress;
  std::int64_t read = 0;
  std::int64_t left = limit;
  do {
    if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(1)) {
      progress.Show([&] { return fmt::format("{} read", read); });
    }
    request.set_page_size(
        static_cast<std::int32_t>(limit == 0 ? kPageSize : std::min(left, kPageSize)));
    MEMORYD_ASSIGN_OR_RETURN(const Response page, connection.Call(method, request));
    progress.Clear();
    MEMORYD_ASSIGN_OR_RETURN(const std::int64_t taken, absl::StatusOr<std::int64_t>(take(page)));
    read += taken;
    left -= taken;
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && (limit == 0 || left > 0));
  return absl::OkStatus();
}

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_PAGES_H_
