// gzip of requests and replies.
#ifndef MEMORYD_SERVER_HTTP_GZIP_H_
#define MEMORYD_SERVER_HTTP_GZIP_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace memoryd {

// The bytes that were compressed, at most `most`: OUT_OF_RANGE where there are more. `grow` is
// asked before so many bytes more are made, and its error ends the work: a few bytes that stand for
// many take no more than it allows. INVALID_ARGUMENT `MALFORMED_REQUEST` for what is not one whole
// member of gzip.
absl::StatusOr<std::string> Gunzip(std::string_view compressed, std::size_t most,
                                   absl::FunctionRef<absl::Status(std::size_t)> grow);

// One member of gzip.
std::string Gzip(std::string_view bytes);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP_GZIP_H_
