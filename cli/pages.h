// Lists that the server gives page by page.
#ifndef MEMORYD_CLI_PAGES_H_
#define MEMORYD_CLI_PAGES_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/statusor.h"
#include "cli/connection.h"
#include "core/base/status_macros.h"

namespace memoryd::cli {

inline constexpr std::int64_t kPageSize = 1000;

// Calls `method` until there are no more pages, or `limit` entries have come; 0: all. `take` is
// given each page and returns how many entries it has.
template <typename Stub, typename Request, typename Response, typename Take>
absl::Status ReadPages(Connection& connection,
                       grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                    Response*),
                       Request request, std::int64_t limit, const Take& take) {
  std::int64_t left = limit;
  do {
    request.set_page_size(
        static_cast<std::int32_t>(limit == 0 ? kPageSize : std::min(left, kPageSize)));
    MEMORYD_ASSIGN_OR_RETURN(const Response page, connection.Call(method, request));
    left -= take(page);
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && (limit == 0 || left > 0));
  return absl::OkStatus();
}

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_PAGES_H_
