// Early return for absl::Status and absl::StatusOr.
#ifndef MEMORYD_CORE_BASE_STATUS_MACROS_H_
#define MEMORYD_CORE_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the function when `expression` is an error.
#define MEMORYD_RETURN_IF_ERROR(expression)                                 \
  do {                                                                      \
    if (absl::Status memoryd_status = (expression); !memoryd_status.ok()) { \
      return memoryd_status;                                                \
    }                                                                       \
  } while (false)

// MEMORYD_ASSIGN_OR_RETURN(const int n, Parse(text)); declares `n`, or returns the error.
#define MEMORYD_ASSIGN_OR_RETURN(declaration, expression) \
  MEMORYD_ASSIGN_OR_RETURN_(MEMORYD_CONCAT_(memoryd_result_, __LINE__), declaration, expression)

// NOLINTBEGIN(bugprone-macro-parentheses): a declaration can't stand in parentheses.
#define MEMORYD_ASSIGN_OR_RETURN_(result, declaration, expression) \
  auto result = (expression);                                      \
  if (!result.ok()) return std::move(result).status();             \
  declaration = *std::move(result)
// NOLINTEND(bugprone-macro-parentheses)

#define MEMORYD_CONCAT_(a, b) MEMORYD_CONCAT_INNER_(a, b)
#define MEMORYD_CONCAT_INNER_(a, b) a##b

#endif  // MEMORYD_CORE_BASE_STATUS_MACROS_H_
