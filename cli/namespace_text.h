// Paths of namespaces on the command line.
#ifndef MEMORYD_CLI_NAMESPACE_TEXT_H_
#define MEMORYD_CLI_NAMESPACE_TEXT_H_

#include <google/protobuf/repeated_field.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace memoryd::cli {

// `users/ada` is ["users", "ada"]. A path with a name that has a `/` is written as an array in
// JSON, which is what begins with `[`. INVALID_ARGUMENT for one that is none, or has no texts.
absl::StatusOr<std::vector<std::string>> ParseNamespace(const std::string& text);

// What ParseNamespace() reads back.
std::string NamespaceText(const google::protobuf::RepeatedPtrField<std::string>& names);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_NAMESPACE_TEXT_H_
