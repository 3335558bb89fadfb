// What every refusal of a request's field has.
#ifndef MEMORYD_TESTS_FUZZ_FIELD_ERROR_H_
#define MEMORYD_TESTS_FUZZ_FIELD_ERROR_H_

#include <string>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "tests/fuzz/require.h"

namespace memoryd {

// INVALID_ARGUMENT, whose message begins with the field that its details name.
inline void RequireNamesField(const absl::Status& status) {
  Require(absl::IsInvalidArgument(status) && ErrorReason(status) == "INVALID_FIELD");
  const ErrorValues values = ErrorDetails(status);
  Require(values.size() == 1 && values[0].first == "field" && !values[0].second.empty());
  Require(std::string(status.message()).starts_with(values[0].second + ": "));
}

}  // namespace memoryd

#endif  // MEMORYD_TESTS_FUZZ_FIELD_ERROR_H_
