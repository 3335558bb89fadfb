// One connection of HTTP/1.1, with one call at a time.
#ifndef MEMORYD_SERVER_HTTP_HTTP_CONNECTION_H_
#define MEMORYD_SERVER_HTTP_HTTP_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/memory_budget.h"
#include "server/http/connect_call.h"
#include "server/http/http_port.h"
#include "server/http/http_reply.h"
#include "server/http/request_parser.h"
#include "server/http2/connection.h"
#include "server/http2/socket_connection.h"

namespace memoryd {

// Bounds what its peer can make it hold: a head of 64 KiB, which takes from the share of its
// address; a body, or a line of one, which counts for its tenant; of requests that come ahead of
// the answer, and of a body behind the line that is handled, one read. It is ended when a head is
// not complete after 10 s, or none comes for a minute; when an answer is read too slowly
// (Http2Times); and after an answer to a request that has not come as a whole.
class HttpConnection final : public SocketConnection, public ConnectCarrier {
 public:
  // `port` outlives it.
  HttpConnection(const HttpPort* port, ConnectionParts parts);
  ~HttpConnection() override;
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // ConnectCarrier.
  void ReadBody() override;
  void Write(std::string bytes, MemoryBudget::Hold hold) override;
  void EndAnswer(bool keeps_alive) override;
  void Complete(HttpReply& answer, bool keeps_alive) const override;
  bool MayKeepAlive() const override;
  void Break() override;

 private:
  enum class State : std::uint8_t {
    kHead,     // A request is awaited, or its head is coming.
    kBody,     // The body is coming; the answer may be leaving.
    kAnswer,   // The request has come, and its answer not left.
    kLeaving,  // The last answer has left; what comes is dropped until the peer closes.
  };
  struct Outgoing {
    std::string_view bytes() const { return fixed.empty() ? made : fixed; }

    std::string made;
    std::string_view fixed;  // Instead of `made`.
    MemoryBudget::Hold hold;
  };

  // SocketConnection.
  void OnShaken() override { since_ = Clock::now(); }
  std::size_t ReadSize() override;
  void OnBytes(std::string_view bytes) override;
  void OnFlush() override;
  void OnTick(Clock::time_point now) override;
  void OnShutdown() override;
  void OnException() override { parsing_ = false; }
  void OnClosed() override;

  void ParseMore();
  // False when a body can't be parsed on.
  bool ParseInput();
  // A head is complete.
  void BeginRequest();
  void StartCall(ConnectHead head, ConnectRequest request);
  // Answers what nobody can tell the end of, so that nothing is read behind it.
  void EndInput(HttpReply answer);
  void Queue(Outgoing outgoing);
  void Answer(HttpReply answer);
  // False when the socket takes no more now, or is closed.
  bool SendOut();
  void AnswerLeft();
  // Counts what is not parsed yet. False when there is no room for it.
  bool HoldInput();

  const HttpPort& port_;
  std::int64_t input_bytes_ = 0;  // Taken beside what every connection takes.
  State state_ = State::kHead;
  std::unique_ptr<RequestParser> parser_;
  std::shared_ptr<ConnectCall> call_;
  bool asks_head_ = false;  // An answer has no body then.
  std::string site_;  // Whose page sent the request, where that may read the answer; else empty.
  std::string in_;    // Not parsed yet.
  std::deque<Outgoing> outgoing_;
  std::size_t outgoing_begin_ = 0;  // Of the first.
  std::size_t outgoing_bytes_ = 0;  // Of all that came since it was empty.
  bool answer_ended_ = false;
  bool keeps_alive_ = false;
  bool body_waits_ = false;  // In the socket, until the call wants more of it.
  bool input_lost_ = false;  // Nobody knows where the next request begins.
  bool going_away_ = false;
  bool parsing_ = false;
  std::size_t dropped_bytes_ = 0;
  // When the state began, and in kHead when its first byte came.
  Clock::time_point since_;
  Clock::time_point outgoing_since_;
  Clock::time_point last_progress_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP_HTTP_CONNECTION_H_
