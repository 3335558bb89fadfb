// What the server's commands print on standard output, for people and for programs.
#ifndef MEMORYD_SERVER_ANNOUNCEMENT_H_
#define MEMORYD_SERVER_ANNOUNCEMENT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace memoryd {

// Where a server listens: addresses as the settings have them, but with the ports that it got.
struct Listening {
  std::vector<std::string> listen;  // At least one.
  std::vector<std::string> health = {};
  std::vector<std::string> http = {};
  std::string metrics = {};  // Empty for none.
};

// What a client on this machine, in whichever folder, calls the server by.
std::string TargetOf(const Listening& listening);

// `listening on ADDRESS` for each address; before that `metrics on ADDRESS` and `http on …`, then
// `health on …`.
std::string ListeningLines(const Listening& listening);

// Of the functions below each gives one JSON object on a line.

// `target`, `listen`; `metrics`, `health` and `http` where there are such.
std::string ListeningJson(const Listening& listening);

// Of --check-config: `valid`, with `warnings` where it is and `error` where it is not.
std::string CheckedJson(const absl::Status& checked, const std::vector<std::string>& warnings);

// Of migrate: the store's `kind` and `schema_version`.
std::string MigratedJson(std::string_view kind, std::int64_t schema_version);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_ANNOUNCEMENT_H_
