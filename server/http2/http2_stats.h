// What the metrics tell of connections.
#ifndef MEMORYD_SERVER_HTTP2_HTTP2_STATS_H_
#define MEMORYD_SERVER_HTTP2_HTTP2_STATS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/histogram.h"

namespace memoryd {

// Why the server ended or refused a connection. kPeer: the peer closed it, which is none of the
// server's doing.
enum class ConnectionEnd : std::uint8_t {
  kPeer,
  kTooMany,       // Connections in all, or of the unauthenticated memory.
  kTooManyOfOne,  // The same of one address.
  kHandshake,     // TLS failed or took too long.
  kProtocol,      // Not HTTP/2.
  kFlood,         // More control frames, resets or headers than anybody needs.
  kStuck,         // Did not read, or did not answer a ping.
  kAge,           // max_connection_age.
  kShutdown,
  kException,  // Such as std::bad_alloc; see exceptions().
};

inline constexpr std::array<std::string_view, 10> kConnectionEnds = {
    "peer",     "too_many", "too_many_of_address", "handshake", "protocol", "flood", "stuck", "age",
    "shutdown", "exception"};

// Any thread.
class Http2Stats {
 public:
  void Opened() { open_.fetch_add(1, std::memory_order_relaxed); }
  void Closed(ConnectionEnd why) {
    open_.fetch_sub(1, std::memory_order_relaxed);
    Increment(ended_[static_cast<std::size_t>(why)]);
  }
  // Of one that was never open.
  void Refused(ConnectionEnd why) { Increment(ended_[static_cast<std::size_t>(why)]); }
  // A reply that its caller did not read in time.
  void GaveUpReply() { Increment(unread_replies_); }
  // A request whose body stopped coming.
  void GaveUpRequest() { Increment(half_requests_); }
  // Exceptions that were caught on the threads of connections.
  Counter* exception_counter() { return &exceptions_; }

  std::int64_t open() const { return open_.load(std::memory_order_relaxed); }
  std::uint64_t ended(ConnectionEnd why) const { return ended_[static_cast<std::size_t>(why)]; }
  std::uint64_t unread_replies() const { return unread_replies_; }
  std::uint64_t half_requests() const { return half_requests_; }
  std::uint64_t exceptions() const { return exceptions_; }

 private:
  std::atomic<std::int64_t> open_{0};
  std::array<Counter, kConnectionEnds.size()> ended_ = {};
  Counter unread_replies_{0};
  Counter half_requests_{0};
  Counter exceptions_{0};
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP2_HTTP2_STATS_H_
