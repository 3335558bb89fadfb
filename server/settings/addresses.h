// Addresses and URLs in settings. As in setting_value.h, each function sets `out`, or returns what
// is wrong.
#ifndef MEMORYD_SERVER_SETTINGS_ADDRESSES_H_
#define MEMORYD_SERVER_SETTINGS_ADDRESSES_H_

#include <string>
#include <vector>

namespace memoryd {

// HOST:PORT or unix:PATH, several separated by commas.
std::string ParseListen(const std::string& value, std::vector<std::string>& out);
// Origins of sites as browsers write them, several separated by commas. Empty: none.
std::string ParseOrigins(const std::string& value, std::vector<std::string>& out);
// One address, by its IP or as localhost; `off` for none.
std::string ParseMetricsListen(const std::string& value, std::string& out);
// The URL of a collector, without credentials: it is printed. `off` for none.
std::string ParseEndpoint(const std::string& value, std::string& out);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_SETTINGS_ADDRESSES_H_
