#ifndef MEMORYD_SERVER_BINARY_PATH_H_
#define MEMORYD_SERVER_BINARY_PATH_H_

#include <filesystem>

namespace memoryd {

// The absolute path, without symbolic links, of the file that this process runs: what the link
// `self` points to, and where there is no /proc, the name that the kernel was given. Empty where
// that is of no file. Call it before the working directory changes: the name may be relative to it.
std::filesystem::path BinaryPath(const std::filesystem::path& self = "/proc/self/exe");

}  // namespace memoryd

#endif  // MEMORYD_SERVER_BINARY_PATH_H_
