// Exceptions that nobody throws on purpose, such as std::bad_alloc, as errors.
#ifndef MEMORYD_CORE_BASE_EXCEPTION_H_
#define MEMORYD_CORE_BASE_EXCEPTION_H_

#include "absl/status/status.h"

namespace memoryd {

// INTERNAL with what the exception says that is being handled. In a catch block only:
//
//   } catch (...) {
//     call->Finish(CaughtException());
//   }
//
// A call ends with it where the work on that call is done, so that one call fails and neither its
// thread nor the process does.
absl::Status CaughtException();

}  // namespace memoryd

#endif  // MEMORYD_CORE_BASE_EXCEPTION_H_
