// Times on the command line.
#ifndef MEMORYD_CLI_TIME_TEXT_H_
#define MEMORYD_CLI_TIME_TEXT_H_

#include <google/protobuf/timestamp.pb.h>

#include <string>

#include "absl/status/statusor.h"

namespace memoryd::cli {

// `2026-11-23T04:08:00Z`, with a fraction or an offset if need be, or `2026-11-23`, which is its
// midnight in UTC. INVALID_ARGUMENT.
absl::StatusOr<google::protobuf::Timestamp> ParseTimestamp(const std::string& text);

// To the second, in UTC; empty where it is not set.
std::string TimeText(const google::protobuf::Timestamp& time);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_TIME_TEXT_H_
