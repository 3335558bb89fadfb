#include "core/storage/postgres/pg_test_support.h"

#include <fmt/format.h>
#include <libpq-fe.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/model/message.h"
#include "core/storage/postgres/postgres_store.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"

namespace memoryd {

TestDatabase::TestDatabase() {
  const char* const url = std::getenv("MEMORYD_TEST_POSTGRES");
  if (url == nullptr) throw std::runtime_error("MEMORYD_TEST_POSTGRES is not set");
  PGconn* const connection = PQconnectdb(url);
  if (PQstatus(connection) != CONNECTION_OK) throw std::runtime_error(PQerrorMessage(connection));
  user_ = PQuser(connection);
  password_ = PQpass(connection);
  host_ = PQhost(connection);
  port_ = PQport(connection);
  PQfinish(connection);
  name_ = fmt::format("memoryd_test_{:08x}", std::random_device{}());
  admin_ = std::make_unique<pqxx::connection>(url);
  Run("CREATE DATABASE " + name_ + " TEMPLATE template0 ENCODING 'UTF8'");
  admin_ = std::make_unique<pqxx::connection>(Url());
}

TestDatabase::~TestDatabase() {
  try {
    admin_ = std::make_unique<pqxx::connection>(std::getenv("MEMORYD_TEST_POSTGRES"));
    Run("DROP DATABASE " + name_ + " WITH (FORCE)");
  } catch (const std::exception&) {
    // The server is temporary as well.
  }
}

std::string TestDatabase::Url(const std::string& host, const std::string& port) const {
  std::string url =
      fmt::format("postgresql:///{}?host={}&port={}&user={}", name_, host, port, user_);
  if (!password_.empty()) url += "&password=" + password_;
  return url;
}

pqxx::result TestDatabase::Run(const std::string& sql) const {
  pqxx::nontransaction transaction(*admin_);
  return transaction.exec(sql);
}

void TestDatabase::TerminateBackends() const {
  Run("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
      "WHERE datname = current_database() AND pid <> pg_backend_pid()");
}

StoreOptions TestDatabase::Options() const {
  StoreOptions options;
  options.url = Url();
  return options;
}

std::unique_ptr<Store> TestDatabase::Open(const StoreOptions& options) const {
  auto store = OpenPostgresStore(options);
  if (!store.ok()) throw std::runtime_error(store.status().ToString());
  if (const absl::Status status = (*store)->Migrate(); !status.ok()) {
    throw std::runtime_error(status.ToString());
  }
  return *std::move(store);
}

TestProxy::TestProxy(std::string server_host, std::string server_port)
    : server_host_(std::move(server_host)), server_port_(std::move(server_port)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener_, 64) != 0 || ::pipe(stop_pipe_) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("no proxy");
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { Accept(); });
}

TestProxy::~TestProxy() {
  ::close(stop_pipe_[1]);
  acceptor_.join();
  std::vector<std::thread> threads;
  {
    const MutexLock lock(mutex_);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
  ::close(listener_);
  ::close(stop_pipe_[0]);
}

void TestProxy::Inject(Fault fault, std::function<void()> meanwhile) {
  const MutexLock lock(mutex_);
  fault_ = fault;
  meanwhile_ = std::move(meanwhile);
  injected_ = false;
}

void TestProxy::Refuse(bool refuse) {
  const MutexLock lock(mutex_);
  refuse_ = refuse;
}

bool TestProxy::injected() const {
  const MutexLock lock(mutex_);
  return injected_;
}

void TestProxy::SetInjected() {
  const MutexLock lock(mutex_);
  injected_ = true;
}

void TestProxy::Accept() {
  for (;;) {
    std::array<pollfd, 2> sockets = {{{listener_, POLLIN, 0}, {stop_pipe_[0], POLLIN, 0}}};
    ::poll(sockets.data(), sockets.size(), -1);
    if (sockets[1].revents != 0) return;
    const int client = ::accept(listener_, nullptr, nullptr);
    const MutexLock lock(mutex_);
    if (refuse_) {
      ::close(client);
    } else {
      threads_.emplace_back([this, client] { Serve(client); });
    }
  }
}

int TestProxy::ConnectToServer() const {
  if (server_host_.starts_with('/')) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = server_host_ + "/.s.PGSQL." + server_port_;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    const int server = ::socket(AF_UNIX, SOCK_STREAM, 0);
    if (::connect(server, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
      return server;
    }
    ::close(server);
    return -1;
  }
  addrinfo* found = nullptr;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(server_host_.c_str(), server_port_.c_str(), &hints, &found) != 0) return -1;
  const int server = ::socket(found->ai_family, SOCK_STREAM, 0);
  const bool connected = ::connect(server, found->ai_addr, found->ai_addrlen) == 0;
  ::freeaddrinfo(found);
  if (connected) return server;
  ::close(server);
  return -1;
}

void TestProxy::Serve(int client) {
  const int server = ConnectToServer();
  Injection injection;
  bool open = true;
  while (open) {
    std::array<pollfd, 3> sockets = {
        {{client, POLLIN, 0}, {server, POLLIN, 0}, {stop_pipe_[0], POLLIN, 0}}};
    ::poll(sockets.data(), sockets.size(), -1);
    if (sockets[2].revents != 0) break;
    if (sockets[0].revents != 0) open = PassRequest(client, server, injection);
    if (open && sockets[1].revents != 0) open = PassReply(client, server, injection);
  }
  ::close(client);
  ::close(server);
}

bool TestProxy::PassRequest(int client, int server, Injection& injection) {
  char buffer[65536];
  const ssize_t size = ::recv(client, buffer, sizeof(buffer), 0);
  if (size <= 0) return false;
  if (injection.fault == Fault::kNone) {
    const MutexLock lock(mutex_);
    injection = {std::exchange(fault_, Fault::kNone), meanwhile_};
  }
  if (injection.fault == Fault::kCutRequest) {
    injection.meanwhile();
    SetInjected();
    return false;
  }
  ::send(server, buffer, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  return true;
}

bool TestProxy::PassReply(int client, int server, const Injection& injection) {
  char buffer[65536];
  const ssize_t size = ::recv(server, buffer, sizeof(buffer), 0);
  if (size <= 0) return false;
  replied_bytes_ += size;
  if (injection.fault == Fault::kSwallowReply) {
    SetInjected();
    return true;
  }
  if (injection.fault == Fault::kCutReply) {
    injection.meanwhile();
    SetInjected();
    return false;
  }
  ::send(client, buffer, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  return true;
}

std::uint64_t FreshNumber() {
  static std::atomic<std::uint64_t> last{0xF000000000000000};  // Beyond what a signed number holds.
  return ++last;
}

MessagePtr MakeMessage(std::int64_t position, std::string body) {
  MessageDraft message;
  message.position = position;
  message.role = Role::kUser;
  message.token_count = 7;
  message.ingest_us = 1'700'000'000'000'000 + position;
  message.body = std::move(body);
  return message;
}

SessionChange CreateChange(const std::string& session, int messages) {
  SessionChange change;
  change.key = {"t", session};
  change.row.generation = FreshNumber();
  change.row.config = "config";
  change.write_config = true;
  change.row.create_us = 1;
  SessionChange next = NextChange(change, messages);
  next.write_config = true;
  return next;
}

SessionChange NextChange(const SessionChange& before, int messages) {
  SessionChange change;
  change.key = before.key;
  change.row = before.row;
  change.expected_revision = before.row.revision;
  change.row.revision = before.row.revision + 1;
  change.row.update_us = change.row.revision;
  change.row.commit_tag = FreshNumber();
  for (int i = 0; i < messages; ++i) {
    const std::int64_t position = change.row.next_position++;
    change.messages.push_back(
        MakeMessage(position, fmt::format("{} {}", before.key.session, position)));
  }
  change.row.active_count += messages;
  return change;
}

}  // namespace memoryd
