#include "server/settings/addresses.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "server/settings/setting_value.h"

namespace memoryd {

std::string ParseListen(const std::string& value, std::vector<std::string>& out) {
  out.clear();
  for (std::size_t begin = 0; begin <= value.size();) {
    const std::size_t end = std::min(value.find(',', begin), value.size());
    out.push_back(value.substr(begin, end - begin));
    begin = end + 1;
  }
  for (const std::string& address : out) {
    if (address.starts_with("unix:") && address.size() > 5) continue;
    const std::size_t colon = address.rfind(':');
    int port = 0;
    if (colon == std::string::npos || colon == 0 ||
        !ParseInt(address.substr(colon + 1), 0, 65535, port).empty()) {
      return "must be HOST:PORT or unix:PATH, several separated by commas";
    }
  }
  return {};
}

std::string ParseOrigins(const std::string& value, std::vector<std::string>& out) {
  out.clear();
  for (std::size_t begin = 0; begin < value.size();) {
    const std::size_t end = std::min(value.find(',', begin), value.size());
    const std::string origin = value.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t host = origin.starts_with("http://")    ? 7
                             : origin.starts_with("https://") ? 8
                                                              : origin.size();
    constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyz0123456789.-_:[]";
    if (host == origin.size() || origin.find_first_not_of(kAllowed, host) != std::string::npos) {
      return "must be origins in lower case, such as https://app.example or "
             "http://localhost:3000, several separated by commas";
    }
    out.push_back(origin);
  }
  return {};
}

std::string ParseMetricsListen(const std::string& value, std::string& out) {
  out.clear();
  if (value == "off") return {};
  const std::size_t colon = std::min(value.rfind(':'), value.size());
  std::string host = value.substr(0, colon);
  if (host == "localhost") host = "127.0.0.1";
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  in_addr four{};
  in6_addr six{};
  const bool is_address =
      bracketed ? inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &six) == 1
                : inet_pton(AF_INET, host.c_str(), &four) == 1;
  int port = 0;
  if (!is_address || colon == value.size() ||
      !ParseInt(value.substr(colon + 1), 0, 65535, port).empty()) {
    return "must be off or IP:PORT, such as 127.0.0.1:9464";
  }
  out = fmt::format("{}:{}", host, port);
  return {};
}

std::string ParseEndpoint(const std::string& value, std::string& out) {
  out.clear();
  if (value == "off") return {};
  const std::size_t scheme = value.starts_with("http://")    ? 7
                             : value.starts_with("https://") ? 8
                                                             : 0;
  const bool is_url =
      scheme > 0 && value.size() > scheme && value[scheme] != '/' &&
      std::ranges::all_of(value, [](char c) { return c > ' ' && c < 0x7F && c != '@'; });
  if (!is_url) {
    return "must be off or the URL of a collector, such as http://localhost:4318/v1/traces";
  }
  out = value;
  return {};
}

}  // namespace memoryd
