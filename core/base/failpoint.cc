#include "core/base/failpoint.h"

#include <string_view>

namespace memoryd {

void ReachFailpoint(std::string_view /*name*/) {}

}  // namespace memoryd
