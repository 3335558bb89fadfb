// A connection's socket: handshake, reading, writing and closing, for any protocol.
#ifndef MEMORYD_SERVER_HTTP2_SOCKET_CONNECTION_H_
#define MEMORYD_SERVER_HTTP2_SOCKET_CONNECTION_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "server/http2/connection.h"
#include "server/http2/outgoing_bytes.h"
#include "server/http2/socket_waits.h"

namespace memoryd {

// The base of Http2Connection and HttpConnection. It performs the transport's handshake in at most
// 5 s. It reads a limited number of bytes at a time, so that other connections get their turn. An
// exception in one of its events closes this connection alone. The derived class speaks the
// protocol in its overrides, which are called while the socket is open.
//
// Like every Connection, it is used only with the turn of its loop.
class SocketConnection : public Connection, public std::enable_shared_from_this<SocketConnection> {
 public:
  SocketConnection(const SocketConnection&) = delete;
  SocketConnection& operator=(const SocketConnection&) = delete;
  ~SocketConnection() override;

  // Connection.
  void Start() final;
  void Tick(Clock::time_point now) final;
  void BeginShutdown() final;
  void Close(ConnectionEnd why) final;
  void Flush() final;

  bool open() const { return open_; }

 protected:
  explicit SocketConnection(ConnectionParts parts);

  // The handshake has succeeded. Reading begins after this call.
  virtual void OnShaken() = 0;
  // The most bytes to read now, at most the size of EventLoop::buffer(). 0: read nothing until the
  // derived class calls ReadOn().
  virtual std::size_t ReadSize() = 0;
  // Takes the bytes that were read. They are valid until it returns.
  virtual void OnBytes(std::string_view bytes) = 0;
  // Sends pending bytes, as many as the socket takes. Called after Touch(), and when the socket
  // takes more again.
  virtual void OnFlush() = 0;
  // Tick(), after the handshake.
  virtual void OnTick(Clock::time_point now) = 0;
  // BeginShutdown(), after the handshake.
  virtual void OnShutdown() = 0;
  // An event has thrown an exception. Close() is called next.
  virtual void OnException() {}
  // Whether Close() may act now. While false it does nothing, and the derived class must close the
  // connection at the end of the event under way.
  virtual bool MayClose() const { return true; }
  // The connection is closed: no event follows. The transport still exists during this call.
  virtual void OnClosed() = 0;

  // Runs `event`. Closes the connection if the event throws, or if Fail() was called.
  void Guarded(absl::FunctionRef<void()> event);
  // Records an exception that was caught where the connection cannot be closed, such as in a
  // library's callback. The connection is closed at the end of the Guarded() event.
  void Fail();
  bool failed() const { return failed_; }
  // Whether the handshake is still under way.
  bool shaking() const { return shaking_; }
  Clock::time_point started() const { return started_; }
  // Has the owner call Flush() when the event under way has been handled.
  void Touch();
  // Posts a task that reads, so that other connections get their turn first.
  void ReadOn();
  // Writes `bytes` and removes the written ones from them. Returns true if all were written.
  // False if the socket takes no more now, which calls OnFlush() later, or if it is closed.
  bool WriteOut(std::string_view& bytes);
  bool WriteOut(OutgoingBytes& bytes);

  const Http2Environment& environment() const { return environment_; }
  const std::shared_ptr<EventLoop>& loop() const { return loop_; }
  PotShare& share() { return *share_; }
  // The names in the peer's certificate. Null before OnShaken().
  const std::shared_ptr<const std::vector<std::string>>& certificate_names() const {
    return certificate_names_;
  }

 private:
  // Writes some of the parts: how many bytes, 0 if WriteOut() is over.
  std::size_t Write(std::span<const iovec> parts);
  void Shake();
  void WaitReadable();
  void WaitWritable();
  // The socket is ready: continues the handshake, or runs `event` after it.
  void OnSocket(absl::FunctionRef<void()> event);
  void Read();

  const Http2Environment& environment_;
  const std::shared_ptr<EventLoop> loop_;
  const int socket_;  // Owned by transport_.
  SocketWaits waits_;
  std::unique_ptr<Transport> transport_;
  ConnectionOwner& owner_;
  const std::shared_ptr<PotShare> share_;
  const std::int64_t base_bytes_;
  const Clock::time_point started_ = Clock::now();
  std::shared_ptr<const std::vector<std::string>> certificate_names_;
  bool open_ = true;
  bool shaking_ = true;
  bool touched_ = false;
  bool failed_ = false;  // An exception was caught.
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP2_SOCKET_CONNECTION_H_
