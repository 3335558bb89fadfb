// One gRPC call on a stream of an HTTP/2 connection (gRPC's PROTOCOL-HTTP2).
#ifndef MEMORYD_SERVER_HTTP2_HTTP2_CALL_H_
#define MEMORYD_SERVER_HTTP2_HTTP2_CALL_H_

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
#include "core/base/memory_budget.h"
#include "server/http2/call_messages.h"
#include "server/http2/http2_connection.h"
#include "server/http2/loop_call.h"
#include "server/http2/outgoing_messages.h"
#include "server/wire/rpc_call.h"
#include "server/wire/rpc_status.h"

namespace memoryd {

class Http2Call final : public LoopCall {
 public:
  Http2Call(Http2Connection* connection, std::int32_t stream);
  ~Http2Call() override;

  // RpcCall.
  const CallMetadata& metadata() const override { return metadata_; }
  TimePoint deadline() const override { return deadline_; }
  absl::Status ChargeTo(std::string_view tenant) override;
  void Send(std::string message, MemoryBudget::Hold hold) override;
  void SendLast(std::string message, MemoryBudget::Hold hold) override;
  void Finish(const absl::Status& status, std::string_view request_id) override;

  // The connection calls these, with the loop's turn.
  void TakeHeader(std::string_view name, std::string_view value);
  void TakeInvalidHeader(std::string_view name, std::size_t value_bytes);
  // All headers have come.
  void Start();
  void TakeData(std::string_view bytes);
  void EndOfRequest();
  bool sends_large() const { return outgoing_.is_large(); }
  std::ptrdiff_t Fill(std::uint8_t* buffer, std::size_t size, std::uint32_t* flags);
  void Sent();
  void StreamClosed(bool in_order);
  void Tick(Clock::time_point now);
  // The connection is gone.
  void Detach();
  // Whether all of the answer has left, or is about to.
  bool ended() const { return ended_; }
  bool attached() const { return connection_ != nullptr; }

 private:
  // LoopCall.
  void DoRead() override;
  void DoCancel() override;
  // As an event of the connection's, as long as that is there.
  void RunTask(absl::FunctionRef<void()> task) override;

  void Measure(std::string_view message, MemoryBudget::Hold& hold);
  void DoSend(std::string message, MemoryBudget::Hold hold);
  void DoFinish(const RpcStatus& status, std::string request_id);
  // Returns what is left when nobody asks for more.
  std::string_view Parse(std::string_view bytes);
  // Keeps what nobody has asked for.
  void Keep(std::string_view bytes);
  // The prefix of a message is complete. False when nothing more is read.
  bool BeginMessage();
  void Deliver(std::string message);
  void EndReading(const absl::Status& status);
  void SubmitHeaders();
  void SubmitTrailers();
  void GiveUp(std::uint32_t code);
  absl::Status Charge(std::int64_t bytes);
  void TickRequest(Clock::time_point now);
  bool IsReplyTooSlow(Clock::time_point now) const;
  void GiveUpReply();

  Http2Connection* connection_;  // Null once that or the stream is gone.
  const std::int32_t stream_;
  std::string path_;
  CallMetadata metadata_;
  std::string content_type_;
  bool is_post_ = false;
  bool is_compressed_ = false;
  TimePoint deadline_ = TimePoint::max();

  // What has come of the request.
  std::int64_t from_pot_ = kCallBytes;  // Taken by the connection when the call began.
  bool reading_ = false;
  bool parsing_unread_ = false;
  bool request_ended_ = false;
  bool read_ended_ = false;
  bool has_message_ = false;
  Clock::time_point last_data_;
  Clock::time_point message_since_;  // When its first byte came, while prefix_size_ > 0.
  std::string unread_;               // Came while nobody asked,
  std::size_t unread_begin_ = 0;     // but for this much of it.
  std::array<char, kPrefixBytes> prefix_ = {};
  std::size_t prefix_size_ = 0;
  std::string in_;
  std::size_t in_size_ = 0;
  // Of the reply.
  OutgoingMessages outgoing_;
  bool answered_ = false;  // The headers are submitted.
  bool deferred_ = false;
  bool finished_ = false;
  bool ended_ = false;  // The trailers are submitted.
  Clock::time_point finished_at_;
  std::vector<std::pair<std::string, std::string>> trailers_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP2_HTTP2_CALL_H_
