// One HTTP/2 connection of gRPC's callers.
#ifndef MEMORYD_SERVER_HTTP2_HTTP2_CONNECTION_H_
#define MEMORYD_SERVER_HTTP2_HTTP2_CONNECTION_H_

#include <nghttp2/nghttp2.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "server/http2/connection.h"
#include "server/http2/flood_guard.h"
#include "server/http2/idle_reset_filter.h"
#include "server/http2/outgoing_bytes.h"
#include "server/http2/outgoing_messages.h"
#include "server/http2/socket_connection.h"

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
class Http2Connection final : public SocketConnection {
 public:
  // What a connection takes by estimate, in bytes, before any call.
  static constexpr std::int64_t kPlainBytes = 16 << 10;
  static constexpr std::int64_t kTlsBytes = 64 << 10;

  explicit Http2Connection(ConnectionParts parts);
  ~Http2Connection() override;
  Http2Connection(const Http2Connection&) = delete;
  Http2Connection& operator=(const Http2Connection&) = delete;

 private:
  friend class Http2Call;
  struct Callbacks;

  // SocketConnection.
  void OnShaken() override;
  std::size_t ReadSize() override { return reading_paused_ ? 0 : chunk_; }
  void OnBytes(std::string_view bytes) override;
  void OnFlush() override;
  void OnTick(Clock::time_point now) override;
  void OnShutdown() override;
  void OnException() override { receiving_ = false; }
  bool MayClose() const override { return !receiving_; }
  void OnClosed() override;

  void Receive(std::string_view bytes);
  // False when the socket takes no more now, or is closed.
  bool SendOut();
  // Sends what nghttp2 has, as far as the socket takes it. False when the connection ends by that.
  bool SendFrames();
  void NameLastCall();
  // Whether it is as old as it may get; tells the peer when that is soon.
  bool EndsByAge(Clock::time_point now);
  // Counts something of no use; ends the connection when there is too much of it.
  void CountNuisance(double weight);
  void EndForFlood();
  // What exceeds the connection's own part, or that of its address, counts as of no use.
  bool TakeFromPot(std::int64_t bytes);
  void GiveToPot(std::int64_t bytes);

  nghttp2_session* session_ = nullptr;
  // absl's tables are broken once an insertion into them throws.
  std::unordered_map<std::int32_t, std::shared_ptr<Http2Call>> calls_;
  // Calls whose messages have left during this flush, to be told so after it.
  std::vector<std::shared_ptr<Http2Call>> sent_;
  OutgoingBytes out_;
  OutgoingMessages::Filled referred_;  // Of the frame that nghttp2 makes now, where it is large.
  std::int64_t pot_bytes_ = 0;         // Taken beside what every connection takes.
  std::int64_t header_bytes_ = 0;
  // Since when a header block is unfinished.
  Clock::time_point header_since_;
  bool in_headers_ = false;
  bool settled_ = false;  // The peer has acknowledged our settings.
  bool reading_paused_ = false;
  bool receiving_ = false;
  bool going_away_ = false;       // The peer was told that the connection ends,
  bool last_call_named_ = false;  // and which of his calls is served last.
  Clock::time_point noticed_at_;
  IdleResetFilter filter_;
  FloodGuard flood_{started()};
  Clock::time_point last_read_ = started();
  Clock::time_point last_write_ = started();
  Clock::time_point ping_sent_;
  bool ping_open_ = false;
  Clock::time_point age_ends_;
  std::size_t chunk_ = 16384;
  int calls_of_chunk_ = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP2_HTTP2_CONNECTION_H_
