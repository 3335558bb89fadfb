// How the URL of a PostgreSQL store may be spelt.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_POSTGRES_URL_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_POSTGRES_URL_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "core/storage/store_url.h"

namespace memoryd {

// `postgresql://…` or `postgres://…`, also with the name of one of SQLAlchemy's drivers, as in
// `postgresql+psycopg://…`. The place is the URI as libpq takes it, which nobody has looked at
// behind its `postgresql://`.
//
// INVALID_ARGUMENT in words that follow the setting's name and say what to write. They hold no
// password.
absl::StatusOr<StoreUrl> ParsePostgresUrl(std::string_view url);

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_POSTGRES_URL_H_
