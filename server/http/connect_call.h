// One call by the Connect protocol, or by lines of JSON, on a connection of HTTP/1.1.
#ifndef MEMORYD_SERVER_HTTP_CONNECT_CALL_H_
#define MEMORYD_SERVER_HTTP_CONNECT_CALL_H_

#include <google/protobuf/descriptor.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "server/http/body_lines.h"
#include "server/http/connect_message.h"
#include "server/http/http_reply.h"
#include "server/http/request_parser.h"
#include "server/http2/connection.h"
#include "server/http2/loop_call.h"
#include "server/wire/rpc_call.h"
#include "server/wire/rpc_status.h"

namespace memoryd {

// What the connection of a call does for it. With the loop's turn.
class ConnectCarrier {
 public:
  virtual ~ConnectCarrier() = default;
  // Asks for more of the body, after ConnectCall::WantsBody() was false.
  virtual void ReadBody() = 0;
  // Sends more of the answer.
  virtual void Write(std::string bytes, MemoryBudget::Hold hold) = 0;
  // The answer is complete. Another request may come on the connection only if `keeps_alive`.
  virtual void EndAnswer(bool keeps_alive) = 0;
  // Adds to the head of an answer what the connection knows: whether it goes on, and which page may
  // read it.
  virtual void Complete(HttpReply& answer, bool keeps_alive) const = 0;
  // Whether another request may follow the one under way, as far as the connection knows.
  virtual bool MayKeepAlive() const = 0;
  // Ends the connection, as the call can't be answered any more.
  virtual void Break() = 0;
};

// A method and how its messages are written.
struct ConnectMethod {
  const RpcMethods::Start* start = nullptr;
  const google::protobuf::Descriptor* request = nullptr;
  const google::protobuf::Descriptor* reply = nullptr;
  bool streams_replies = false;
  bool streams_requests = false;
  bool has_no_effects = false;  // A GET will do.
};

class ConnectCall final : public LoopCall {
 public:
  struct Parts {
    const Http2Environment* environment = nullptr;
    std::shared_ptr<EventLoop> loop;
    ConnectCarrier* carrier = nullptr;
    std::shared_ptr<const std::vector<std::string>> certificate_names;
    const ConnectMethod* method = nullptr;
    ConnectFormat format;
    TimePoint deadline;
    // The message, for a call that doesn't have it in its body.
    std::optional<std::string> message;
  };
  ConnectCall(Parts parts, ConnectRequest request);
  ~ConnectCall() override;

  // RpcCall.
  const CallMetadata& metadata() const override { return request_.metadata; }
  TimePoint deadline() const override { return deadline_; }
  absl::Status ChargeTo(std::string_view tenant) override;
  void Send(std::string message, MemoryBudget::Hold hold) override;
  void SendLast(std::string message, MemoryBudget::Hold hold) override;
  void Finish(const absl::Status& status, std::string_view request_id) override;

  // What no other kind of call has, for handlers that know this one. Any thread; what is added
  // comes before the first message and the end.
  const ConnectRequest& request() const { return request_; }
  void AddHeader(std::string name, std::string value);
  void AddTrailer(std::string name, std::string value);
  void Finish(const RpcStatus& status, std::string_view request_id);

  // The connection calls these, with the loop's turn.
  void Start();
  void TakeBody(std::string_view bytes);
  // All of the body that was read has been taken, and it goes on. Apart from TakeBody(): an answer
  // tells whether it is to a whole request.
  void BodyTaken();
  void EndOfRequest();
  // Whether more of the body is to be read now. Not while a line is handled, so that a call holds
  // one, and what was read with it.
  bool WantsBody() const;
  // All that was written has left, messages or not.
  void Sent();
  // The answer has left, or the connection is gone: nothing reaches it from now on.
  void Ended(bool in_order);
  void Tick(Clock::time_point now);

 private:
  // LoopCall.
  void DoRead() override;
  void DoCancel() override;

  // The most that the body may have, and the message in it.
  std::size_t MostOfBody() const;
  std::size_t MostOfMessage() const;
  void EndTooLarge();
  // False when nothing more is read.
  bool Charge(std::size_t bytes);
  void EndReading(const absl::Status& status);
  void Deliver();
  // Of requests in lines.
  bool HasLines() const { return format_.request == Framing::kLines; }
  void DeliverLines();
  std::optional<std::string> NextLine();
  // Of a request that is read; why it is given up, OK to go on.
  absl::Status CheckPace(Clock::time_point now) const;
  void DeliverMessage(std::string body);
  // Any thread.
  void HandOver(const std::shared_ptr<RpcHandler>& handler, std::string body);
  void SendAnd(std::string message, MemoryBudget::Hold hold, bool is_last);
  void DoSend(EncodedReply reply, MemoryBudget::Hold hold);
  void DoFinish(const RpcStatus& status, std::string_view request_id);
  void WriteHead();
  void WriteEnd(const RpcStatus& status);
  // The error with the line that it is about, if it is about one.
  RpcStatus WithLine(RpcStatus status) const;
  // What the head of an answer has in any case.
  void Complete(HttpReply& answer, bool keeps_alive) const;

  ConnectCarrier* carrier_;  // Null once the call has ended.
  const ConnectMethod& method_;
  const ConnectFormat format_;
  const TimePoint deadline_;
  ConnectRequest request_;

  // What has come of the request.
  bool reading_ = false;
  bool request_ended_ = false;
  bool read_ended_ = false;
  bool has_message_ = false;
  const bool takes_body_;
  std::string body_;
  BodyLines lines_;
  std::int64_t line_ = 0;  // That is read or handled, from 1.
  bool delivers_lines_ = false;
  Clock::time_point read_since_;
  Clock::time_point last_data_;
  // What has left of the answer, and what waits to.
  EncodedReply reply_;  // Of a unary call, until it ends.
  MemoryBudget::Hold reply_hold_;
  std::vector<std::pair<std::string, std::string>> headers_;
  std::vector<std::pair<std::string, std::string>> trailers_;
  bool has_head_ = false;
  bool has_unsent_ = false;  // Of a stream, since Sent().
  bool finished_ = false;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP_CONNECT_CALL_H_
