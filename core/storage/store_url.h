// What the URL of a store consists of. Each store's folder says which spellings it takes.
#ifndef MEMORYD_CORE_STORAGE_STORE_URL_H_
#define MEMORYD_CORE_STORAGE_STORE_URL_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace memoryd {

struct StoreUrl {
  // The scheme of the StoreKind that serves it.
  std::string_view kind;
  // What the store opens: a file's path, or the URL in the store's own spelling.
  std::string place;
  // The place that earlier versions took this spelling for, where that is another.
  std::string former_place = {};
};

// What stands before the first colon, such as `postgresql+psycopg`; empty where that is no scheme.
std::string_view SchemeOf(std::string_view url);

// The scheme without a driver: `postgresql` of `postgresql+psycopg`.
std::string_view WithoutDriver(std::string_view scheme);

// INVALID_ARGUMENT where the scheme names a driver that is not among `drivers`, in words that
// follow the setting's name. `example` is what to write in its place.
absl::Status CheckDriver(std::string_view scheme, std::span<const std::string_view> drivers,
                         std::string_view example);

// Whether `text` is a path and nothing else, so that it may be shown: it is no part of a password.
bool LooksLikePath(std::string_view text);

// Of a scheme that is not known, no more than this is shown.
inline constexpr std::size_t kLongestShownScheme = 100;

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_STORE_URL_H_
