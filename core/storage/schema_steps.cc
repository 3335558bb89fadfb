#include "core/storage/schema_steps.h"

#include <span>
#include <string_view>

namespace memoryd {

std::span<const SchemaStep> LaterSteps(std::string_view /*scheme*/) { return {}; }

}  // namespace memoryd
