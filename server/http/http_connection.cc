#include "server/http/http_connection.h"

#include <utility>
#include <variant>

#include "core/base/error.h"
#include "server/settings/limits.h"

namespace memoryd {
namespace {

using Seconds = std::chrono::seconds;

constexpr Seconds kHandshake(5);
constexpr Seconds kHeadUnfinished(10);
constexpr Seconds kIdle(60);
constexpr Seconds kLeave(2);
constexpr std::size_t kReadAtOnce = 16 << 10;
// More than the parser leaves of a head of the largest size, and of anything else.
constexpr std::size_t kMostUnparsed = kToldHeaderBytes + kReadAtOnce;
// The most bytes of a request that nobody reads any more.
constexpr std::size_t kMostDropped = 64 << 20;

}  // namespace

HttpConnection::HttpConnection(const HttpPort* port, ConnectionParts parts)
    : port_(*port),
      environment_(*parts.environment),
      loop_(std::move(parts.loop)),
      socket_(parts.socket),
      waits_(loop_.get()),
      transport_(std::move(parts.transport)),
      owner_(*parts.owner),
      share_(std::move(parts.share)),
      base_bytes_(parts.base_bytes),
      since_(Clock::now()) {}

HttpConnection::~HttpConnection() = default;

void HttpConnection::Guarded(absl::FunctionRef<void()> event) {
  try {
    event();
  } catch (...) {
    Increment(*environment_.stats->exception_counter());
    failed_ = true;
  }
  if (failed_) {
    parsing_ = false;
    Close(ConnectionEnd::kException);
  }
}

void HttpConnection::Start() {
  environment_.stats->Opened();
  Guarded([this] {
    if (waits_.Begin(socket_)) {
      Shake();
    } else {
      Close(ConnectionEnd::kTooMany);
    }
  });
}

void HttpConnection::Shake() {
  switch (transport_->Handshake().state) {
    case Transport::State::kDone:
      certificate_names_ =
          std::make_shared<const std::vector<std::string>>(transport_->CertificateNames());
      state_ = State::kHead;
      since_ = Clock::now();
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

void HttpConnection::WaitReadable() {
  if (!open()) return;
  waits_.ForRead([self = shared_from_this()] { self->OnSocket(&HttpConnection::OnReadable); });
}

void HttpConnection::WaitWritable() {
  if (!open()) return;
  waits_.ForWrite([self = shared_from_this()] { self->OnSocket(&HttpConnection::DoFlush); });
}

void HttpConnection::OnSocket(void (HttpConnection::*event)()) {
  if (!open()) return;
  Guarded([this, event] {
    if (state_ == State::kShaking) {
      Shake();
    } else {
      (this->*event)();
    }
  });
}

void HttpConnection::OnReadable() {
  // What comes ahead of the answer waits in the socket, once a part of it is here.
  if (!open() || (state_ == State::kAnswer && !in_.empty())) return;
  const Transport::Result result = transport_->Read(loop_->buffer().data(), kReadAtOnce);
  switch (result.state) {
    case Transport::State::kDone:
      Receive({loop_->buffer().data(), result.bytes});
      if (!open()) return;
      if (transport_->HasBuffered()) {
        ReadAgain();
      } else {
        WaitReadable();
      }
      return;
    case Transport::State::kWantRead:
      WaitReadable();
      return;
    case Transport::State::kWantWrite:
      WaitWritable();
      WaitReadable();
      return;
    case Transport::State::kClosed:
      Close(ConnectionEnd::kPeer);
      return;
  }
}

void HttpConnection::ReadAgain() {
  // By a task of its own, so that others have their turn.
  loop_->Post([self = shared_from_this()] { self->Guarded([&self] { self->OnReadable(); }); });
}

void HttpConnection::Receive(std::string_view bytes) {
  if (state_ == State::kLeaving) {
    dropped_bytes_ += bytes.size();
    if (dropped_bytes_ > kMostDropped) Close(ConnectionEnd::kFlood);
    return;
  }
  if (state_ == State::kHead && in_.empty() && parser_ == nullptr) since_ = Clock::now();
  in_.append(bytes);
  ParseMore();
}

void HttpConnection::ParseMore() {
  if (std::exchange(parsing_, true)) return;
  while (open() && !in_.empty() && (state_ == State::kHead || state_ == State::kBody)) {
    if (parser_ == nullptr) {
      parser_ = std::make_unique<RequestParser>(
          [this](std::string_view body) {
            if (call_ != nullptr) call_->TakeBody(body);
          },
          port_.keeps_fields);
    }
    std::size_t taken = 0;
    const RequestParser::State parsed = parser_->Put(in_, taken);
    in_.erase(0, taken);
    if (parsed == RequestParser::State::kHead) {
      BeginRequest();
    } else if (parsed == RequestParser::State::kDone) {
      state_ = State::kAnswer;
      since_ = Clock::now();
      if (call_ != nullptr) call_->EndOfRequest();
    } else if (parsed != RequestParser::State::kNeedsMore || in_.size() > kMostUnparsed) {
      // In a body: an answer may have left already.
      if (state_ == State::kBody) {
        parsing_ = false;
        Close(ConnectionEnd::kProtocol);
        return;
      }
      EndInput(
          parsed == RequestParser::State::kTooLarge
              ? Refusal(431, Error(absl::StatusCode::kResourceExhausted, "METADATA_TOO_LARGE",
                                   "the head of the request is too large; nothing was started"))
              : Refusal(400, MalformedHttp("the request is no HTTP/1.1")));
    } else if (taken == 0) {
      break;
    }
  }
  parsing_ = false;
  if (!open()) return;
  if (!HoldInput()) {
    Close(ConnectionEnd::kTooManyOfOne);
    return;
  }
  Touch();
}

bool HttpConnection::HoldInput() {
  const auto size = static_cast<std::int64_t>(in_.size());
  if (size > input_bytes_ && share_->Take(size - input_bytes_) != PotShare::Outcome::kTaken) {
    return false;
  }
  if (size < input_bytes_) share_->Give(input_bytes_ - size);
  input_bytes_ = size;
  return true;
}

void HttpConnection::BeginRequest() {
  state_ = State::kBody;
  since_ = Clock::now();
  answer_ended_ = false;
  ConnectRequest request = std::move(parser_->request());
  keeps_alive_ = request.keeps_alive && !request.is_http_1_0;
  site_ = port_.allowed_origins.contains(request.origin) ? request.origin : "";
  auto routed = Route(port_, request);
  if (auto* const answer = std::get_if<HttpReply>(&routed); answer != nullptr) {
    Answer(std::move(*answer));
  } else {
    StartCall(std::get<ConnectHead>(std::move(routed)), std::move(request));
  }
  // Without a body there is nothing more to come of it.
  if (open() && state_ == State::kBody && parser_->request_ended()) {
    state_ = State::kAnswer;
    if (call_ != nullptr) call_->EndOfRequest();
  }
}

void HttpConnection::StartCall(ConnectHead head, ConnectRequest request) {
  ConnectCall::Parts parts;
  parts.environment = &environment_;
  parts.loop = loop_;
  parts.carrier = this;
  parts.certificate_names = certificate_names_;
  parts.method = head.method;
  parts.format = head.format;
  parts.deadline = head.deadline;
  parts.message = std::move(head.message);
  call_ = std::make_shared<ConnectCall>(std::move(parts), std::move(request));
  const std::shared_ptr<ConnectCall> call = call_;
  call->Start();
}

void HttpConnection::EndInput(HttpReply answer) {
  keeps_alive_ = false;
  site_ = {};
  input_lost_ = true;
  state_ = State::kAnswer;
  in_ = {};
  Answer(std::move(answer));
}

void HttpConnection::Answer(HttpReply answer) {
  const bool keeps_alive = MayKeepAlive();
  Complete(answer, keeps_alive);
  Write(answer.Text(), {});
  if (!answer.fixed_body().empty()) Queue({{}, answer.fixed_body(), {}});
  EndAnswer(keeps_alive);
}

void HttpConnection::Complete(HttpReply& answer, bool keeps_alive) const {
  answer.KeepAlive(keeps_alive);
  if (port_.allowed_origins.empty()) return;
  // For caches between: another site gets another answer.
  answer.Header("Vary", "Origin");
  if (site_.empty()) return;
  answer.Header("Access-Control-Allow-Origin", site_);
  answer.Header("Access-Control-Expose-Headers", "X-Request-Id, Content-Encoding");
}

bool HttpConnection::MayKeepAlive() const {
  // A body in part would be taken for the next request.
  const bool whole = state_ == State::kAnswer || (parser_ != nullptr && parser_->request_ended());
  return keeps_alive_ && whole && !going_away_;
}

void HttpConnection::Write(std::string bytes, MemoryBudget::Hold hold) {
  if (bytes.empty()) return;
  Queue({std::move(bytes), {}, std::move(hold)});
}

void HttpConnection::Queue(Outgoing outgoing) {
  if (!open()) return;
  if (outgoing_.empty()) {
    outgoing_since_ = last_progress_ = Clock::now();
    outgoing_bytes_ = 0;
  }
  outgoing_bytes_ += outgoing.bytes().size();
  outgoing_.push_back(std::move(outgoing));
  Touch();
}

void HttpConnection::EndAnswer(bool keeps_alive) {
  answer_ended_ = true;
  keeps_alive_ = keeps_alive;
  Touch();
}

void HttpConnection::Break() { Close(ConnectionEnd::kStuck); }

void HttpConnection::Touch() {
  if (touched_ || !open()) return;
  owner_.Touched(shared_from_this());
  touched_ = true;
}

void HttpConnection::Flush() {
  touched_ = false;
  Guarded([this] { DoFlush(); });
}

void HttpConnection::DoFlush() {
  if (!open() || state_ == State::kShaking || parsing_ || !WriteOut() || !open()) return;
  if (answer_ended_) {
    AnswerLeft();
  } else if (call_ != nullptr && outgoing_bytes_ > 0) {
    outgoing_bytes_ = 0;
    const std::shared_ptr<ConnectCall> call = call_;
    call->Sent();
  }
}

bool HttpConnection::WriteOut() {
  while (!outgoing_.empty()) {
    const std::string_view first = outgoing_.front().bytes();
    const Transport::Result result =
        transport_->Write(first.data() + outgoing_begin_, first.size() - outgoing_begin_);
    if (result.state == Transport::State::kDone) {
      last_progress_ = Clock::now();
      outgoing_begin_ += result.bytes;
      if (outgoing_begin_ == first.size()) {
        outgoing_.pop_front();
        outgoing_begin_ = 0;
      }
      continue;
    }
    if (result.state == Transport::State::kClosed) {
      Close(ConnectionEnd::kPeer);
      return false;
    }
    if (result.state == Transport::State::kWantWrite) WaitWritable();
    return false;
  }
  return true;
}

void HttpConnection::AnswerLeft() {
  answer_ended_ = false;
  outgoing_bytes_ = 0;
  if (const std::shared_ptr<ConnectCall> call = std::exchange(call_, nullptr); call != nullptr) {
    call->Ended(/*in_order=*/true);
  }
  if (!open()) return;
  const bool another = keeps_alive_ && !going_away_ && state_ == State::kAnswer;
  parser_ = nullptr;
  since_ = Clock::now();
  if (!another && state_ == State::kAnswer && in_.empty() && !input_lost_) {
    Close(going_away_ ? ConnectionEnd::kShutdown : ConnectionEnd::kPeer);
    return;
  }
  if (!another) {
    // To close with bytes unread would take the answer away from the peer.
    state_ = State::kLeaving;
    in_ = {};
    HoldInput();
    ReadAgain();
    return;
  }
  state_ = State::kHead;
  const bool had_more = !in_.empty();
  ParseMore();
  if (had_more && open()) ReadAgain();
}

void HttpConnection::Tick(Clock::time_point now) {
  Guarded([this, now] { DoTick(now); });
}

void HttpConnection::DoTick(Clock::time_point now) {
  if (state_ == State::kShaking) {
    if (now > since_ + kHandshake) Close(ConnectionEnd::kHandshake);
    return;
  }
  if (state_ == State::kHead) {
    const bool begun = !in_.empty() || parser_ != nullptr;
    if (now > since_ + (begun ? kHeadUnfinished : kIdle)) {
      Close(begun ? ConnectionEnd::kProtocol : ConnectionEnd::kStuck);
    }
    return;
  }
  if (state_ == State::kLeaving) {
    if (now > since_ + kLeave) Close(ConnectionEnd::kPeer);
    return;
  }
  if (!open()) return;
  if (!outgoing_.empty()) {
    const Http2Times& times = environment_.times;
    if (now > last_progress_ + times.reply_unread ||
        now > outgoing_since_ + times.ForMessage(outgoing_bytes_)) {
      environment_.stats->GaveUpReply();
      Close(ConnectionEnd::kStuck);
      return;
    }
  }
  if (const std::shared_ptr<ConnectCall> call = call_; call != nullptr) call->Tick(now);
}

void HttpConnection::BeginShutdown() {
  Guarded([this] {
    going_away_ = true;
    if (state_ == State::kShaking || (state_ == State::kHead && in_.empty())) {
      Close(ConnectionEnd::kShutdown);
    }
  });
}

void HttpConnection::Close(ConnectionEnd why) {
  if (!open()) return;
  const std::shared_ptr<HttpConnection> self = shared_from_this();
  state_ = State::kClosed;
  // Ends the waits; the transport closes the socket.
  waits_.End();
  if (const std::shared_ptr<ConnectCall> call = std::exchange(call_, nullptr); call != nullptr) {
    call->Ended(/*in_order=*/false);
  }
  outgoing_.clear();
  transport_.reset();
  share_->Give(std::exchange(input_bytes_, 0));
  share_->Give(base_bytes_);
  environment_.stats->Closed(why);
  owner_.Closed(this);
}

}  // namespace memoryd
