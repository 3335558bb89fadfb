#include "server/http2/http2_connection.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "server/http2/http2_call.h"
#include "server/settings/limits.h"

namespace memoryd {
namespace {

using Seconds = std::chrono::seconds;

constexpr Seconds kHandshake(5);
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
constexpr std::size_t kMaxQueuedFrames = 512;
// Beyond it a connection is ended.
constexpr double kNuisanceBurst = 1000;
constexpr double kNuisanceRate = 200;
// Of headers as they are unpacked, an entry's 32 bytes included. Nothing that calls sends so many:
// a small block that names an entry of HPACK's table again and again would keep the loop busy.
constexpr std::size_t kLargeHeaders = 96 << 10;
constexpr std::size_t kMostHeaders = 256 << 10;
constexpr double kLargeHeadersWeight = 5;
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
    self.unpacked_header_bytes_ = 0;
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
    self.CountHeader(name_size + value_size);
    if (self.flooded_) return NGHTTP2_ERR_CALLBACK_FAILURE;
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
    self.CountHeader(name_size + value_size);
    if (self.flooded_) return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (!IsRequest(frame)) return 0;
    auto* const call =
        static_cast<Http2Call*>(nghttp2_session_get_stream_user_data(session, frame->hd.stream_id));
    if (call != nullptr) call->TakeInvalidHeader(given, value_size);
    return self.flooded_ ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
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
        const std::shared_ptr<Http2Call> kept = call->shared_from_this();
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
    return self.flooded_ ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
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
    const std::shared_ptr<Http2Call> kept = call->shared_from_this();
    call->TakeData({reinterpret_cast<const char*>(data), size});
    return Of(user_data).flooded_ ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
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
    return self.flooded_ ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
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

Http2Connection::Http2Connection(ConnectionParts parts)
    : environment_(*parts.environment),
      loop_(std::move(parts.loop)),
      socket_(parts.socket),
      waits_(loop_.get()),
      transport_(std::move(parts.transport)),
      owner_(*parts.owner),
      share_(std::move(parts.share)),
      base_bytes_(parts.base_bytes) {
  if (nghttp2_session_server_new2(&session_, Callbacks::Get(), this, Callbacks::Options()) != 0) {
    throw std::bad_alloc();
  }
}

Http2Connection::~Http2Connection() { nghttp2_session_del(session_); }

void Http2Connection::Guarded(absl::FunctionRef<void()> event) {
  try {
    event();
  } catch (...) {
    Fail();
  }
  if (failed_) {
    receiving_ = false;
    Close(ConnectionEnd::kException);
  }
}

void Http2Connection::Fail() {
  Increment(*environment_.stats->exception_counter());
  failed_ = true;
}

void Http2Connection::Start() {
  environment_.stats->Opened();
  Guarded([this] {
    if (waits_.Begin(socket_)) {
      Shake();
    } else {
      Close(ConnectionEnd::kTooMany);
    }
  });
}

void Http2Connection::Shake() {
  const Transport::Result result = transport_->Handshake();
  switch (result.state) {
    case Transport::State::kDone:
      shaking_ = false;
      SendPreface();
      OnReadable();
      return;
    case Transport::State::kWantRead:
      WaitReadable();
      return;
    case Transport::State::kWantWrite:
      WaitWritable();
      return;
    case Transport::State::kClosed:
      Close(ConnectionEnd::kHandshake);
      return;
  }
}

void Http2Connection::SendPreface() {
  certificate_names_ =
      std::make_shared<const std::vector<std::string>>(transport_->CertificateNames());
  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, environment_.max_concurrent_streams},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<std::uint32_t>(kToldHeaderBytes)},
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
  };
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings));
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kConnectionWindow);
  Touch();
}

void Http2Connection::WaitReadable() {
  if (!open()) return;
  waits_.ForRead([self = shared_from_this()] { self->OnSocket(&Http2Connection::OnReadable); });
}

void Http2Connection::WaitWritable() {
  if (!open()) return;
  waits_.ForWrite([self = shared_from_this()] { self->OnSocket(&Http2Connection::DoFlush); });
}

void Http2Connection::OnSocket(void (Http2Connection::*event)()) {
  if (!open()) return;
  Guarded([this, event] {
    if (shaking_) {
      Shake();
    } else {
      (this->*event)();
    }
  });
}

void Http2Connection::OnReadable() {
  if (reading_paused_ || !open()) return;
  const Transport::Result result = transport_->Read(loop_->buffer().data(), chunk_);
  switch (result.state) {
    case Transport::State::kDone:
      last_read_ = Clock::now();
      Receive(loop_->buffer().data(), result.bytes);
      if (!open()) return;
      // Many calls in few bytes: other connections have their turn sooner.
      if (calls_of_chunk_ > kCallsOfChunk) {
        chunk_ = std::max(chunk_ / 2, kMinChunk);
      } else if (result.bytes == chunk_) {
        chunk_ = std::min(chunk_ * 2, kMaxChunk);
      }
      if (reading_paused_) return;
      if (transport_->HasBuffered()) {
        loop_->Post(
            [self = shared_from_this()] { self->Guarded([&self] { self->OnReadable(); }); });
      } else {
        WaitReadable();
      }
      return;
    case Transport::State::kWantRead:
      WaitReadable();
      return;
    case Transport::State::kWantWrite:
      // A handshake of TLS 1.3 that goes on while data is read.
      WaitWritable();
      WaitReadable();
      return;
    case Transport::State::kClosed:
      Close(ConnectionEnd::kPeer);
      return;
  }
}

void Http2Connection::Receive(const char* bytes, std::size_t size) {
  calls_of_chunk_ = 0;
  receiving_ = true;
  ssize_t taken = 0;
  const std::uint64_t dropped = filter_.dropped();
  filter_.Feed({bytes, size}, [this, &taken](std::string_view part) {
    taken = nghttp2_session_mem_recv(session_, reinterpret_cast<const std::uint8_t*>(part.data()),
                                     part.size());
    return taken >= 0;
  });
  receiving_ = false;
  CountNuisance(static_cast<double>(filter_.dropped() - dropped));
  if (flooded_ || taken == NGHTTP2_ERR_FLOODED) {
    EndForFlood();
    return;
  }
  // What nghttp2 holds is of no use after a callback failed.
  if (failed_) return;
  if (taken < 0) {
    DoFlush();
    Close(ConnectionEnd::kProtocol);
    return;
  }
  // Bytes of a header block that is not complete are held by nghttp2 and by its call.
  if (in_headers_) {
    const auto more = static_cast<std::int64_t>(size);
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
  flooded_ = false;
  DoFlush();
  Close(ConnectionEnd::kFlood);
}

void Http2Connection::Flush() {
  touched_ = false;
  Guarded([this] { DoFlush(); });
}

void Http2Connection::DoFlush() {
  if (!open() || failed_ || shaking_ || receiving_) return;
  bool writable = WriteOut();
  while (writable && open()) {
    const std::uint8_t* bytes = nullptr;
    const ssize_t size = nghttp2_session_mem_send(session_, &bytes);
    if (failed_) return;
    if (size < 0) {
      Close(flooded_ ? ConnectionEnd::kFlood : ConnectionEnd::kProtocol);
      return;
    }
    if (size == 0) break;
    out_.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
    if (out_.size() - out_begin_ >= kMaxOut / 4) writable = WriteOut();
  }
  if (writable && open()) WriteOut();
  if (!open()) return;
  if (flooded_) {
    Close(ConnectionEnd::kFlood);
    return;
  }
  if (nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0 &&
      out_.empty()) {
    Close(going_away_ ? ConnectionEnd::kShutdown : ConnectionEnd::kProtocol);
    return;
  }
  const bool pause = out_.size() - out_begin_ > kMaxOut ||
                     nghttp2_session_get_outbound_queue_size(session_) > kMaxQueuedFrames;
  if (std::exchange(reading_paused_, pause) && !pause) {
    // By a task of its own, so that others have their turn.
    loop_->Post([self = shared_from_this()] { self->Guarded([&self] { self->OnReadable(); }); });
  }
  for (std::vector<std::shared_ptr<Http2Call>> sent = std::exchange(sent_, {});
       const auto& call : sent) {
    call->Sent();
  }
}

bool Http2Connection::WriteOut() {
  while (out_begin_ < out_.size()) {
    const Transport::Result result =
        transport_->Write(out_.data() + out_begin_, out_.size() - out_begin_);
    if (result.state == Transport::State::kDone) {
      out_begin_ += result.bytes;
      last_write_ = Clock::now();
      continue;
    }
    if (result.state == Transport::State::kClosed) {
      Close(ConnectionEnd::kPeer);
      return false;
    }
    if (result.state == Transport::State::kWantWrite) WaitWritable();
    return false;
  }
  last_write_ = Clock::now();
  out_begin_ = 0;
  // A large reply leaves no large buffer behind.
  if (out_.capacity() > kMaxOut) {
    out_ = {};
  } else {
    out_.clear();
  }
  return true;
}

void Http2Connection::CountNuisance(double weight) {
  if (weight == 0) return;
  const Clock::time_point now = Clock::now();
  const double gone = std::chrono::duration<double>(now - nuisance_at_).count() * kNuisanceRate;
  nuisance_at_ = now;
  nuisance_ = std::max(0.0, nuisance_ - gone) + weight;
  if (nuisance_ > kNuisanceBurst) flooded_ = true;
}

void Http2Connection::CountHeader(std::size_t bytes) {
  constexpr std::size_t kEntry = 32;
  const std::size_t before = unpacked_header_bytes_;
  unpacked_header_bytes_ += bytes + kEntry;
  if (before <= kLargeHeaders && unpacked_header_bytes_ > kLargeHeaders) {
    CountNuisance(kLargeHeadersWeight);
  }
  if (unpacked_header_bytes_ > kMostHeaders) flooded_ = true;
}

bool Http2Connection::TakeFromPot(std::int64_t bytes) {
  const bool fits = pot_bytes_ + bytes <= share_->pot().limit() / kPartOfPot;
  const PotShare::Outcome outcome = fits ? share_->Take(bytes) : PotShare::Outcome::kShareEmpty;
  if (outcome == PotShare::Outcome::kShareEmpty) CountNuisance(1);
  if (outcome != PotShare::Outcome::kTaken) return false;
  pot_bytes_ += bytes;
  return true;
}

void Http2Connection::GiveToPot(std::int64_t bytes) {
  share_->Give(bytes);
  pot_bytes_ -= bytes;
}

void Http2Connection::Touch() {
  if (touched_) return;
  owner_.Touched(shared_from_this());
  touched_ = true;
}

void Http2Connection::Tick(Clock::time_point now) {
  Guarded([this, now] { DoTick(now); });
}

void Http2Connection::DoTick(Clock::time_point now) {
  if (!open() || failed_) return;
  if (shaking_) {
    if (now > started_ + kHandshake) Close(ConnectionEnd::kHandshake);
    return;
  }
  if ((!settled_ && now > started_ + kSettle) ||
      (in_headers_ && now > header_since_ + kHeadersUnfinished)) {
    nghttp2_session_terminate_session(session_, NGHTTP2_SETTINGS_TIMEOUT);
    DoFlush();
    Close(ConnectionEnd::kProtocol);
    return;
  }
  if (out_begin_ < out_.size() && now > last_write_ + kWriteStuck) {
    Close(ConnectionEnd::kStuck);
    return;
  }
  if (ping_open_ && now > ping_sent_ + environment_.keepalive / 3) {
    if (last_read_ < ping_sent_) {
      Close(ConnectionEnd::kStuck);
      return;
    }
    // One who sends something is there, whether he answers pings or not.
    ping_open_ = false;
  } else if (!ping_open_ && !calls_.empty() && now > last_read_ + environment_.keepalive) {
    nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
    ping_open_ = true;
    ping_sent_ = now;
    Touch();
  }
  if (going_away_ && now > noticed_at_ + kNoticeTime) NameLastCall();
  if (environment_.max_age.count() > 0) {
    if (!going_away_ && now > started_ + environment_.max_age) {
      DoBeginShutdown();
      age_ends_ = now + environment_.max_age_grace;
    } else if (age_ends_ != Clock::time_point() && now > age_ends_) {
      Close(ConnectionEnd::kAge);
      return;
    }
  }
  std::vector<std::shared_ptr<Http2Call>> calls;
  calls.reserve(calls_.size());
  for (const auto& [stream, call] : calls_) calls.push_back(call);
  for (const auto& call : calls) {
    if (!open()) return;
    if (call->attached()) call->Tick(now);
  }
}

void Http2Connection::BeginShutdown() {
  Guarded([this] { DoBeginShutdown(); });
}

void Http2Connection::DoBeginShutdown() {
  if (!open() || std::exchange(going_away_, true)) return;
  if (shaking_) {
    Close(ConnectionEnd::kShutdown);
    return;
  }
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

void Http2Connection::Close(ConnectionEnd why) {
  if (!open() || receiving_) return;
  const std::shared_ptr<Http2Connection> self = shared_from_this();
  nghttp2_session* const session = std::exchange(session_, nullptr);
  // Ends the waits; the transport closes the socket.
  waits_.End();
  // All are detached before any handler hears of it: it may reach for another call.
  const auto calls = std::exchange(calls_, {});
  for (const auto& [stream, call] : calls) call->Detach();
  for (const auto& [stream, call] : calls) {
    try {
      call->StreamClosed(/*in_order=*/false);
    } catch (...) {
      Increment(*environment_.stats->exception_counter());
    }
  }
  sent_.clear();
  nghttp2_session_del(session);
  transport_.reset();
  GiveToPot(std::exchange(header_bytes_, 0));
  share_->Give(base_bytes_);
  environment_.stats->Closed(why);
  owner_.Closed(this);
}

}  // namespace memoryd
