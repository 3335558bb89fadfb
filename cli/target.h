// Which server a command asks unless it is told.
#ifndef MEMORYD_CLI_TARGET_H_
#define MEMORYD_CLI_TARGET_H_

#include <optional>
#include <string>

namespace memoryd::cli {

inline constexpr char kDefaultTarget[] = "localhost:50051";

// An address that stands in a variable of an older name.
struct OldTarget {
  std::string variable;
  std::string target;
};

// That of MEMORYD_ADDRESS, HOST:PORT, else of MEMORYD_URI, memoryd://HOST:PORT or memoryd:///PATH;
// none where MEMORYD_TARGET is set, or none of these.
std::optional<OldTarget> FindOldTarget();

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_TARGET_H_
