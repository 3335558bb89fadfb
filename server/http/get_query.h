// A call in the query of a GET.
#ifndef MEMORYD_SERVER_HTTP_GET_QUERY_H_
#define MEMORYD_SERVER_HTTP_GET_QUERY_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/http/connect_message.h"

namespace memoryd {

struct GetQuery {
  ConnectFormat format;  // As far as the query tells.
  std::string message;
};

// `connect=v1&encoding=json&message=…`, with `base64=1` and `compression=gzip` where they hold.
// INVALID_ARGUMENT `INVALID_QUERY`, which names the parameter; UNIMPLEMENTED `COMPRESSED`.
absl::StatusOr<GetQuery> ParseGetQuery(std::string_view query);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP_GET_QUERY_H_
