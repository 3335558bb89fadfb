// Where libpqxx 6.4 (Debian 12) and 7.x (Debian 13) differ.
//
// Traps of 6.4 that its users here must know: text parameters end at their first NUL, so bytes
// never travel as text; a lost connection is reopened behind the caller's back at its second use,
// which DisableReconnect() ends; a transaction conflict is no sql_error and has no SQLSTATE; some
// errors have none though the server gave one, see SqlState(); a statement is prepared by its first
// use.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_PQXX_COMPAT_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_PQXX_COMPAT_H_

#include <pqxx/pqxx>
#include <span>
#include <string>

namespace memoryd::pqxx_compat {

// Of an error of the server's; empty when it is the connection that failed.
inline std::string SqlState(const pqxx::sql_error& error) {
  if (!error.sqlstate().empty()) return error.sqlstate();
  if (dynamic_cast<const pqxx::insufficient_privilege*>(&error) != nullptr) return "42501";
  if (dynamic_cast<const pqxx::disk_full*>(&error) != nullptr) return "53100";
  if (dynamic_cast<const pqxx::out_of_memory*>(&error) != nullptr) return "53200";
  return {};
}

#if PQXX_VERSION_MAJOR >= 7

inline void DisableReconnect(pqxx::connection&) {}

inline void Prepare(pqxx::connection& connection, const std::string& name, const char* sql) {
  connection.prepare(name, sql);
}

inline pqxx::params Params(std::span<const std::string> values) {
  pqxx::params params;
  for (const std::string& value : values) params.append(value);
  return params;
}

inline pqxx::result ExecPrepared(pqxx::transaction_base& transaction, const std::string& name,
                                 std::span<const std::string> params) {
  return transaction.exec(pqxx::prepped{name}, Params(params));
}

inline pqxx::result ExecParams(pqxx::transaction_base& transaction, const std::string& sql,
                               std::span<const std::string> params) {
  return transaction.exec(sql, Params(params));
}

inline std::string Bytes(const pqxx::field& field) {
  const auto bytes = field.as<pqxx::bytes>();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

#else

inline void DisableReconnect(pqxx::connection& connection) {
  // Deprecated because 7.x never reconnects; there is no other way in 6.4.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  connection.inhibit_reactivation(true);
#pragma GCC diagnostic pop
}

// At once, and not at the first use.
inline void Prepare(pqxx::connection& connection, const std::string& name, const char* sql) {
  connection.prepare(name, sql);
  connection.prepare_now(name);
}

inline pqxx::result ExecPrepared(pqxx::transaction_base& transaction, const std::string& name,
                                 std::span<const std::string> params) {
  return transaction.exec_prepared(
      name, pqxx::prepare::make_dynamic_params(params.begin(), params.end()));
}

inline pqxx::result ExecParams(pqxx::transaction_base& transaction, const std::string& sql,
                               std::span<const std::string> params) {
  return transaction.exec_params(sql,
                                 pqxx::prepare::make_dynamic_params(params.begin(), params.end()));
}

inline std::string Bytes(const pqxx::field& field) { return pqxx::binarystring(field).str(); }

#endif

}  // namespace memoryd::pqxx_compat

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_PQXX_COMPAT_H_
