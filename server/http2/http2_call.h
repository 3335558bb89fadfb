// One gRPC call on a stream of an HTTP/2 connection (gRPC's PROTOCOL-HTTP2).
#ifndef MEMORYD_SERVER_HTTP2_HTTP2_CALL_H_
#define MEMORYD_SERVER_HTTP2_HTTP2_CALL_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/memory_budget.h"
#include "server/http2/call_messages.h"
#include "server/http2/http2_connection.h"
#include "server/wire/rpc_call.h"

namespace memoryd {

// Other threads reach it by tasks of its loop; all but `metadata` and the like belongs to the loop.
class Http2Call final : public RpcCall, public std::enable_shared_from_this<Http2Call> {
 public:
  using Clock = std::chrono::steady_clock;

  Http2Call(Http2Connection* connection, std::int32_t stream);
  ~Http2Call() override;

  // RpcCall.
  const CallMetadata& metadata() const override { return metadata_; }
  const std::vector<std::string>& certificate_names() const override { return *names_; }
  TimePoint deadline() const override { return deadline_; }
  bool IsCancelled() const override { return cancelled_.load(std::memory_order_acquire); }
  void SetHandler(std::shared_ptr<RpcHandler> handler) override;
  absl::Status ChargeTo(std::string_view tenant) override;
  void Read() override;
  absl::StatusOr<MemoryBudget::Hold> Take(MemoryUse use, std::int64_t bytes) override;
  void Send(std::string message, MemoryBudget::Hold hold) override;
  void SendLast(std::string message, MemoryBudget::Hold hold) override;
  void Finish(const absl::Status& status, std::string_view request_id) override;
  void Cancel() override;

  // The connection calls these, on the loop's thread.
  void TakeHeader(std::string_view name, std::string_view value);
  void TakeInvalidHeader(std::string_view name, std::size_t value_bytes);
  // All headers have come.
  void Start();
  void TakeData(std::string_view bytes);
  void EndOfRequest();
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
  struct Outgoing {
    std::array<char, kPrefixBytes> prefix;
    std::string message;
    MemoryBudget::Hold hold;
    std::size_t offset = 0;  // Of prefix and message together.
  };

  // On the loop's thread now, or as its task.
  template <typename Function>
  void InLoop(Function function);
  // Does `work`; the call ends with what it throws. Any thread.
  template <typename Work>
  void Guarded(const Work& work);
  // Tells `handler`, unless it is null. On the loop's thread.
  template <typename Event>
  void Tell(std::shared_ptr<RpcHandler> handler, const Event& event);
  void Measure(std::string_view message, MemoryBudget::Hold& hold);
  void DoRead();
  void DoSend(std::string message, MemoryBudget::Hold hold);
  void DoFinish(int code, std::string message, std::string details, std::string request_id);
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
  const std::shared_ptr<EventLoop> loop_;
  MemoryBudget& budget_;
  Http2Stats& stats_;
  const std::int32_t stream_;
  const std::shared_ptr<const std::vector<std::string>> names_;
  std::string path_;
  CallMetadata metadata_;
  std::string content_type_;
  bool is_post_ = false;
  bool is_compressed_ = false;
  TimePoint deadline_ = TimePoint::max();
  std::atomic<bool> cancelled_{false};

  std::shared_ptr<RpcHandler> handler_;
  // What has come of the request.
  MemoryBudget::Hold hold_;
  std::int64_t from_pot_ = kCallBytes;  // Taken by the connection when the call began.
  bool charged_ = false;
  std::string tenant_;
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
  std::vector<Outgoing> outgoing_;
  std::size_t next_ = 0;  // Of outgoing_.
  std::size_t outgoing_bytes_ = 0;
  bool answered_ = false;  // The headers are submitted.
  bool deferred_ = false;
  bool finished_ = false;
  bool ended_ = false;  // The trailers are submitted.
  Clock::time_point finished_at_;
  Clock::time_point outgoing_since_;  // While outgoing_ is not empty.
  Clock::time_point last_progress_;   // The same.
  std::vector<std::pair<std::string, std::string>> trailers_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP2_HTTP2_CALL_H_
