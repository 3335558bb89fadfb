// One HTTP/2 connection of gRPC's callers.
#ifndef MEMORYD_SERVER_HTTP2_HTTP2_CONNECTION_H_
#define MEMORYD_SERVER_HTTP2_HTTP2_CONNECTION_H_

#include <nghttp2/nghttp2.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "server/http2/connection.h"
#include "server/http2/event_loop.h"
#include "server/http2/http2_stats.h"
#include "server/http2/idle_reset_filter.h"
#include "server/http2/socket_waits.h"
#include "server/http2/transport.h"
#include "server/http2/unauthenticated_pot.h"

namespace memoryd {

class Http2Call;

// Bounds what its peer can make it hold:
//   - it reads no more while the peer does not read;
//   - header blocks, and calls without a tenant, take from the share of its address, at most 1/16
//     of the whole pot;
//   - what costs the server more than the peer (resets of calls under way, settings, priorities,
//     empty frames, frames that are refused, ten pings) is counted, and ends the connection at
//     1,000 beyond 200 a second;
//   - a message that is sent or read too slowly is given up (Http2Times), and so is a reply that is
//     not read by the call's deadline.
class Http2Connection final : public Connection,
                              public std::enable_shared_from_this<Http2Connection> {
 public:
  // What a connection takes by estimate, in bytes, before any call.
  static constexpr std::int64_t kPlainBytes = 16 << 10;
  static constexpr std::int64_t kTlsBytes = 64 << 10;

  explicit Http2Connection(ConnectionParts parts);
  ~Http2Connection() override;
  Http2Connection(const Http2Connection&) = delete;
  Http2Connection& operator=(const Http2Connection&) = delete;

  // Connection.
  void Start() override;
  void Tick(Clock::time_point now) override;
  void BeginShutdown() override;
  void Close(ConnectionEnd why) override;
  void Flush() override;

  bool open() const { return session_ != nullptr; }

 private:
  // Runs `event`, which no callback of nghttp2 has called, and ends the connection when it throws.
  void Guarded(absl::FunctionRef<void()> event);
  // To be called in a catch block where the connection can't be closed: it is, by the next event.
  void Fail();
  friend class Http2Call;
  struct Callbacks;

  void DoTick(Clock::time_point now);
  void DoBeginShutdown();
  void DoFlush();
  // Moves the handshake on.
  void Shake();
  void WaitReadable();
  void WaitWritable();
  // What was waited for has come.
  void OnSocket(void (Http2Connection::*event)());
  void OnReadable();
  void Receive(const char* bytes, std::size_t size);
  // False when the socket takes no more now, or is closed.
  bool WriteOut();
  void SendPreface();
  void NameLastCall();
  // Counts something of no use; ends the connection when there is too much of it.
  void CountNuisance(double weight);
  // Counts an entry of a header block, its name and value.
  void CountHeader(std::size_t bytes);
  void EndForFlood();
  // What exceeds the connection's own part, or that of its address, counts as of no use.
  bool TakeFromPot(std::int64_t bytes);
  void GiveToPot(std::int64_t bytes);
  // To be flushed when the event under way has been handled.
  void Touch();
  Http2Call* FindCall(std::int32_t stream);

  const Http2Environment& environment_;
  const std::shared_ptr<EventLoop> loop_;
  const int socket_;  // Of transport_.
  SocketWaits waits_;
  std::unique_ptr<Transport> transport_;
  ConnectionOwner& owner_;
  const Clock::time_point started_ = Clock::now();
  nghttp2_session* session_ = nullptr;
  std::shared_ptr<const std::vector<std::string>> certificate_names_;
  // absl's tables are broken once an insertion into them throws.
  std::unordered_map<std::int32_t, std::shared_ptr<Http2Call>> calls_;
  // Calls whose messages have left during this flush, to be told so after it.
  std::vector<std::shared_ptr<Http2Call>> sent_;
  std::string out_;
  std::size_t out_begin_ = 0;
  const std::shared_ptr<PotShare> share_;
  const std::int64_t base_bytes_;
  std::int64_t pot_bytes_ = 0;  // Taken beside base_bytes_.
  std::int64_t header_bytes_ = 0;
  std::size_t unpacked_header_bytes_ = 0;  // Of the block that is coming.
  // Since when a header block is unfinished.
  Clock::time_point header_since_;
  bool in_headers_ = false;
  bool shaking_ = true;
  bool settled_ = false;  // The peer has acknowledged our settings.
  bool reading_paused_ = false;
  bool touched_ = false;
  bool receiving_ = false;
  bool going_away_ = false;       // The peer was told that the connection ends,
  bool last_call_named_ = false;  // and which of his calls is served last.
  Clock::time_point noticed_at_;
  bool flooded_ = false;
  bool failed_ = false;  // By an exception.
  IdleResetFilter filter_;
  Clock::time_point last_read_ = started_;
  Clock::time_point last_write_ = started_;
  Clock::time_point ping_sent_;
  bool ping_open_ = false;
  Clock::time_point age_ends_;
  double nuisance_ = 0;
  Clock::time_point nuisance_at_ = started_;
  std::size_t chunk_ = 16384;
  int calls_of_chunk_ = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP2_HTTP2_CONNECTION_H_
