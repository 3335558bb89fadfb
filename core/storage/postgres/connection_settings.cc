#include "core/storage/postgres/connection_settings.h"

#include <fmt/format.h>
#include <libpq-fe.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/storage/postgres/postgres_url.h"
#include "core/storage/postgres/statement_names.h"
#include "core/storage/store_url.h"
#include "core/storage/stores.h"

namespace memoryd {

std::string ConnectionSettings::ConnectionString() const {
  std::string text;
  for (const auto& [keyword, value] : values) {
    text += keyword + "='";
    for (const char c : value) {
      if (c == '\'' || c == '\\') text += '\\';
      text += c;
    }
    text += "' ";
  }
  return text;
}

absl::StatusOr<ConnectionSettings> MakeConnectionSettings(const StoreOptions& options) {
  const absl::StatusOr<StoreUrl> url = ParsePostgresUrl(options.url);
  if (!url.ok()) return InvalidField("store", std::string(url.status().message()));
  char* error = nullptr;
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> parsed(
      PQconninfoParse(url->place.c_str(), &error), &PQconninfoFree);
  if (parsed == nullptr) {
    PQfreemem(error);  // Not passed on: it quotes the URL, which may hold a password.
    for (const char* const parameter : {"?ssl=", "&ssl="}) {
      if (url->place.find(parameter) == std::string::npos) continue;
      return InvalidField("store", "has the parameter ssl, which is asyncpg's: write sslmode");
    }
    return InvalidField("store", "is not a valid postgresql:// URL");
  }
  std::map<std::string, std::string> values;
  for (const PQconninfoOption* option = parsed.get(); option->keyword != nullptr; ++option) {
    if (option->val != nullptr) values[option->keyword] = option->val;
  }

  // libpq's errors, which are logged, name hosts and ports. An abstract socket begins with an @.
  if (values["host"].find('@', 1) != std::string::npos ||
      values["port"].find_first_not_of("0123456789,") != std::string::npos) {
    return InvalidField("store",
                        "has no valid host and port: a password's @ : / are written %40 %3A %2F");
  }
  for (const char* const keyword : {"host", "port"}) {
    if (values[keyword].empty()) values.erase(keyword);
  }

  // libpq waits at least two seconds for each host. A single one has the whole call to answer, for
  // a busy server takes long to start a backend; of several the next must get its turn.
  const auto is_list = [&values](const char* keyword) {
    const auto found = values.find(keyword);
    return found != values.end() && found->second.find(',') != std::string::npos;
  };
  const bool one_host = !is_list("host") && !is_list("hostaddr");
  const int seconds = options.timeout_ms / 1000 / (one_host ? 1 : 2);
  values.try_emplace("connect_timeout", std::to_string(std::clamp(seconds, 2, 10)));
  values.try_emplace("keepalives", "1");
  values.try_emplace("keepalives_idle", "10");
  values.try_emplace("keepalives_interval", "3");
  values.try_emplace("keepalives_count", "3");
  values.try_emplace("tcp_user_timeout", std::to_string(2 * options.timeout_ms));
  values.try_emplace("target_session_attrs", "read-write");
  values.try_emplace("application_name", "memoryd");
  values["client_encoding"] = "UTF8";
  if (options.transaction_pooling == Pooling::kNone) {
    // The statement must give up before the caller does (batch_writer.h), a waiter for a lock
    // before the statement. Plans of the few shapes there are do not depend on the values, nor may
    // they be of a time when tables were small: rows are reached by an index, and read in its
    // order, as many as are wanted.
    values["options"] = fmt::format(
        "-c statement_timeout={} -c lock_timeout={} "
        "-c idle_in_transaction_session_timeout=10000 -c jit=off "
        "-c plan_cache_mode=force_generic_plan -c enable_bitmapscan=off -c enable_seqscan=off "
        "-c enable_hashjoin=off -c enable_mergejoin=off "
        "-c default_transaction_isolation=read\\ committed {}",
        std::max(1, options.timeout_ms / 2), std::max(1, options.timeout_ms / 8),
        values["options"]);
  }
  ConnectionSettings settings;
  settings.values.assign(values.begin(), values.end());
  settings.names = std::make_shared<StatementNames>(options.transaction_pooling, options.warn);
  return settings;
}

}  // namespace memoryd
