#include "server/http2/http2_connection.h"

#include <nghttp2/nghttp2.h>
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "core/base/histogram.h"
#include "server/http2/call_messages.h"
#include "server/http2/connection.h"
#include "server/http2/http2_call.h"
#include "server/http2/http2_stats.h"
#include "server/http2/socket_connection.h"
#include "server/settings/limits.h"

namespace memoryd {
namespace {

using Seconds = std::chrono::seconds;

constexpr Seconds kSettle(10);
constexpr Seconds kHeadersUnfinished(10);
constexpr Seconds kWriteStuck(30);
// Until the last call is named to a peer that does not say that he has heard of the end.
constexpr Seconds kNoticeTime(1);
// In the ping behind the notice that the connection ends.
constexpr std::array<std::uint8_t, 8> kNoticed = {'n', 'o', 't', 'i', 'c', 'e', 'd', 0};
constexpr std::size_t kMinChunk = 4096;
constexpr std::size_t kMaxChunk = 65536;
// Calls that one chunk of bytes may begin before other connections have their turn.
constexpr int kCallsOfChunk = 32;
// More than this waits for the peer to read; nothing is read from it meanwhile.
constexpr std::size_t kMaxOut = 256 << 10;
constexpr std::size_t kWriteOut = 64 << 10;         // Is written at once.
constexpr std::uint32_t kCopiedFrame = 16 << 10;    // The payload of a frame: by copy,
constexpr std::uint32_t kReferredFrame = 64 << 10;  // and where it is.
constexpr std::size_t kMaxQueuedFrames = 512;
constexpr int kConnectionWindow = 1 << 20;
constexpr std::int64_t kPartOfPot = 16;

}  // namespace

// nghttp2's callbacks. `user_data` is the connection.
struct Http2Connection::Callbacks {
  static Http2Connection& Of(void* user_data) { return *static_cast<Http2Connection*>(user_data); }

  // The callback with an exception as its failure: none can pass through nghttp2.
  template <auto callback, typename... Arguments>
  static int Caught(nghttp2_session* session, Arguments... arguments) {
    void* const user_data = std::get<sizeof...(Arguments) - 1>(std::tie(arguments...));
    try {
      return callback(session, arguments...);
    } catch (...) {
      Of(user_data).Fail();
      return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
  }

  static bool IsRequest(const nghttp2_frame* frame) {
    return frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
  }

  static int OnBeginHeaders(nghttp2_session* session, const nghttp2_frame* frame, void* user_data) {
    Http2Connection& self = Of(user_data);
    self.in_headers_ = true;
    self.header_since_ = Clock::now();
    self.flood_.BeginHeaders(self.header_since_);
    if (!IsRequest(frame)) return 0;
    const std::int32_t stream = frame->hd.stream_id;
    ++self.calls_of_chunk_;
    // A call that nobody has room for is not looked at; its headers are dropped as they come.
    if (self.last_call_named_) self.CountNuisance(1);
    if (self.last_call_named_ || !self.TakeFromPot(kCallBytes)) {
      nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream, NGHTTP2_REFUSED_STREAM);
      return 0;
    }
    bool has_call = false;  // Which gives them back at its end.
    const absl::Cleanup give_back = [&self, &has_call] {
      if (!has_call) self.GiveToPot(kCallBytes);
    };
    auto call = std::make_shared<Http2Call>(&self, stream);
    self.calls_.emplace(stream, call);
    has_call = true;
    nghttp2_session_set_stream_user_data(session, stream, call.get());
    return 0;
  }

  static int OnHeader(nghttp2_session* session, const nghttp2_frame* frame,
                      const std::uint8_t* name, std::size_t name_size, const std::uint8_t* value,
                      std::size_t value_size, std::uint8_t /*flags*/, void* user_data) {
    Http2Connection& self = Of(user_data);
    self.flood_.CountHeader(name_size + value_size);
    if (self.flood_.flooded()) return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (!IsRequest(frame)) return 0;
    auto* const call =
        static_cast<Http2Call*>(nghttp2_session_get_stream_user_data(session, frame->hd.stream_id));
    if (call != nullptr) {
      call->TakeHeader({reinterpret_cast<const char*>(name), name_size},
                       {reinterpret_cast<const char*>(value), value_size});
    }
    return 0;
  }

  // One that HTTP does not allow is dropped, but a credential that is none is a wrong one.
  static int OnInvalidHeader(nghttp2_session* session, const nghttp2_frame* frame,
                             const std::uint8_t* name, std::size_t name_size,
                             const std::uint8_t* /*value*/, std::size_t value_size,
                             std::uint8_t /*flags*/, void* user_data) {
    const std::string_view given(reinterpret_cast<const char*>(name), name_size);
    Http2Connection& self = Of(user_data);
    self.flood_.CountHeader(name_size + value_size);
    if (self.flood_.flooded()) return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (!IsRequest(frame)) return 0;
    auto* const call =
        static_cast<Http2Call*>(nghttp2_session_get_stream_user_data(session, frame->hd.stream_id));
    if (call != nullptr) call->TakeInvalidHeader(given, value_size);
    return self.flood_.flooded() ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
  }

  static int OnFrame(nghttp2_session* session, const nghttp2_frame* frame, void* user_data) {
    Http2Connection& self = Of(user_data);
    switch (frame->hd.type) {
      case NGHTTP2_HEADERS:
        self.in_headers_ = false;
        [[fallthrough]];
      case NGHTTP2_DATA: {
        auto* const call = static_cast<Http2Call*>(
            nghttp2_session_get_stream_user_data(session, frame->hd.stream_id));
        if (call == nullptr) break;
        const auto kept = call->shared_from_this();
        const bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
        if (IsRequest(frame)) call->Start();
        if (ends) {
          call->EndOfRequest();
        } else if (frame->hd.type == NGHTTP2_DATA && frame->hd.length == 0) {
          self.CountNuisance(1);
        }
        break;
      }
      case NGHTTP2_SETTINGS:
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0) {
          self.settled_ = true;
        } else {
          self.CountNuisance(1);
        }
        break;
      case NGHTTP2_PING:
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0) {
          self.ping_open_ = false;
          if (std::equal(kNoticed.begin(), kNoticed.end(), frame->ping.opaque_data)) {
            self.NameLastCall();
          }
        } else {
          // Some clients measure the way to the server with each reply.
          constexpr double kPing = 0.1;
          self.CountNuisance(kPing);
        }
        break;
      case NGHTTP2_RST_STREAM: {
        // One who has the answer may well not want to send the rest of his request.
        const auto* const call = static_cast<const Http2Call*>(
            nghttp2_session_get_stream_user_data(session, frame->hd.stream_id));
        if (call != nullptr && !call->ended()) self.CountNuisance(1);
        break;
      }
      case NGHTTP2_PRIORITY:
        self.CountNuisance(1);
        break;
      default:
        break;
    }
    return self.flood_.flooded() ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
  }

  static int OnData(nghttp2_session* session, std::uint8_t /*flags*/, std::int32_t stream,
                    const std::uint8_t* data, std::size_t size, void* user_data) {
    // What a stream may send is bounded by its own window.
    nghttp2_session_consume_connection(session, size);
    auto* const call =
        static_cast<Http2Call*>(nghttp2_session_get_stream_user_data(session, stream));
    if (call == nullptr) {
      nghttp2_session_consume_stream(session, stream, size);
      return 0;
    }
    const auto kept = call->shared_from_this();
    call->TakeData({reinterpret_cast<const char*>(data), size});
    return Of(user_data).flood_.flooded() ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
  }

  static int OnStreamClose(nghttp2_session* session, std::int32_t stream, std::uint32_t code,
                           void* user_data) {
    Http2Connection& self = Of(user_data);
    const auto found = self.calls_.find(stream);
    if (found == self.calls_.end()) return 0;
    nghttp2_session_set_stream_user_data(session, stream, nullptr);
    const std::shared_ptr<Http2Call> call = std::move(found->second);
    self.calls_.erase(found);
    call->StreamClosed(code == NGHTTP2_NO_ERROR);
    return 0;
  }

  // What the peer sent made the server refuse it.
  static int OnInvalidFrame(nghttp2_session* /*session*/, const nghttp2_frame* frame, int /*code*/,
                            void* user_data) {
    Http2Connection& self = Of(user_data);
    if (frame->hd.type == NGHTTP2_HEADERS) self.in_headers_ = false;
    self.CountNuisance(1);
    return self.flood_.flooded() ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
  }

  static int OnFrameSent(nghttp2_session* session, const nghttp2_frame* frame, void* user_data) {
    Http2Connection& self = Of(user_data);
    // What is refused for want of room has been counted, or is not the peer's doing.
    if (frame->hd.type == NGHTTP2_RST_STREAM && frame->rst_stream.error_code != NGHTTP2_NO_ERROR &&
        frame->rst_stream.error_code != NGHTTP2_REFUSED_STREAM) {
      self.CountNuisance(1);
    }
    const bool ends = (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
                      (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    // What is left of the request is not wanted any more.
    if (ends && nghttp2_session_get_stream_remote_close(session, frame->hd.stream_id) == 0) {
      nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    }
    return 0;
  }

  static ssize_t FrameSize(nghttp2_session* session, std::uint8_t /*type*/, std::int32_t stream,
                           std::int32_t /*connection_window*/, std::int32_t /*stream_window*/,
                           std::uint32_t most, void* /*user_data*/) {
    if (most <= kCopiedFrame) return most;
    const auto* const call =
        static_cast<const Http2Call*>(nghttp2_session_get_stream_user_data(session, stream));
    const bool large = call != nullptr && call->sends_large();
    return std::min(most, large ? kReferredFrame : kCopiedFrame);
  }

  // A frame whose payload Http2Call::Fill() has left where it is.
  static int SendReferred(nghttp2_session* /*session*/, nghttp2_frame* /*frame*/,
                          const std::uint8_t* header, std::size_t /*payload_size*/,
                          nghttp2_data_source* /*source*/, void* user_data) {
    Http2Connection& self = Of(user_data);
    constexpr std::size_t kFrameHeader = 9;
    self.out_.Copy({reinterpret_cast<const char*>(header), kFrameHeader});
    self.out_.Copy(self.referred_.prefix);
    self.out_.Refer(std::move(self.referred_.owner), self.referred_.message);
    return self.out_.size() < kWriteOut ? 0 : NGHTTP2_ERR_PAUSE;
  }

  static nghttp2_session_callbacks* Get() {
    static nghttp2_session_callbacks* const callbacks = [] {
      nghttp2_session_callbacks* made = nullptr;
      nghttp2_session_callbacks_new(&made);
      nghttp2_session_callbacks_set_on_begin_headers_callback(made, &Caught<&OnBeginHeaders>);
      nghttp2_session_callbacks_set_on_header_callback(made, &Caught<&OnHeader>);
      nghttp2_session_callbacks_set_on_invalid_header_callback(made, &Caught<&OnInvalidHeader>);
      nghttp2_session_callbacks_set_on_frame_recv_callback(made, &Caught<&OnFrame>);
      nghttp2_session_callbacks_set_on_data_chunk_recv_callback(made, &Caught<&OnData>);
      nghttp2_session_callbacks_set_on_stream_close_callback(made, &Caught<&OnStreamClose>);
      nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(made, &Caught<&OnInvalidFrame>);
      nghttp2_session_callbacks_set_on_frame_send_callback(made, &Caught<&OnFrameSent>);
      nghttp2_session_callbacks_set_data_source_read_length_callback(made, &FrameSize);
      nghttp2_session_callbacks_set_send_data_callback(made, &Caught<&SendReferred>);
      return made;
    }();
    return callbacks;
  }

  static nghttp2_option* Options() {
    static nghttp2_option* const options = [] {
      nghttp2_option* made = nullptr;
      nghttp2_option_new(&made);
      // Windows open as bytes are taken, not as they arrive.
      nghttp2_option_set_no_auto_window_update(made, 1);
      nghttp2_option_set_no_closed_streams(made, 1);
      return made;
    }();
    return options;
  }
};

Http2Connection::Http2Connection(ConnectionParts parts) : SocketConnection(std::move(parts)) {
  if (nghttp2_session_server_new2(&session_, Callbacks::Get(), this, Callbacks::Options()) != 0) {
    throw std::bad_alloc();
  }
}

Http2Connection::~Http2Connection() { nghttp2_session_del(session_); }

void Http2Connection::OnShaken() {
  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, environment().max_concurrent_streams},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<std::uint32_t>(kToldHeaderBytes)},
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
  };
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings));
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kConnectionWindow);
  Touch();
}

void Http2Connection::OnBytes(std::string_view bytes) {
  last_read_ = Clock::now();
  const bool filled = bytes.size() == chunk_;
  Receive(bytes);
  // Many calls in few bytes: other connections have their turn sooner.
  if (calls_of_chunk_ > kCallsOfChunk) {
    chunk_ = std::max(chunk_ / 2, kMinChunk);
  } else if (filled) {
    chunk_ = std::min(chunk_ * 2, kMaxChunk);
  }
}

void Http2Connection::Receive(std::string_view bytes) {
  calls_of_chunk_ = 0;
  receiving_ = true;
  ssize_t taken = 0;
  const std::uint64_t dropped = filter_.dropped();
  filter_.Feed(bytes, [this, &taken](std::string_view part) {
    taken = nghttp2_session_mem_recv(session_, reinterpret_cast<const std::uint8_t*>(part.data()),
                                     part.size());
    return taken >= 0;
  });
  receiving_ = false;
  CountNuisance(static_cast<double>(filter_.dropped() - dropped));
  if (flood_.flooded() || taken == NGHTTP2_ERR_FLOODED) {
    EndForFlood();
    return;
  }
  // What nghttp2 holds is of no use after a callback failed.
  if (failed()) return;
  if (taken < 0) {
    OnFlush();
    Close(ConnectionEnd::kProtocol);
    return;
  }
  // Bytes of a header block that is not complete are held by nghttp2 and by its call.
  if (in_headers_) {
    const auto more = static_cast<std::int64_t>(bytes.size());
    if (!TakeFromPot(more)) {
      EndForFlood();
      return;
    }
    header_bytes_ += more;
  } else if (header_bytes_ > 0) {
    GiveToPot(std::exchange(header_bytes_, 0));
  }
  Touch();
}

void Http2Connection::EndForFlood() {
  // Says why, if the socket takes it.
  nghttp2_session_terminate_session(session_, NGHTTP2_ENHANCE_YOUR_CALM);
  flood_.Told();
  OnFlush();
  Close(ConnectionEnd::kFlood);
}

bool Http2Connection::SendFrames() {
  bool writable = SendOut();
  while (writable && open()) {
    const std::uint8_t* bytes = nullptr;
    const ssize_t size = nghttp2_session_mem_send(session_, &bytes);
    if (failed()) return false;
    if (size < 0) {
      Close(flood_.flooded() ? ConnectionEnd::kFlood : ConnectionEnd::kProtocol);
      return false;
    }
    out_.Copy({reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)});
    if (out_.size() >= kWriteOut) {
      writable = SendOut();
    } else if (size == 0) {
      break;
    }
  }
  if (writable && open()) SendOut();
  return open();
}

void Http2Connection::OnFlush() {
  if (!open() || failed() || receiving_ || !SendFrames()) return;
  if (flood_.flooded()) {
    Close(ConnectionEnd::kFlood);
    return;
  }
  if (nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0 &&
      out_.empty()) {
    Close(going_away_ ? ConnectionEnd::kShutdown : ConnectionEnd::kProtocol);
    return;
  }
  const bool pause =
      out_.size() > kMaxOut || nghttp2_session_get_outbound_queue_size(session_) > kMaxQueuedFrames;
  if (std::exchange(reading_paused_, pause) && !pause) {
    ReadOn();
  }
  for (std::vector<std::shared_ptr<Http2Call>> sent = std::exchange(sent_, {});
       const auto& call : sent) {
    call->Sent();
  }
}

bool Http2Connection::SendOut() {
  const std::size_t before = out_.size();
  const bool all = WriteOut(out_);
  if (all || out_.size() < before) last_write_ = Clock::now();
  return all;
}

void Http2Connection::CountNuisance(double weight) {
  if (weight > 0) flood_.Count(weight, Clock::now());
}

bool Http2Connection::TakeFromPot(std::int64_t bytes) {
  const bool fits = pot_bytes_ + bytes <= share().pot().limit() / kPartOfPot;
  const PotShare::Outcome outcome = fits ? share().Take(bytes) : PotShare::Outcome::kShareEmpty;
  if (outcome == PotShare::Outcome::kShareEmpty) CountNuisance(1);
  if (outcome != PotShare::Outcome::kTaken) return false;
  pot_bytes_ += bytes;
  return true;
}

void Http2Connection::GiveToPot(std::int64_t bytes) {
  share().Give(bytes);
  pot_bytes_ -= bytes;
}

bool Http2Connection::EndsByAge(Clock::time_point now) {
  if (environment().max_age.count() <= 0) return false;
  if (!going_away_ && now > started() + environment().max_age) {
    OnShutdown();
    age_ends_ = now + environment().max_age_grace;
    return false;
  }
  return age_ends_ != Clock::time_point() && now > age_ends_;
}

void Http2Connection::OnTick(Clock::time_point now) {
  if ((!settled_ && now > started() + kSettle) ||
      (in_headers_ && now > header_since_ + kHeadersUnfinished)) {
    nghttp2_session_terminate_session(session_, NGHTTP2_SETTINGS_TIMEOUT);
    OnFlush();
    Close(ConnectionEnd::kProtocol);
    return;
  }
  if (!out_.empty() && now > last_write_ + kWriteStuck) {
    Close(ConnectionEnd::kStuck);
    return;
  }
  // The rest of a reply is small beside a whole one, which is not held for a slow reader.
  out_.CopyReferred();
  if (ping_open_ && now > ping_sent_ + environment().keepalive / 3) {
    if (last_read_ < ping_sent_) {
      Close(ConnectionEnd::kStuck);
      return;
    }
    // One who sends something is there, whether he answers pings or not.
    ping_open_ = false;
  } else if (!ping_open_ && !calls_.empty() && now > last_read_ + environment().keepalive) {
    nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
    ping_open_ = true;
    ping_sent_ = now;
    Touch();
  }
  if (going_away_ && now > noticed_at_ + kNoticeTime) NameLastCall();
  if (EndsByAge(now)) {
    Close(ConnectionEnd::kAge);
    return;
  }
  std::vector<std::shared_ptr<Http2Call>> calls;
  calls.reserve(calls_.size());
  for (const auto& [stream, call] : calls_) calls.push_back(call);
  for (const auto& call : calls) {
    if (!open()) return;
    if (call->attached()) call->Tick(now);
  }
}

void Http2Connection::OnShutdown() {
  if (std::exchange(going_away_, true)) return;
  // What the peer sends before he hears of it is still served (RFC 9113, 6.8).
  nghttp2_submit_shutdown_notice(session_);
  nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, kNoticed.data());
  noticed_at_ = Clock::now();
  Touch();
}

void Http2Connection::NameLastCall() {
  if (!going_away_ || std::exchange(last_call_named_, true)) return;
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(session_), NGHTTP2_NO_ERROR,
                        nullptr, 0);
  Touch();
}

void Http2Connection::OnClosed() {
  nghttp2_session* const session = std::exchange(session_, nullptr);
  out_.Clear();
  // All are detached before any handler hears of it: it may reach for another call.
  const auto calls = std::exchange(calls_, {});
  for (const auto& [stream, call] : calls) call->Detach();
  for (const auto& [stream, call] : calls) {
    try {
      call->StreamClosed(/*in_order=*/false);
    } catch (...) {
      Increment(*environment().stats->exception_counter());
    }
  }
  sent_.clear();
  nghttp2_session_del(session);
  GiveToPot(std::exchange(header_bytes_, 0));
}

}  // namespace memoryd
