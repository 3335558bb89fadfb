#include "server/http/connect_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "server/http/connect_codec.h"
#include "server/http/connect_message.h"
#include "server/http/http_reply.h"
#include "server/http/request_parser.h"
#include "server/http2/call_messages.h"
#include "server/http2/http2_times.h"
#include "server/http2/loop_call.h"
#include "server/wire/rpc_call.h"
#include "server/wire/rpc_status.h"

namespace memoryd {
namespace {

// How long a stream's next line may be away.
constexpr std::chrono::seconds kBetweenLines(60);

std::string Chunked(std::string_view bytes) {
  return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

}  // namespace

ConnectCall::ConnectCall(Parts parts, ConnectRequest request)
    : LoopCall(*parts.environment, std::move(parts.loop), std::move(parts.certificate_names)),
      carrier_(parts.carrier),
      method_(*parts.method),
      format_(parts.format),
      deadline_(parts.deadline),
      request_(std::move(request)),
      takes_body_(!parts.message.has_value()),
      body_(std::move(parts.message).value_or("")) {}

ConnectCall::~ConnectCall() = default;

void ConnectCall::Start() {
  Guarded([this] { (*method_.start)(shared_from_this()); });
}

absl::Status ConnectCall::ChargeTo(std::string_view tenant) {
  return CountFor(tenant,
                  kCallBytes + static_cast<std::int64_t>(request_.metadata.bytes + body_.size()));
}

void ConnectCall::DoRead() {
  if (carrier_ == nullptr || reading_ || read_ended_) return;
  reading_ = true;
  read_since_ = last_data_ = Clock::now();
  if (HasLines()) {
    DeliverLines();
    return;
  }
  if (request_ended_) {
    Deliver();
    return;
  }
  // Refused before it is sent.
  const std::uint64_t length = request_.content_length.value_or(0);
  if (length > MostOfBody()) {
    EndTooLarge();
    return;
  }
  body_.reserve(length);
  if (request_.expects_continue) carrier_->Write("HTTP/1.1 100 Continue\r\n\r\n", {});
}

std::size_t ConnectCall::MostOfBody() const {
  return MostOfMessage() + (format_.request == Framing::kEnvelopes ? kPrefixBytes : 0);
}

std::size_t ConnectCall::MostOfMessage() const {
  return charged() ? environment_.max_message_bytes
                   : std::min(kMostUncharged, environment_.max_message_bytes);
}

void ConnectCall::EndTooLarge() { EndReading(RequestTooLarge(MostOfMessage())); }

bool ConnectCall::Charge(std::size_t bytes) {
  if (!HasLines() && body_.size() + bytes > MostOfBody()) {
    EndTooLarge();
    return false;
  }
  if (!charged()) return true;
  if (const absl::Status status = hold_.Grow(static_cast<std::int64_t>(bytes)); !status.ok()) {
    EndReading(status);
    return false;
  }
  return true;
}

void ConnectCall::TakeBody(std::string_view bytes) {
  last_data_ = Clock::now();
  // Nobody wants it.
  if (finished_ || read_ended_ || !takes_body_ || !Charge(bytes.size())) return;
  if (HasLines()) {
    lines_.Put(bytes);
  } else {
    body_.append(bytes);
  }
}

void ConnectCall::BodyTaken() {
  if (HasLines() && reading_) DeliverLines();
}

void ConnectCall::EndOfRequest() {
  request_ended_ = true;
  if (!reading_) return;
  if (HasLines()) {
    DeliverLines();
  } else {
    Deliver();
  }
}

bool ConnectCall::WantsBody() const { return !HasLines() || reading_ || read_ended_ || finished_; }

void ConnectCall::DeliverLines() {
  // A handler may ask for the next line before it returns.
  if (std::exchange(delivers_lines_, true)) return;
  while (carrier_ != nullptr && reading_) {
    if (charged()) {
      hold_.Resize(kCallBytes +
                   static_cast<std::int64_t>(request_.metadata.bytes + lines_.bytes()));
    }
    std::optional<std::string> line = NextLine();
    if (!line.has_value()) break;
    DeliverMessage(*std::move(line));
  }
  delivers_lines_ = false;
}

std::optional<std::string> ConnectCall::NextLine() {
  std::optional<std::string> line = lines_.Take(request_ended_);
  // One that is not complete is the next.
  line_ = lines_.number() + (line.has_value() || request_ended_ ? 0 : 1);
  if ((line.has_value() ? line->size() : lines_.bytes()) > MostOfMessage()) {
    EndTooLarge();
    return std::nullopt;
  }
  if (line.has_value()) return line;
  if (request_ended_) {
    EndReading(absl::OkStatus());
  } else {
    if (std::exchange(request_.expects_continue, false)) {
      carrier_->Write("HTTP/1.1 100 Continue\r\n\r\n", {});
    }
    carrier_->ReadBody();
  }
  return std::nullopt;
}

void ConnectCall::EndReading(const absl::Status& status) {
  reading_ = false;
  read_ended_ = true;
  body_ = {};
  lines_ = {};
  Tell(handler_, [&status](RpcHandler& handler) { handler.OnReadEnd(status); });
}

void ConnectCall::Deliver() {
  if (std::exchange(has_message_, true)) {
    EndReading(absl::OkStatus());
    return;
  }
  DeliverMessage(std::exchange(body_, {}));
}

void ConnectCall::DeliverMessage(std::string body) {
  reading_ = false;
  const std::shared_ptr<RpcHandler> handler = handler_;
  if (handler == nullptr) return;
  // A few bytes that are compressed may be many.
  if (body.size() <= kLargeMessage && !format_.is_gzipped) {
    HandOver(handler, std::move(body));
    return;
  }
  const auto kept = std::make_shared<std::string>(std::move(body));
  const bool queued = environment_.large_messages->TrySubmit(
      tenant_,
      [this, handler, kept, self = shared_from_this()] { HandOver(handler, std::move(*kept)); });
  if (!queued) {
    EndReading(LargeRequestsWait());
  }
}

void ConnectCall::HandOver(const std::shared_ptr<RpcHandler>& handler, std::string body) {
  Guarded([&] {
    // Counts the message that is made of the body, until the handler has parsed it.
    auto hold = Take(MemoryUse::kRequests, 0);
    if (!hold.ok()) {
      handler->OnReadEnd(hold.status());
      return;
    }
    const absl::StatusOr<std::string> message =
        DecodeRequest(std::move(body), format_, *method_.request, MostOfMessage(), *hold);
    if (message.ok()) {
      handler->OnMessage(*message);
    } else {
      handler->OnReadEnd(message.status());
    }
  });
}

void ConnectCall::Send(std::string message, MemoryBudget::Hold hold) {
  SendAnd(std::move(message), std::move(hold), /*is_last=*/false);
}

void ConnectCall::SendLast(std::string message, MemoryBudget::Hold hold) {
  SendAnd(std::move(message), std::move(hold), /*is_last=*/true);
}

void ConnectCall::SendAnd(std::string message, MemoryBudget::Hold hold, bool is_last) {
  Guarded([&] {
    auto encoded = EncodeReply(std::move(message), format_, *method_.reply);
    if (!encoded.ok()) {
      Finish(encoded.status(), {});
      return;
    }
    if (charged()) CountReply(budget_, tenant_, encoded->bytes.size(), hold);
    InLoop([this, is_last, reply = *std::move(encoded), hold = std::move(hold)]() mutable {
      DoSend(std::move(reply), std::move(hold));
      if (is_last) DoFinish({}, {});
    });
  });
}

void ConnectCall::DoSend(EncodedReply reply, MemoryBudget::Hold hold) {
  if (carrier_ == nullptr || finished_) return;
  if (format_.reply == Framing::kAlone) {
    // The status of HTTP stands before it, so it leaves with the end of the call.
    reply_ = std::move(reply);
    reply_hold_ = std::move(hold);
    return;
  }
  WriteHead();
  has_unsent_ = true;
  if (format_.reply == Framing::kLines) {
    reply.bytes.push_back('\n');
    carrier_->Write(Chunked(reply.bytes), std::move(hold));
  } else {
    carrier_->Write(Chunked(Enveloped(reply.is_gzipped ? kGzippedFlag : 0, reply.bytes)),
                    std::move(hold));
  }
}

void ConnectCall::WriteHead() {
  if (std::exchange(has_head_, true)) return;
  HttpReply answer(200);
  if (format_.reply == Framing::kLines) {
    answer.Header("Content-Type", kLinesType);
  } else {
    answer.Header("Content-Type",
                  format_.is_json ? "application/connect+json" : "application/connect+proto");
    if (format_.takes_gzip) answer.Header("Connect-Content-Encoding", "gzip");
    answer.Header("Connect-Accept-Encoding", "gzip");
  }
  Complete(answer, carrier_->MayKeepAlive());
  carrier_->Write(answer.HeadOfChunks(), {});
}

void ConnectCall::WriteEnd(const RpcStatus& status) {
  WriteHead();
  std::string end;
  if (format_.reply == Framing::kEnvelopes) {
    end = Chunked(Enveloped(kEndFlag, EndJson(status, trailers_)));
  } else if (status.code != 0) {
    end = Chunked(EndJson(status, {}) + "\n");
  }
  carrier_->Write(end + "0\r\n\r\n", {});
}

RpcStatus ConnectCall::WithLine(RpcStatus status) const {
  const auto code = static_cast<absl::StatusCode>(status.code);
  if (line_ > 0 && (code == absl::StatusCode::kInvalidArgument ||
                    code == absl::StatusCode::kResourceExhausted)) {
    status.message = fmt::format("line {}: {}", line_, status.message);
  }
  return status;
}

void ConnectCall::Complete(HttpReply& answer, bool keeps_alive) const {
  for (const auto& [name, value] : headers_) answer.Header(name, value);
  // A stream has them at its end.
  if (format_.reply == Framing::kAlone) {
    for (const auto& [name, value] : trailers_) answer.Header("Trailer-" + name, value);
  }
  carrier_->Complete(answer, keeps_alive);
}

void ConnectCall::AddHeader(std::string name, std::string value) {
  InLoop([this, name = std::move(name), value = std::move(value)]() mutable {
    headers_.emplace_back(std::move(name), std::move(value));
  });
}

void ConnectCall::AddTrailer(std::string name, std::string value) {
  InLoop([this, name = std::move(name), value = std::move(value)]() mutable {
    trailers_.emplace_back(std::move(name), std::move(value));
  });
}

void ConnectCall::Finish(const absl::Status& status, std::string_view request_id) {
  Finish(ToRpcStatus(status), request_id);
}

void ConnectCall::Finish(const RpcStatus& status, std::string_view request_id) {
  InLoop([this, status, request_id = std::string(request_id)] { DoFinish(status, request_id); });
}

void ConnectCall::DoFinish(const RpcStatus& status, std::string_view request_id) {
  if (carrier_ == nullptr || std::exchange(finished_, true)) return;
  read_ended_ = true;
  reading_ = false;
  body_ = {};
  lines_ = {};
  const bool keeps_alive = carrier_->MayKeepAlive();
  // Before the first of its lines, an error has a status of HTTP.
  const bool is_streamed = format_.reply == Framing::kEnvelopes ||
                           (format_.reply == Framing::kLines && (has_head_ || status.code == 0));
  if (is_streamed) {
    WriteEnd(status);
  } else if (status.code == 0) {
    HttpReply answer(200);
    answer.Header("Content-Type", format_.is_json ? "application/json" : "application/proto");
    answer.Header("Accept-Encoding", "gzip").Header("Vary", "Accept-Encoding");
    if (reply_.is_gzipped) answer.Header("Content-Encoding", "gzip");
    Complete(answer, keeps_alive);
    std::string bytes = answer.HeadOf(reply_.bytes.size());
    bytes.append(reply_.bytes);
    reply_ = {};
    carrier_->Write(std::move(bytes), std::move(reply_hold_));
  } else {
    HttpReply answer(WithLine(status), request_id);
    Complete(answer, keeps_alive);
    carrier_->Write(answer.Text(), {});
  }
  carrier_->EndAnswer(keeps_alive);
}

void ConnectCall::DoCancel() {
  if (carrier_ != nullptr) carrier_->Break();
}

void ConnectCall::Sent() {
  if (!std::exchange(has_unsent_, false)) return;
  TellHandler(&RpcHandler::OnSent);
}

void ConnectCall::Ended(bool in_order) {
  carrier_ = nullptr;
  finished_ = true;
  body_ = {};
  lines_ = {};
  TellEnd(/*cancelled=*/!in_order);
}

absl::Status ConnectCall::CheckPace(Clock::time_point now) const {
  const Http2Times& times = environment_.times;
  const bool idle = now > last_data_ + times.body_idle;
  if (!HasLines()) {
    const std::size_t size =
        std::max<std::size_t>(body_.size(), request_.content_length.value_or(0));
    const bool slow = now > read_since_ + times.ForMessage(size);
    return idle || slow ? RequestStalled(times, idle) : absl::OkStatus();
  }
  // Between two lines nobody has to send for a while. Blank lines are none.
  if (lines_.bytes() > 0) {
    const bool slow = now > read_since_ + kBetweenLines + times.ForMessage(lines_.bytes());
    return idle || slow ? RequestStalled(times, idle) : absl::OkStatus();
  }
  if (now <= read_since_ + kBetweenLines) return absl::OkStatus();
  return Error(absl::StatusCode::kDeadlineExceeded, "REQUEST_STALLED",
               fmt::format("no line came for {} seconds", kBetweenLines.count()));
}

void ConnectCall::Tick(Clock::time_point now) {
  if (finished_) return;
  if (reading_ && !request_ended_) {
    if (const absl::Status pace = CheckPace(now); !pace.ok()) {
      stats_.GaveUpRequest();
      EndReading(pace);
    } else if (now > deadline_) {
      // Nobody has all of the request, so nobody else answers.
      EndReading(absl::DeadlineExceededError(
          "the call's deadline passed before its request had come; nothing was stored"));
      return;
    }
  }
  // A second for the answer that the handler itself has for it.
  if (carrier_ != nullptr && !finished_ && deadline_ != TimePoint::max() &&
      now > deadline_ + std::chrono::seconds(1)) {
    carrier_->Break();
  }
}

}  // namespace memoryd
