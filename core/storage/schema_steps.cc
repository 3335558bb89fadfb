#include "core/storage/schema_steps.h"

namespace memoryd {

std::span<const SchemaStep> LaterSteps(std::string_view /*scheme*/) { return {}; }

}  // namespace memoryd
