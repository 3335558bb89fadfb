#include "server/http/http_connection.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "server/http/connect_call.h"
#include "server/http/http_port.h"
#include "server/http/http_reply.h"
#include "server/http/request_parser.h"
#include "server/http2/connection.h"
#include "server/http2/http2_stats.h"
#include "server/http2/http2_times.h"
#include "server/http2/socket_connection.h"
#include "server/settings/limits.h"

namespace memoryd {
namespace {

using Seconds = std::chrono::seconds;

constexpr Seconds kHeadUnfinished(10);
constexpr Seconds kIdle(60);
constexpr Seconds kLeave(2);
constexpr std::size_t kReadAtOnce = 16 << 10;
// More than the parser leaves of a head of the largest size, and of anything else.
constexpr std::size_t kMostUnparsed = kToldHeaderBytes + kReadAtOnce;
// The most bytes of a request that nobody reads any more.
constexpr std::size_t kMostDropped = 64 << 20;

HttpReply RefusalOf(RequestParser::State parsed) {
  if (parsed != RequestParser::State::kTooLarge) {
    return Refusal(400, MalformedHttp("the request is no HTTP/1.1"));
  }
  return Refusal(431, Error(absl::StatusCode::kResourceExhausted, "METADATA_TOO_LARGE",
                            "the head of the request is too large; nothing was started"));
}

}  // namespace

HttpConnection::HttpConnection(const HttpPort* port, ConnectionParts parts)
    : SocketConnection(std::move(parts)), port_(*port), since_(Clock::now()) {}

HttpConnection::~HttpConnection() = default;

std::size_t HttpConnection::ReadSize() {
  // What comes ahead of the answer waits in the socket, once a part of it is here.
  if (state_ == State::kAnswer && !in_.empty()) return 0;
  if (state_ == State::kBody && call_ != nullptr && !call_->WantsBody()) {
    body_waits_ = true;
    return 0;
  }
  return kReadAtOnce;
}

void HttpConnection::ReadBody() {
  if (std::exchange(body_waits_, false)) ReadOn();
}

void HttpConnection::OnBytes(std::string_view bytes) {
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
  const bool is_parsed = ParseInput();
  parsing_ = false;
  if (!is_parsed) {
    Close(ConnectionEnd::kProtocol);
    return;
  }
  if (open() && state_ == State::kBody && call_ != nullptr) {
    const std::shared_ptr<ConnectCall> call = call_;
    call->BodyTaken();
  }
  if (!open()) return;
  if (!HoldInput()) {
    Close(ConnectionEnd::kTooManyOfOne);
    return;
  }
  Touch();
}

bool HttpConnection::ParseInput() {
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
      if (state_ == State::kBody) return false;
      EndInput(RefusalOf(parsed));
    } else if (taken == 0) {
      break;
    }
  }
  return true;
}

bool HttpConnection::HoldInput() {
  const auto size = static_cast<std::int64_t>(in_.size());
  if (size > input_bytes_ && share().Take(size - input_bytes_) != PotShare::Outcome::kTaken) {
    return false;
  }
  if (size < input_bytes_) share().Give(input_bytes_ - size);
  input_bytes_ = size;
  return true;
}

void HttpConnection::BeginRequest() {
  state_ = State::kBody;
  since_ = Clock::now();
  answer_ended_ = false;
  body_waits_ = false;
  ConnectRequest request = std::move(parser_->request());
  keeps_alive_ = request.keeps_alive && !request.is_http_1_0;
  asks_head_ = request.method == "HEAD";
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
  parts.environment = &environment();
  parts.loop = loop();
  parts.carrier = this;
  parts.certificate_names = certificate_names();
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
  asks_head_ = false;
  site_ = {};
  input_lost_ = true;
  state_ = State::kAnswer;
  in_ = {};
  Answer(std::move(answer));
}

void HttpConnection::Answer(HttpReply answer) {
  const bool keeps_alive = MayKeepAlive();
  Complete(answer, keeps_alive);
  if (asks_head_) {
    // A body would be taken for the next answer.
    Write(answer.HeadAlone(), {});
  } else {
    Write(answer.Text(), {});
    if (!answer.fixed_body().empty()) Queue({{}, answer.fixed_body(), {}});
  }
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

void HttpConnection::OnFlush() {
  if (parsing_ || !SendOut() || !open()) return;
  if (answer_ended_) {
    AnswerLeft();
  } else if (call_ != nullptr && outgoing_bytes_ > 0) {
    outgoing_bytes_ = 0;
    const std::shared_ptr<ConnectCall> call = call_;
    call->Sent();
  }
}

bool HttpConnection::SendOut() {
  while (!outgoing_.empty()) {
    const std::string_view first = outgoing_.front().bytes();
    std::string_view left = first.substr(outgoing_begin_);
    const bool all = WriteOut(left);
    // Closed.
    if (outgoing_.empty()) return false;
    const std::size_t begin = first.size() - left.size();
    if (begin > outgoing_begin_) last_progress_ = Clock::now();
    outgoing_begin_ = begin;
    if (!all) return false;
    outgoing_.pop_front();
    outgoing_begin_ = 0;
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
    ReadOn();
    return;
  }
  state_ = State::kHead;
  const bool had_more = !in_.empty();
  ParseMore();
  if (had_more && open()) ReadOn();
}

void HttpConnection::OnTick(Clock::time_point now) {
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
  if (!outgoing_.empty()) {
    const Http2Times& times = environment().times;
    if (now > last_progress_ + times.reply_unread ||
        now > outgoing_since_ + times.ForMessage(outgoing_bytes_)) {
      environment().stats->GaveUpReply();
      Close(ConnectionEnd::kStuck);
      return;
    }
  }
  if (const std::shared_ptr<ConnectCall> call = call_; call != nullptr) call->Tick(now);
}

void HttpConnection::OnShutdown() {
  going_away_ = true;
  if (state_ == State::kHead && in_.empty()) Close(ConnectionEnd::kShutdown);
}

void HttpConnection::OnClosed() {
  if (const std::shared_ptr<ConnectCall> call = std::exchange(call_, nullptr); call != nullptr) {
    call->Ended(/*in_order=*/false);
  }
  outgoing_.clear();
  share().Give(std::exchange(input_bytes_, 0));
}

}  // namespace memoryd
