#include "server/http2/http2_call.h"

#include <fmt/format.h>
#include <nghttp2/nghttp2.h>
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "core/base/status_macros.h"
#include "server/http2/call_headers.h"
#include "server/http2/call_messages.h"
#include "server/http2/grpc_headers.h"
#include "server/http2/http2_connection.h"
#include "server/http2/loop_call.h"
#include "server/wire/rpc_call.h"
#include "server/wire/rpc_status.h"

namespace memoryd {
namespace {

using Seconds = std::chrono::seconds;

nghttp2_nv Header(std::string_view name, std::string_view value) {
  // nghttp2 copies both and changes neither.
  return {reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(),
          value.size(), NGHTTP2_NV_FLAG_NONE};
}

ssize_t FillFrame(nghttp2_session* /*session*/, std::int32_t /*stream*/, std::uint8_t* buffer,
                  std::size_t size, std::uint32_t* flags, nghttp2_data_source* source,
                  void* /*connection*/) {
  return static_cast<Http2Call*>(source->ptr)->Fill(buffer, size, flags);
}

}  // namespace

Http2Call::Http2Call(Http2Connection* connection, std::int32_t stream)
    : LoopCall(connection->environment(), connection->loop(), connection->certificate_names()),
      connection_(connection),
      stream_(stream),
      last_data_(Clock::now()) {}

Http2Call::~Http2Call() = default;

void Http2Call::RunTask(absl::FunctionRef<void()> task) {
  if (connection_ == nullptr) {
    task();
    return;
  }
  Http2Connection& connection = *connection_;
  const auto kept = connection.shared_from_this();
  connection.Guarded(task);
}

void Http2Call::TakeInvalidHeader(std::string_view name, std::size_t value_bytes) {
  CountInvalidMetadata(metadata_, name, value_bytes);
}

void Http2Call::TakeHeader(std::string_view name, std::string_view value) {
  if (name.starts_with(':')) {
    if (name == ":path") path_.assign(value.substr(0, kMaxKeptHeader));
    if (name == ":method") is_post_ = value == "POST";
    return;
  }
  TakeMetadata(metadata_, name, value);
  if (value.size() > kMaxKeptHeader) return;
  if (name == "content-type") {
    content_type_.assign(value);
  } else if (name == "grpc-timeout") {
    const auto timeout = ParseGrpcTimeout(value);
    deadline_ = timeout.has_value() ? Clock::now() + *timeout : TimePoint::max();
  } else if (name == "grpc-encoding") {
    is_compressed_ = value != "identity";
  }
}

void Http2Call::Start() {
  const auto refuse = [this](std::string_view http_status, int code, std::string_view message) {
    const std::string number = std::to_string(code);
    const std::string text = PercentEncoded(message);
    const std::array<nghttp2_nv, 5> headers = {
        Header(":status", http_status), Header("content-type", "application/grpc"),
        Header("grpc-status", number), Header("grpc-message", text),
        Header("grpc-accept-encoding", "identity")};
    answered_ = finished_ = ended_ = true;
    nghttp2_submit_response(connection_->session_, stream_, headers.data(), headers.size(),
                            nullptr);
  };
  if (!is_post_) {
    refuse("405", static_cast<int>(absl::StatusCode::kUnknown), "a call is a POST");
    return;
  }
  if (!content_type_.starts_with("application/grpc")) {
    refuse("415", static_cast<int>(absl::StatusCode::kUnknown),
           "content-type: must be application/grpc");
    return;
  }
  const RpcMethods::Start* const start = environment_.methods->Find(path_);
  if (start == nullptr) {
    refuse("200", static_cast<int>(absl::StatusCode::kUnimplemented),
           "the server has no such method");
    return;
  }
  if (is_compressed_) {
    // A compressed request would have to be inflated before its size is known.
    refuse("200", static_cast<int>(absl::StatusCode::kUnimplemented),
           "grpc-encoding: messages must not be compressed");
    return;
  }
  path_ = {};
  content_type_ = {};
  // What is kept of the metadata is kept as long as the stream.
  const auto kept =
      static_cast<std::int64_t>(metadata_.authorization.size() + metadata_.request_id.size() +
                                metadata_.traceparent.size() + metadata_.tracestate.size());
  if (!connection_->TakeFromPot(kept)) {
    answered_ = finished_ = ended_ = true;
    nghttp2_submit_rst_stream(connection_->session_, NGHTTP2_FLAG_NONE, stream_,
                              NGHTTP2_REFUSED_STREAM);
    return;
  }
  from_pot_ += kept;
  const auto self = shared_from_this();
  Guarded([start, &self] { (*start)(self); });
}

absl::Status Http2Call::ChargeTo(std::string_view tenant) {
  MEMORYD_RETURN_IF_ERROR(
      CountFor(tenant, kCallBytes + static_cast<std::int64_t>(metadata_.bytes)));
  connection_->GiveToPot(std::exchange(from_pot_, 0));
  return absl::OkStatus();
}

absl::Status Http2Call::Charge(std::int64_t bytes) {
  if (charged()) return hold_.Grow(bytes);
  if (!connection_->TakeFromPot(bytes)) {
    return Error(absl::StatusCode::kResourceExhausted, "MEMORY_SHORT",
                 "callers without a tenant hold too much; nothing was started, try again later");
  }
  from_pot_ += bytes;
  return absl::OkStatus();
}

void Http2Call::DoRead() {
  if (connection_ == nullptr || reading_ || read_ended_) return;
  reading_ = true;
  last_data_ = Clock::now();
  if (charged()) {
    hold_.Resize(kCallBytes + static_cast<std::int64_t>(metadata_.bytes + unread_.size()));
  }
  // From within OnMessage(): what is left of `bytes` comes next.
  if (parsing_unread_) return;
  if (!unread_.empty()) {
    std::string bytes = std::exchange(unread_, {});
    parsing_unread_ = true;
    const std::size_t rest = Parse(std::string_view(bytes).substr(unread_begin_)).size();
    parsing_unread_ = false;
    unread_begin_ = 0;
    if (rest > 0 && connection_ != nullptr && !read_ended_) {
      unread_begin_ = bytes.size() - rest;
      unread_ = std::move(bytes);
    }
  }
  if (reading_ && request_ended_) EndOfRequest();
  if (connection_ != nullptr) connection_->Touch();
}

void Http2Call::TakeData(std::string_view bytes) {
  last_data_ = Clock::now();
  if (finished_ || read_ended_) {
    // Nobody wants it; the window stays open for the rest.
    nghttp2_session_consume_stream(connection_->session_, stream_, bytes.size());
    return;
  }
  Keep(Parse(bytes));
}

void Http2Call::Keep(std::string_view bytes) {
  if (bytes.empty() || connection_ == nullptr || read_ended_) return;
  if (Charge(static_cast<std::int64_t>(bytes.size())).ok()) {
    unread_.append(bytes);
  } else {
    GiveUp(NGHTTP2_ENHANCE_YOUR_CALM);
  }
}

std::string_view Http2Call::Parse(std::string_view bytes) {
  while (!bytes.empty() && reading_ && connection_ != nullptr) {
    if (prefix_size_ < kPrefixBytes) {
      if (prefix_size_ == 0) message_since_ = last_data_;
      const std::size_t part = std::min(kPrefixBytes - prefix_size_, bytes.size());
      std::copy_n(bytes.data(), part, prefix_.data() + prefix_size_);
      prefix_size_ += part;
      bytes.remove_prefix(part);
      nghttp2_session_consume_stream(connection_->session_, stream_, part);
      if (prefix_size_ < kPrefixBytes || !BeginMessage()) break;
      if (in_size_ == 0) {
        Deliver({});
        continue;
      }
    }
    const std::size_t part = std::min(in_size_ - in_.size(), bytes.size());
    const std::string_view taken = bytes.substr(0, part);
    bytes.remove_prefix(part);
    nghttp2_session_consume_stream(connection_->session_, stream_, part);
    if (in_.empty() && part == in_size_ && in_size_ <= kLargeMessage) {
      // The most frequent case: it came as a whole, and is read where it is.
      reading_ = false;
      prefix_size_ = 0;
      has_message_ = true;
      Tell(handler_, [taken](RpcHandler& handler) { handler.OnMessage(taken); });
      continue;
    }
    if (in_.empty()) in_.reserve(in_size_);
    in_.append(taken);
    if (in_.size() == in_size_) Deliver(std::exchange(in_, {}));
  }
  return bytes;
}

bool Http2Call::BeginMessage() {
  in_size_ = MessageSize({prefix_.data(), prefix_.size()});
  if (prefix_[0] != 0) {
    EndReading(
        Error(absl::StatusCode::kUnimplemented, "COMPRESSED", "messages must not be compressed"));
    return false;
  }
  // What asks for no tenant asks little.
  const std::size_t most = charged() ? environment_.max_message_bytes
                                     : std::min(kMostUncharged, environment_.max_message_bytes);
  if (in_size_ > most) {
    const std::string limit =
        fmt::format("the request has {} bytes, and may have {}", in_size_, most);
    if (charged()) {
      EndReading(Error(absl::StatusCode::kResourceExhausted, "REQUEST_TOO_LARGE",
                       limit + " by the server's setting max_request_mib; nothing was stored. "
                               "Raise it, send less at once, or media by their url alone",
                       {{"setting", "max_request_mib"}, {"max_bytes", fmt::format("{}", most)}}));
    } else {
      EndReading(Error(absl::StatusCode::kResourceExhausted, "REQUEST_TOO_LARGE", limit,
                       {{"max_bytes", fmt::format("{}", most)}}));
    }
    return false;
  }
  if (const absl::Status status = Charge(static_cast<std::int64_t>(in_size_)); !status.ok()) {
    EndReading(status);
    return false;
  }
  const std::int32_t window =
      nghttp2_session_get_stream_effective_local_window_size(connection_->session_, stream_);
  if (in_size_ > static_cast<std::size_t>(window)) {
    nghttp2_session_set_local_window_size(connection_->session_, NGHTTP2_FLAG_NONE, stream_,
                                          static_cast<std::int32_t>(in_size_));
  }
  return true;
}

void Http2Call::Deliver(std::string message) {
  reading_ = false;
  prefix_size_ = 0;
  has_message_ = true;
  if (message.size() <= kLargeMessage) {
    Tell(handler_, [&message](RpcHandler& handler) { handler.OnMessage(message); });
    return;
  }
  const std::shared_ptr<RpcHandler> handler = handler_;
  if (handler == nullptr) return;
  auto kept = std::make_shared<std::string>(std::move(message));
  const bool queued = environment_.large_messages->TrySubmit(
      tenant_, [this, handler, kept, self = shared_from_this()] {
        Guarded([&handler, &kept] { handler->OnMessage(*kept); });
      });
  if (!queued) {
    EndReading(LargeRequestsWait());
  }
}

void Http2Call::EndReading(const absl::Status& status) {
  reading_ = false;
  read_ended_ = true;
  in_ = {};
  unread_ = {};
  Tell(handler_, [&status](RpcHandler& handler) { handler.OnReadEnd(status); });
}

void Http2Call::EndOfRequest() {
  request_ended_ = true;
  if (!reading_ || read_ended_) return;
  const bool cut_short = prefix_size_ > 0 || !in_.empty();
  EndReading(cut_short ? Error(absl::StatusCode::kInvalidArgument, "MALFORMED_REQUEST",
                               "the request ends in the middle of a message")
                       : absl::OkStatus());
}

void Http2Call::Measure(std::string_view message, MemoryBudget::Hold& hold) {
  if (charged()) CountReply(budget_, tenant_, message.size(), hold);
}

void Http2Call::Send(std::string message, MemoryBudget::Hold hold) {
  Measure(message, hold);
  InLoop([this, message = std::move(message), hold = std::move(hold)]() mutable {
    DoSend(std::move(message), std::move(hold));
  });
}

void Http2Call::SendLast(std::string message, MemoryBudget::Hold hold) {
  Measure(message, hold);
  InLoop([this, message = std::move(message), hold = std::move(hold)]() mutable {
    DoSend(std::move(message), std::move(hold));
    DoFinish({}, {});
  });
}

void Http2Call::DoSend(std::string message, MemoryBudget::Hold hold) {
  if (connection_ == nullptr || finished_) return;
  // A tenant's reply is counted by `hold`.
  if (!charged() && !Charge(static_cast<std::int64_t>(message.size())).ok()) {
    GiveUp(NGHTTP2_ENHANCE_YOUR_CALM);
    return;
  }
  outgoing_.Add(std::move(message), std::move(hold), Clock::now());
  SubmitHeaders();
  if (std::exchange(deferred_, false)) nghttp2_session_resume_data(connection_->session_, stream_);
  connection_->Touch();
}

void Http2Call::Finish(const absl::Status& status, std::string_view request_id) {
  if (status.ok()) {
    InLoop([this] { DoFinish({}, {}); });
    return;
  }
  InLoop([this, answer = ToRpcStatus(status), request_id = std::string(request_id)]() mutable {
    DoFinish(answer, std::move(request_id));
  });
}

void Http2Call::DoFinish(const RpcStatus& status, std::string request_id) {
  if (connection_ == nullptr || finished_) return;
  finished_ = true;
  finished_at_ = Clock::now();
  read_ended_ = true;
  reading_ = false;
  unread_ = {};
  in_ = {};
  if (status.code != 0) trailers_ = ErrorTrailers(status, std::move(request_id));
  if (answered_) {
    if (std::exchange(deferred_, false)) {
      nghttp2_session_resume_data(connection_->session_, stream_);
    }
  } else {
    // No message: headers and trailers are one block.
    std::vector<nghttp2_nv> headers = {Header(":status", "200"),
                                       Header("content-type", "application/grpc")};
    if (status.code == 0) headers.push_back(Header("grpc-status", "0"));
    for (const auto& [name, value] : trailers_) headers.push_back(Header(name, value));
    answered_ = ended_ = true;
    nghttp2_submit_response(connection_->session_, stream_, headers.data(), headers.size(),
                            nullptr);
  }
  connection_->Touch();
}

void Http2Call::SubmitHeaders() {
  if (std::exchange(answered_, true)) return;
  const std::array<nghttp2_nv, 2> headers = {Header(":status", "200"),
                                             Header("content-type", "application/grpc")};
  nghttp2_data_provider provider = {};
  provider.source.ptr = this;
  provider.read_callback = &FillFrame;
  nghttp2_submit_response(connection_->session_, stream_, headers.data(), headers.size(),
                          &provider);
}

std::ptrdiff_t Http2Call::Fill(std::uint8_t* buffer, std::size_t size, std::uint32_t* flags) {
  const bool had_messages = !outgoing_.empty();
  OutgoingMessages::Filled frame = outgoing_.Fill({buffer, size}, Clock::now());
  const auto filled = static_cast<std::ptrdiff_t>(frame.bytes);
  if (const auto ended = static_cast<std::int64_t>(frame.ended_bytes); !charged() && ended > 0) {
    connection_->GiveToPot(ended);
    from_pot_ -= ended;
  }
  if (frame.owner != nullptr) {
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    connection_->referred_ = std::move(frame);
  }
  if (outgoing_.empty()) {
    if (had_messages && !finished_) {
      connection_->sent_.push_back(std::static_pointer_cast<Http2Call>(shared_from_this()));
    }
    if (finished_) {
      *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
      SubmitTrailers();
      return filled;
    }
  }
  if (filled == 0) {
    deferred_ = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  return filled;
}

void Http2Call::SubmitTrailers() {
  ended_ = true;
  if (trailers_.empty()) {
    const nghttp2_nv ok = Header("grpc-status", "0");
    nghttp2_submit_trailer(connection_->session_, stream_, &ok, 1);
    return;
  }
  std::vector<nghttp2_nv> headers;
  headers.reserve(trailers_.size());
  for (const auto& [name, value] : trailers_) headers.push_back(Header(name, value));
  nghttp2_submit_trailer(connection_->session_, stream_, headers.data(), headers.size());
}

void Http2Call::Sent() {
  if (connection_ != nullptr) TellHandler(&RpcHandler::OnSent);
}

void Http2Call::DoCancel() {
  if (connection_ != nullptr) GiveUp(NGHTTP2_CANCEL);
}

void Http2Call::GiveUp(std::uint32_t code) {
  // What is in frames already leaves, and the reply's bytes are given back now.
  connection_->out_.CopyReferred();
  outgoing_.Clear();
  in_ = {};
  unread_ = {};
  read_ended_ = true;
  reading_ = false;
  finished_ = ended_ = true;
  // Fill() is not asked again for a stream that is being reset.
  nghttp2_submit_rst_stream(connection_->session_, NGHTTP2_FLAG_NONE, stream_, code);
  connection_->Touch();
  if (BecomesCancelled()) TellHandler(&RpcHandler::OnCancel);
}

void Http2Call::StreamClosed(bool in_order) {
  const bool cancelled = !in_order || !ended_;
  Detach();
  TellEnd(cancelled);
}

void Http2Call::Detach() {
  if (connection_ == nullptr) return;
  connection_->GiveToPot(std::exchange(from_pot_, 0));
  connection_ = nullptr;
  outgoing_.Clear();
  in_ = {};
  unread_ = {};
  finished_ = true;
}

void Http2Call::Tick(Clock::time_point now) {
  if (finished_) {
    // What waits for the caller to read it.
    if (!ended_ && (IsReplyTooSlow(now) || now > deadline_)) GiveUpReply();
    return;
  }
  if (outgoing_.IsTooSlow(environment_.times, now)) {
    GiveUpReply();
    return;
  }
  if (reading_ && !request_ended_) TickRequest(now);
  // A second for the answer that the handler itself has for it.
  if (connection_ != nullptr && !finished_ && deadline_ != TimePoint::max() &&
      now > deadline_ + Seconds(1)) {
    GiveUp(NGHTTP2_CANCEL);
  }
}

bool Http2Call::IsReplyTooSlow(Clock::time_point now) const {
  if (!outgoing_.empty()) return outgoing_.IsTooSlow(environment_.times, now);
  return now > finished_at_ + environment_.times.reply_unread;
}

void Http2Call::GiveUpReply() {
  stats_.GaveUpReply();
  GiveUp(NGHTTP2_CANCEL);
}

void Http2Call::TickRequest(Clock::time_point now) {
  const Http2Times& times = environment_.times;
  // Between the messages of a stream nobody has to send.
  const bool idle = now > last_data_ + times.body_idle && (prefix_size_ > 0 || !has_message_);
  const bool slow =
      prefix_size_ > 0 &&
      now > message_since_ + times.ForMessage(prefix_size_ == kPrefixBytes ? in_size_ : 0);
  if (!idle && !slow) return;
  stats_.GaveUpRequest();
  EndReading(RequestStalled(times, idle));
}

}  // namespace memoryd
