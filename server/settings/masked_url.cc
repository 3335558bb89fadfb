#include "server/settings/masked_url.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>

#include "core/storage/store_url.h"
#include "core/storage/stores.h"

namespace memoryd {
namespace {

constexpr std::string_view kMask = "***";

// https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS
constexpr std::array<std::string_view, 40> kOpenParameters = {
    "application_name",
    "channel_binding",
    "client_encoding",
    "connect_timeout",
    "dbname",
    "fallback_application_name",
    "gssdelegation",
    "gssencmode",
    "gsslib",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "krbsrvname",
    "load_balance_hosts",
    "options",
    "passfile",
    "port",
    "replication",
    "require_auth",
    "requirepeer",
    "requiressl",
    "service",
    "ssl_max_protocol_version",
    "ssl_min_protocol_version",
    "sslcert",
    "sslcertmode",
    "sslcompression",
    "sslcrl",
    "sslcrldir",
    "sslkey",
    "sslmode",
    "sslnegotiation",
    "sslrootcert",
    "sslsni",
    "target_session_attrs",
    "tcp_user_timeout",
    "user",
};

// libpq takes `%70assword` for `password`.
std::string Decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const bool is_escape =
        text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ptr ==
            text.data() + i + 3;
    decoded += is_escape ? static_cast<char>(value) : text[i];
    if (is_escape) i += 2;
  }
  return decoded;
}

bool IsOpen(std::string_view key, std::string_view value) {
  // A connection string of its own, which may hold a password too.
  const std::string name = Decoded(key);
  if (name == "dbname" && Decoded(value).find_first_of("=@") != std::string::npos) return false;
  return std::ranges::find(kOpenParameters, name) != kOpenParameters.end();
}

template <typename MayShow>
std::string MaskedParameters(std::string_view query, const MayShow& may_show) {
  std::string masked;
  while (!query.empty()) {
    const std::size_t end = std::min(query.find_first_of("&;"), query.size());
    const std::string_view parameter = query.substr(0, end);
    const std::size_t equals = std::min(parameter.find('='), parameter.size());
    const std::string_view value = parameter.substr(std::min(equals + 1, parameter.size()));
    if (equals == parameter.size()) {
      masked += parameter.empty() ? parameter : kMask;
    } else {
      masked += parameter.substr(0, equals + 1);
      masked += may_show(parameter.substr(0, equals), value) ? value : kMask;
    }
    if (end < query.size()) masked += query[end];
    query.remove_prefix(std::min(end + 1, query.size()));
  }
  return masked;
}

// What stands before a host, `user:password@`. A password that is not encoded may have any
// character, also one that ends a host elsewhere; so all up to the last @ is of it.
std::string MaskedUser(std::string_view rest) {
  const std::size_t at = rest.rfind('@');
  const std::size_t colon = rest.find(':');
  if (at == std::string_view::npos || colon == std::string_view::npos || colon > at) {
    return std::string(rest);
  }
  std::string masked(rest.substr(0, colon + 1));
  masked += kMask;
  masked += rest.substr(at);
  return masked;
}

// The place of the parameters' `?`, which a password may hold as well.
std::size_t QueryOf(std::string_view url) {
  const std::size_t scheme = url.find("://");
  const std::size_t begin = scheme == std::string_view::npos ? 0 : scheme + 3;
  const std::string_view rest = url.substr(begin);
  // As libpq looks for the user's end: the first @ before any slash.
  const std::size_t at = std::min(rest.find('@'), rest.size());
  const std::size_t from = at < std::min(rest.find('/'), rest.size()) ? begin + at : begin;
  return std::min(url.find('?', from), url.size());
}

}  // namespace

std::string MaskedStore(std::string_view url) {
  const StoreKind* const kind = FindStoreKind(url);
  if (kind != nullptr && kind->url_is_path) return std::string(url);
  // Of no kind too, which is refused once it was printed: `postgre://user:password@…`.
  const std::string_view scheme = SchemeOf(url);
  if (scheme.empty()) return MaskedText(url);
  const std::string_view rest = url.substr(scheme.size() + 1);
  if (!rest.starts_with("//")) return std::string(scheme) + ":" + std::string(kMask);
  const std::size_t query = QueryOf(url);
  const std::size_t begin = scheme.size() + 3;
  std::string masked(url.substr(0, begin));
  std::string place = MaskedUser(url.substr(begin, query - begin));
  // An @ behind the `?`: what stands before it may be a password with a slash and a question mark.
  if (place.find('@') == std::string::npos && url.find('@', query) != std::string_view::npos) {
    const std::size_t colon = std::min(place.find(':'), place.size());
    if (colon < place.size()) place = place.substr(0, colon + 1) + std::string(kMask);
  }
  // A database that is a connection string.
  masked += Decoded(place).find('=') == std::string::npos ? place : std::string(kMask);
  if (query < url.size()) {
    masked += '?';
    masked += MaskedParameters(url.substr(query + 1), &IsOpen);
  }
  return masked;
}

std::string MaskedEndpoint(std::string_view url) {
  const std::size_t query = std::min(url.find_first_of("?#"), url.size());
  std::string masked(url.substr(0, query));
  if (query < url.size()) {
    masked += url[query];
    masked += MaskedParameters(url.substr(query + 1), [](auto, auto) { return false; });
  }
  return masked;
}

std::string MaskedText(std::string_view text) {
  std::size_t end = text.size();
  for (const std::string_view mark : {"postgres", "://", "password"}) {
    const std::size_t found = text.find(mark);
    if (found != std::string_view::npos) end = std::min(end, found + mark.size());
  }
  std::string masked(text.substr(0, end));
  if (end < text.size()) masked += kMask;
  return masked;
}

}  // namespace memoryd
