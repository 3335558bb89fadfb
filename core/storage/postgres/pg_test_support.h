// For tests against a real PostgreSQL: a database of their own, and a link that fails on demand.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_PG_TEST_SUPPORT_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_PG_TEST_SUPPORT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <pqxx/pqxx>
#include <string>
#include <thread>
#include <vector>

#include "core/base/mutex.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"

namespace memoryd {

// A fresh database on the server that the environment variable MEMORYD_TEST_POSTGRES names (a
// superuser's URL), dropped in the end. Throws when there is no server: such a test fails.
class TestDatabase {
 public:
  TestDatabase();
  ~TestDatabase();

  // As for StoreOptions; `host` and `port` replace the server's own.
  std::string Url() const { return Url(host_, port_); }
  std::string Url(const std::string& host, const std::string& port) const;
  const std::string& host() const { return host_; }  // A folder for a UNIX socket.
  const std::string& port() const { return port_; }

  // Runs SQL as the superuser, in a transaction of its own.
  pqxx::result Run(const std::string& sql) const;
  // Ends every connection to the database.
  void TerminateBackends() const;

  // A migrated store.
  std::unique_ptr<Store> Open() const { return Open(Options()); }
  std::unique_ptr<Store> Open(const StoreOptions& options) const;
  StoreOptions Options() const;

 private:
  std::string user_, password_, host_, port_, name_;
  std::unique_ptr<pqxx::connection> admin_;
};

// Passes bytes between clients and the server. Thread-safe.
class TestProxy {
 public:
  enum class Fault {
    kNone,
    kCutRequest,    // The next bytes from a client are not passed on; its connection ends.
    kCutReply,      // The next bytes are passed on; the connection ends at the server's answer.
    kSwallowReply,  // As kCutReply, but the client keeps waiting.
  };

  TestProxy(std::string server_host, std::string server_port);
  ~TestProxy();

  std::string port() const { return std::to_string(port_); }
  // For one connection, the next to send something. `meanwhile` runs before the connection ends.
  void Inject(
      Fault fault, std::function<void()> meanwhile = [] {});
  // While refused, new connections end at once.
  void Refuse(bool refuse);
  // The fault has happened, and `meanwhile` has returned.
  bool injected() const;
  // What the server has sent so far, on all connections.
  std::int64_t replied_bytes() const { return replied_bytes_.load(); }

 private:
  // What is to go wrong with a connection.
  struct Injection {
    Fault fault = Fault::kNone;
    std::function<void()> meanwhile;
  };

  void Accept();
  void Serve(int client);
  // Passes on what has come from one side; false: the connection ends.
  bool PassRequest(int client, int server, Injection& injection) MEMORYD_EXCLUDES(mutex_);
  bool PassReply(int client, int server, const Injection& injection) MEMORYD_EXCLUDES(mutex_);
  void SetInjected();
  int ConnectToServer() const;

  const std::string server_host_, server_port_;
  int listener_ = -1;
  int stop_pipe_[2] = {-1, -1};
  std::uint16_t port_ = 0;
  std::atomic<std::int64_t> replied_bytes_{0};
  mutable Mutex mutex_;
  Fault fault_ MEMORYD_GUARDED_BY(mutex_) = Fault::kNone;
  std::function<void()> meanwhile_ MEMORYD_GUARDED_BY(mutex_);
  bool injected_ MEMORYD_GUARDED_BY(mutex_) = false;
  bool refuse_ MEMORYD_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ MEMORYD_GUARDED_BY(mutex_);
  std::thread acceptor_;
};

// A change that creates `session` (of tenant "t") with `messages` messages.
SessionChange CreateChange(const std::string& session, int messages);
// The change after `before` was committed: `messages` more.
SessionChange NextChange(const SessionChange& before, int messages);
// A message without id.
MessagePtr MakeMessage(std::int64_t position, std::string body);
// A tag and a generation that differ from call to call.
std::uint64_t FreshNumber();

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_PG_TEST_SUPPORT_H_
