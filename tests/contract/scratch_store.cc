#include "tests/contract/scratch_store.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"

namespace memoryd {
namespace {

class FileStore final : public ScratchStore {
 public:
  FileStore() {
    std::string name = (std::filesystem::temp_directory_path() / "memoryd-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
  }
  ~FileStore() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string url() const override { return "sqlite:" + (folder_ / "memory.db").string(); }

 private:
  std::filesystem::path folder_;
};

class MemoryStore final : public ScratchStore {
 public:
  std::string url() const override { return "sqlite::memory:"; }
};

absl::Status Execute(const std::string& url, const std::string& sql) {
  struct Finish {
    void operator()(PGconn* connection) const { PQfinish(connection); }
    void operator()(PGresult* result) const { PQclear(result); }
  };
  const std::unique_ptr<PGconn, Finish> connection(PQconnectdb(url.c_str()));
  if (PQstatus(connection.get()) != CONNECTION_OK) {
    return absl::UnavailableError(PQerrorMessage(connection.get()));
  }
  PQsetNoticeProcessor(
      connection.get(), [](void*, const char*) {}, nullptr);
  const std::unique_ptr<PGresult, Finish> result(PQexec(connection.get(), sql.c_str()));
  if (PQresultStatus(result.get()) != PGRES_COMMAND_OK) {
    return absl::InternalError(PQerrorMessage(connection.get()));
  }
  return absl::OkStatus();
}

// `url` with the path, which names the database, replaced by `database`.
std::string WithDatabase(std::string_view url, std::string_view database) {
  const std::size_t authority = url.find("://") + 3;
  const std::size_t query = std::min(url.find('?'), url.size());
  const std::size_t path = std::min(url.find('/', authority), query);
  return fmt::format("postgresql://{}/{}{}", url.substr(authority, path - authority), database,
                     url.substr(query));
}

// The process's own database; dropped after the last test.
class PostgresDatabase final : public ::testing::Environment {
 public:
  // The URL of the database, made at the first call.
  absl::StatusOr<std::string> Url() {
    if (!url_.empty()) return url_;
    const char* server = std::getenv("MEMORYD_TEST_POSTGRES");
    if (server == nullptr || std::string_view(server).find("://") == std::string_view::npos) {
      return absl::FailedPreconditionError(
          "MEMORYD_TEST_POSTGRES must be the URL of a superuser, such as "
          "postgresql://postgres@127.0.0.1:5432/postgres");
    }
    const std::string name = fmt::format("memoryd_contract_{}", ::getpid());
    MEMORYD_RETURN_IF_ERROR(Execute(server, fmt::format("DROP DATABASE IF EXISTS {}", name)));
    MEMORYD_RETURN_IF_ERROR(
        Execute(server, fmt::format("CREATE DATABASE {} TEMPLATE template0", name)));
    server_ = server;
    drop_ = fmt::format("DROP DATABASE {} WITH (FORCE)", name);
    url_ = WithDatabase(server, name);
    return url_;
  }

  void TearDown() override {
    if (drop_.empty()) return;
    const absl::Status status = Execute(server_, drop_);
    EXPECT_TRUE(status.ok()) << status;
  }

 private:
  std::string server_;
  std::string drop_;
  std::string url_;
};

// GoogleTest owns it and ends it after the last test.
PostgresDatabase& TheDatabase() {
  static auto* const database =
      static_cast<PostgresDatabase*>(::testing::AddGlobalTestEnvironment(new PostgresDatabase));
  return *database;
}

// Registered before main(): environments added during a test are not torn down.
[[maybe_unused]] const bool registered = (TheDatabase(), true);

class PostgresStore final : public ScratchStore {
 public:
  explicit PostgresStore(std::string url) : url_(std::move(url)) {}
  std::string url() const override { return url_; }

 private:
  const std::string url_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ScratchStore>> MakeScratchStore(std::string_view scheme) {
  if (scheme == "sqlite") return std::make_unique<FileStore>();
  if (scheme == "postgresql") {
    MEMORYD_ASSIGN_OR_RETURN(const std::string url, TheDatabase().Url());
    MEMORYD_RETURN_IF_ERROR(
        Execute(url, "DROP SCHEMA IF EXISTS public CASCADE; CREATE SCHEMA public"));
    return std::make_unique<PostgresStore>(url);
  }
  return absl::InvalidArgumentError(
      fmt::format("teach MakeScratchStore the new kind of store: {}", scheme));
}

std::unique_ptr<ScratchStore> MakeMemoryStore() { return std::make_unique<MemoryStore>(); }

}  // namespace memoryd
