// What PostgreSQL's settings promise.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_DURABILITY_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_DURABILITY_H_

#include <string_view>

#include "core/storage/store.h"

namespace memoryd {

// The settings of the same names, as current_setting() gives them. A value that is not known
// promises nothing.
Durability DurabilityOf(std::string_view fsync, std::string_view synchronous_commit,
                        std::string_view synchronous_standby_names);

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_DURABILITY_H_
