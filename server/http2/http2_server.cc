#include "server/http2/http2_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/histogram.h"
#include "core/base/memory_budget.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "core/calls/executor.h"
#include "server/http2/connection.h"
#include "server/http2/event_loop.h"
#include "server/http2/http2_connection.h"
#include "server/http2/http2_stats.h"
#include "server/http2/listening_socket.h"
#include "server/http2/transport.h"
#include "server/http2/unauthenticated_pot.h"
#include "server/wire/rpc_call.h"

namespace memoryd {
namespace {

constexpr int kLargeMessageThreads = 2;
constexpr std::size_t kMaxLargeMessages = 1024;
// Connections taken before others of the loop have their turn.
constexpr int kAcceptAtOnce = 16;
constexpr std::chrono::milliseconds kShutdownLook(5);

// The bytes of an IP address; empty for a UNIX socket.
std::string AddressOf(const sockaddr_storage& name) {
  if (name.ss_family == AF_INET) {
    const auto& address = reinterpret_cast<const sockaddr_in&>(name).sin_addr;
    return {reinterpret_cast<const char*>(&address), sizeof(address)};
  }
  if (name.ss_family == AF_INET6) {
    const auto& address = reinterpret_cast<const sockaddr_in6&>(name).sin6_addr;
    const std::string_view bytes(reinterpret_cast<const char*>(&address), sizeof(address));
    // One machine of a /64 has as many addresses as it likes.
    constexpr std::size_t kNetwork = 8;
    constexpr std::size_t kMappedAt = 12;
    return std::string(IN6_IS_ADDR_V4MAPPED(&address) ? bytes.substr(kMappedAt)
                                                      : bytes.substr(0, kNetwork));
  }
  return {};
}

// Bounds the connections, and what they take from the pot, in all and of one address. Callers of a
// UNIX socket have no address, and are bounded together with all. Any thread.
class PeerAddresses {
 public:
  PeerAddresses(UnauthenticatedPot* pot, std::size_t most, std::size_t most_of_one)
      : pot_(*pot), most_(most), most_of_one_(most_of_one) {}

  // Takes `bytes` for a connection. Null, and `why` set, when it may not come.
  std::shared_ptr<PotShare> Enter(const std::string& address, std::int64_t bytes,
                                  ConnectionEnd& why) {
    MutexLock lock(mutex_);
    why = ConnectionEnd::kTooMany;
    if (count_ >= most_) return nullptr;
    auto found = peers_.find(address);
    if (found == peers_.end()) {
      constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
      auto share = std::make_shared<PotShare>(&pot_, address.empty() ? kNone : pot_.limit() / 2);
      found = peers_.emplace(address, Peer{0, std::move(share)}).first;
    }
    Peer& peer = found->second;
    const bool too_many = !address.empty() && peer.connections >= most_of_one_;
    const PotShare::Outcome outcome =
        too_many ? PotShare::Outcome::kShareEmpty : peer.share->Take(bytes);
    if (outcome == PotShare::Outcome::kTaken) {
      ++peer.connections;
      ++count_;
      return peer.share;
    }
    if (outcome == PotShare::Outcome::kShareEmpty) why = ConnectionEnd::kTooManyOfOne;
    if (peer.connections == 0) peers_.erase(found);
    return nullptr;
  }

  // Its bytes have been given back.
  void Leave(const std::string& address) {
    MutexLock lock(mutex_);
    --count_;
    const auto found = peers_.find(address);
    if (--found->second.connections == 0) peers_.erase(found);
  }

 private:
  struct Peer {
    std::size_t connections = 0;
    std::shared_ptr<PotShare> share;
  };

  UnauthenticatedPot& pot_;
  const std::size_t most_;
  const std::size_t most_of_one_;
  Mutex mutex_;
  std::size_t count_ MEMORYD_GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::string, Peer> peers_ MEMORYD_GUARDED_BY(mutex_);
};

// The connections of one loop.
class Shard final : public ConnectionOwner {
 public:
  // `make` outlives it. `on_tick` runs once a second, with the loop's turn.
  Shard(const Http2Environment& environment, const ConnectionMaker* make, PeerAddresses* peers,
        EventLoop::Task on_tick)
      : environment_(environment),
        make_(*make),
        peers_(*peers),
        on_tick_(std::move(on_tick)),
        loop_(std::make_shared<EventLoop>([this] { Tick(); }, [this] { FlushTouched(); },
                                          environment.stats->exception_counter())) {}

  void Start() { loop_->Start(); }
  void Stop() { loop_->Stop(); }
  EventLoop& loop() { return *loop_; }

  void Add(int socket, std::unique_ptr<Transport> transport, const std::shared_ptr<PotShare>& share,
           std::int64_t bytes, const std::string& address) {
    std::shared_ptr<Connection> connection;
    try {
      connection = make_({&environment_, loop_, this, socket, std::move(transport), share, bytes});
      connections_.emplace(connection.get(), Kept{connection, address});
    } catch (...) {
      Increment(*environment_.stats->exception_counter());
      environment_.stats->Refused(ConnectionEnd::kException);
      share->Give(bytes);
      peers_.Leave(address);
      return;
    }
    open_.fetch_add(1, std::memory_order_relaxed);
    connection->Start();
    if (shutting_down_) connection->BeginShutdown();
  }

  void BeginShutdown() {
    shutting_down_ = true;
    for (const auto& connection : All()) connection->BeginShutdown();
  }

  void CloseAll() {
    // Each takes itself out. A list of them would need memory, and the loop waits for their end.
    while (!connections_.empty()) {
      const std::shared_ptr<Connection> connection = connections_.begin()->second.connection;
      connection->Close(ConnectionEnd::kShutdown);
    }
  }

  // Any thread.
  std::size_t open() const { return open_.load(std::memory_order_relaxed); }

  void Touched(std::shared_ptr<Connection> connection) override {
    touched_.push_back(std::move(connection));
  }

  void Closed(Connection* connection) override {
    const auto found = connections_.find(connection);
    peers_.Leave(found->second.address);
    connections_.erase(found);
    open_.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  struct Kept {
    std::shared_ptr<Connection> connection;
    std::string address;
  };

  std::vector<std::shared_ptr<Connection>> All() const {
    std::vector<std::shared_ptr<Connection>> all;
    all.reserve(connections_.size());
    for (const auto& [key, kept] : connections_) all.push_back(kept.connection);
    return all;
  }

  void Tick() {
    on_tick_();
    const auto now = Connection::Clock::now();
    for (const auto& connection : All()) connection->Tick(now);
  }

  void FlushTouched() {
    while (!touched_.empty()) {
      flushed_.swap(touched_);
      for (const auto& connection : flushed_) connection->Flush();
      flushed_.clear();
    }
  }

  const Http2Environment& environment_;
  const ConnectionMaker& make_;
  PeerAddresses& peers_;
  EventLoop::Task on_tick_;
  const std::shared_ptr<EventLoop> loop_;
  std::atomic<std::size_t> open_{0};
  bool shutting_down_ = false;
  std::unordered_map<Connection*, Kept> connections_;
  std::vector<std::shared_ptr<Connection>> touched_;
  std::vector<std::shared_ptr<Connection>> flushed_;
};

class Server final : public Http2Server {
 public:
  Server(Http2ServerOptions options, const RpcMethods* methods, MemoryBudget* budget)
      : options_(std::move(options)),
        pot_(options_.unauthenticated_bytes),
        peers_(&pot_, options_.max_connections, options_.max_connections_per_address),
        large_messages_(kLargeMessageThreads, kMaxLargeMessages, stats_.exception_counter(),
                        &std::chrono::steady_clock::now, Executor::Priority::kBelow) {
    environment_.methods = methods;
    environment_.budget = budget;
    environment_.stats = &stats_;
    environment_.large_messages = &large_messages_;
    environment_.max_message_bytes = options_.max_message_bytes;
    environment_.keepalive = options_.keepalive;
    environment_.max_age = options_.max_connection_age;
    environment_.max_age_grace = options_.max_connection_age_grace;
    environment_.times = options_.times;
    if (options_.tls != nullptr) tls_.emplace(options_.tls, options_.protocol);
    if (!options_.make) {
      options_.make = [](ConnectionParts parts) {
        return std::make_shared<Http2Connection>(std::move(parts));
      };
    }
  }

  ~Server() override { Shutdown(std::chrono::steady_clock::now()); }

  absl::Status Listen() {
    for (std::string& address : options_.addresses) {
      MEMORYD_ASSIGN_OR_RETURN(std::vector<ListeningSocket> sockets,
                               ListeningSocket::Open(address, options_.unix_mode));
      for (ListeningSocket& socket : sockets) sockets_.push_back(std::move(socket));
    }
    for (int i = 0; i < options_.threads; ++i) {
      shards_.push_back(
          std::make_unique<Shard>(environment_, &options_.make, &peers_, [this, first = i == 0] {
            if (first) WaitForCallers();
          }));
    }
    // All are accepted on the first loop and handed out by turns.
    for (const ListeningSocket& socket : sockets_) {
      const int descriptor = ::dup(socket.descriptor());
      if (descriptor < 0) return absl::UnavailableError(std::strerror(errno));
      acceptors_.push_back(
          std::make_unique<Acceptor>(shards_[0]->loop().context(), descriptor, socket.is_unix()));
    }
    for (const auto& shard : shards_) shard->Start();
    shards_[0]->loop().Post([this] { WaitForCallers(); });
    return absl::OkStatus();
  }

  const std::vector<std::string>& addresses() const override { return options_.addresses; }
  const Http2Stats& stats() const override { return stats_; }
  std::int64_t unauthenticated_held() const override { return pot_.held(); }

  void Shutdown(std::chrono::steady_clock::time_point deadline) override {
    if (std::exchange(shut_down_, true) || shards_.empty()) return;
    // From here on the kernel refuses new connections, which would wait in the backlog for nothing.
    sockets_.clear();
    shards_[0]->loop().Post([this] { acceptors_.clear(); });
    for (const auto& shard : shards_) {
      shard->loop().Post([shard = shard.get()] { shard->BeginShutdown(); });
    }
    // Connections close one by one, and nobody but the loops knows when.
    while (std::chrono::steady_clock::now() < deadline && HasConnections()) {
      std::this_thread::sleep_for(kShutdownLook);
    }
    for (const auto& shard : shards_) {
      shard->loop().Post([shard = shard.get()] { shard->CloseAll(); });
    }
    for (const auto& shard : shards_) shard->Stop();
  }

 private:
  struct Acceptor {
    Acceptor(boost::asio::io_context& context, int descriptor, bool unix)
        : waits(context, descriptor), again(context), is_unix(unix) {}
    boost::asio::posix::stream_descriptor waits;
    boost::asio::steady_timer again;
    bool waiting = false;  // For callers, or for room for them.
    const bool is_unix;
  };

  bool HasConnections() const {
    for (const auto& shard : shards_) {
      if (shard->open() > 0) return true;
    }
    return false;
  }

  // Once a second too, since an exception may have ended a wait.
  void WaitForCallers() {
    for (const auto& acceptor : acceptors_) {
      if (!acceptor->waiting) WaitForCallers(*acceptor);
    }
  }

  // What waits may have come to its end just before the acceptors were dropped.
  void WaitForCallers(Acceptor& acceptor) {
    acceptor.waits.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                              [this, &acceptor](const boost::system::error_code& error) {
                                shards_[0]->loop().Handle([this, &acceptor, &error] {
                                  if (error || acceptors_.empty()) return;
                                  acceptor.waiting = false;
                                  if (AcceptSome(acceptor)) {
                                    WaitForCallers(acceptor);
                                  } else {
                                    WaitForRoom(acceptor);
                                  }
                                });
                              });
    acceptor.waiting = true;
  }

  void WaitForRoom(Acceptor& acceptor) {
    acceptor.again.expires_after(kAcceptAgain);
    acceptor.again.async_wait([this, &acceptor](const boost::system::error_code& error) {
      shards_[0]->loop().Handle([this, &acceptor, &error] {
        if (error || acceptors_.empty()) return;
        acceptor.waiting = false;
        WaitForCallers(acceptor);
      });
    });
    acceptor.waiting = true;
  }

  // False when the process lacks descriptors or memory for more.
  bool AcceptSome(Acceptor& acceptor) {
    for (int i = 0; i < kAcceptAtOnce; ++i) {
      sockaddr_storage name = {};
      socklen_t size = sizeof(name);
      const int socket =
          ::accept4(acceptor.waits.native_handle(), reinterpret_cast<sockaddr*>(&name), &size,
                    SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (socket >= 0) {
        try {
          Take(socket, acceptor.is_unix, name);
        } catch (...) {
          Increment(*stats_.exception_counter());
          stats_.Refused(ConnectionEnd::kException);
        }
        continue;
      }
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        if (!std::exchange(lacks_room_, true)) {
          spdlog::warn("can't accept connections: {}; trying again", std::strerror(errno));
        }
        return false;
      }
      if (errno != EINTR && errno != ECONNABORTED) break;
    }
    lacks_room_ = false;
    return true;
  }

  void Take(int socket, bool is_unix, const sockaddr_storage& name) {
    bool is_ours = true;  // Until the transport owns the socket.
    const absl::Cleanup close_socket = [socket, &is_ours] {
      if (is_ours) ::close(socket);
    };
    const std::string address = AddressOf(name);
    const bool with_tls = tls_.has_value() && !is_unix;
    const std::int64_t bytes = with_tls ? Http2Connection::kTlsBytes : Http2Connection::kPlainBytes;
    ConnectionEnd why = ConnectionEnd::kPeer;
    const std::shared_ptr<PotShare> share = peers_.Enter(address, bytes, why);
    if (share == nullptr) {
      stats_.Refused(why);
      return;
    }
    bool posted = false;
    const absl::Cleanup leave = [&] {
      if (posted) return;  // The connection does it at its end.
      share->Give(bytes);
      peers_.Leave(address);
    };
    std::shared_ptr<SSL_CTX> context;
    if (with_tls) {
      auto current = tls_->Current();
      if (!current.ok()) {
        Refuse(current.status());
        return;
      }
      context = *std::move(current);
    }
    const int on = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    is_ours = false;
    auto transport = Transport::Make(socket, std::move(context));
    if (!transport.ok()) {
      Refuse(transport.status());
      return;
    }
    Shard* const shard = shards_[next_++ % shards_.size()].get();
    shard->loop().Post(
        [shard, socket, share, bytes, address, transport = *std::move(transport)]() mutable {
          shard->Add(socket, std::move(transport), share, bytes, address);
        });
    posted = true;
  }

  void Refuse(const absl::Status& why) {
    spdlog::warn("a connection was refused: {}", std::string(why.message()));
    stats_.Refused(ConnectionEnd::kHandshake);
  }

  Http2ServerOptions options_;
  UnauthenticatedPot pot_;
  Http2Stats stats_;
  PeerAddresses peers_;
  Executor large_messages_;
  Http2Environment environment_;
  std::optional<TlsHandshakes> tls_;
  std::vector<ListeningSocket> sockets_;
  std::vector<std::unique_ptr<Shard>> shards_;
  // With the turn of the first loop, once that runs.
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
  std::size_t next_ = 0;
  bool lacks_room_ = false;
  bool shut_down_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Http2Server>> Http2Server::Start(Http2ServerOptions options,
                                                                const RpcMethods* methods,
                                                                MemoryBudget* budget) {
  try {
    auto server = std::make_unique<Server>(std::move(options), methods, budget);
    MEMORYD_RETURN_IF_ERROR(server->Listen());
    return server;
  } catch (const std::exception& error) {
    return absl::UnavailableError(error.what());
  }
}

}  // namespace memoryd
