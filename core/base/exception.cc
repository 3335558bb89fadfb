#include "core/base/exception.h"

#include <exception>
#include <string>

#include "absl/status/status.h"

namespace memoryd {

absl::Status CaughtException() {
  try {
    throw;
  } catch (const std::exception& error) {
    return absl::InternalError(std::string("an exception: ").append(error.what()));
  } catch (...) {
    return absl::InternalError("an exception of an unknown kind");
  }
}

}  // namespace memoryd
