// Files that settings name: certificates, keys, credentials.
#ifndef MEMORYD_CORE_BASE_SECRET_FILE_H_
#define MEMORYD_CORE_BASE_SECRET_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace memoryd {

// A file of which only its content tells whether it holds secrets.
struct FileContent {
  std::string text;
  // What ReadSecretFile would have said, FAILED_PRECONDITION or OK.
  absl::Status secrecy;
};
absl::StatusOr<FileContent> ReadAnyFile(const std::string& path);

// The content of a file, at most 16 MiB. NOT_FOUND or UNAVAILABLE with one line that begins with
// the path.
absl::StatusOr<std::string> ReadPublicFile(const std::string& path);

// The same for a file that holds secrets: FAILED_PRECONDITION when users other than its owner and
// group may read or write it.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BASE_SECRET_FILE_H_
