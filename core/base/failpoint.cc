#include "core/base/failpoint.h"

namespace memoryd {

void ReachFailpoint(std::string_view /*name*/) {}

}  // namespace memoryd
