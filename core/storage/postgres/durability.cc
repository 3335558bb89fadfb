#include "core/storage/postgres/durability.h"

#include <string_view>

#include "core/storage/store.h"

namespace memoryd {

Durability DurabilityOf(std::string_view fsync, std::string_view synchronous_commit,
                        std::string_view synchronous_standby_names) {
  if (fsync != "on") return Durability::kNone;
  if (synchronous_commit == "local") return Durability::kLocal;
  // remote_write: the standby's system has it, though not yet its disk.
  if (synchronous_commit == "on" || synchronous_commit == "remote_apply" ||
      synchronous_commit == "remote_write") {
    return synchronous_standby_names.empty() ? Durability::kLocal : Durability::kReplicated;
  }
  return Durability::kNone;
}

}  // namespace memoryd
