#ifndef MEMORYD_CORE_TOKENS_PYTHON_REPR_H_
#define MEMORYD_CORE_TOKENS_PYTHON_REPR_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace memoryd {

// What Python 3.11 prints for str(json.loads(json)): {'k': "it's", 'f': 2.0, 'n': None}. Keys keep
// their order, 1 and 1.0 stay apart, integers keep all digits. At top level str() of a string is
// the string itself. Any JSON value is taken; InvalidArgument for what CheckJsonObject refuses
// otherwise, in its default limits.
absl::StatusOr<std::string> PythonRepr(std::string_view json);

}  // namespace memoryd

#endif  // MEMORYD_CORE_TOKENS_PYTHON_REPR_H_
