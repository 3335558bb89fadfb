#include "core/storage/schema_steps.h"

namespace memoryd {

std::span<const SchemaStep> LaterPostgresSteps() { return {}; }
std::span<const SchemaStep> LaterSqliteSteps() { return {}; }

}  // namespace memoryd
