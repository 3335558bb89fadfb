// How a session remembers, on the wire and in the core.
#ifndef MEMORYD_SERVER_WIRE_CONVERT_CONFIG_H_
#define MEMORYD_SERVER_WIRE_CONVERT_CONFIG_H_

#include "absl/status/statusor.h"
#include "core/model/session_config.h"
#include "memoryd/v1/memory.pb.h"

namespace memoryd {

// Checks what the wire alone knows. INVALID_ARGUMENT that names the field; what else a
// configuration must be is seen when it is made complete.
absl::StatusOr<SessionSettings> FromProto(const v1::SessionConfig& config);

// What stands beside the name of a template: at most `subject` and `time_zone`. INVALID_ARGUMENT
// that names `template` and the field for anything else.
absl::StatusOr<SessionSettings> FromConfigBesideTemplate(const v1::SessionConfig& config);

// The block as it was configured.
v1::Block ToProto(const BlockSettings& settings);

// The configuration, complete.
v1::SessionConfig ToProto(const SessionConfig& config);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_WIRE_CONVERT_CONFIG_H_
