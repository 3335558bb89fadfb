// What every connection does with its socket, whatever is spoken over it.
#ifndef MEMORYD_SERVER_HTTP2_SOCKET_CONNECTION_H_
#define MEMORYD_SERVER_HTTP2_SOCKET_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "server/http2/connection.h"
#include "server/http2/socket_waits.h"

namespace memoryd {

// Shakes hands, for at most 5 s; reads in turns with other connections; runs each event so that an
// exception ends this connection alone; and ends. The protocol is the derived class's, by the
// functions that begin with `On`, which are called with the socket open.
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

  // The handshake is done; reading begins.
  virtual void OnShaken() = 0;
  // How many bytes to read now; 0: nothing until ReadOn().
  virtual std::size_t ReadSize() = 0;
  virtual void OnBytes(std::string_view bytes) = 0;
  // Sends what there is to be sent, as far as the socket takes it.
  virtual void OnFlush() = 0;
  virtual void OnTick(Clock::time_point now) = 0;
  virtual void OnShutdown() = 0;
  // An event has met an exception, and the connection is closed next.
  virtual void OnException() {}
  // False: it can't be closed within the event under way, which will see to it.
  virtual bool MayClose() const { return true; }
  // No event comes any more. The transport is still there.
  virtual void OnClosed() = 0;

  // Runs `event`, and ends the connection when it throws, or when Fail() was called.
  void Guarded(absl::FunctionRef<void()> event);
  // To be called in a catch block where the connection can't be closed: it is, by the next event.
  void Fail();
  bool failed() const { return failed_; }
  // Still in the handshake.
  bool shaking() const { return shaking_; }
  Clock::time_point started() const { return started_; }
  // To be flushed when the event under way has been handled.
  void Touch();
  // Reads by a task of its own, so that others have their turn.
  void ReadOn();
  // Writes all of `bytes`. Removes what was written from them; false when the socket takes no more
  // now, and is waited for, or is closed.
  bool WriteOut(std::string_view& bytes);

  const Http2Environment& environment() const { return environment_; }
  const std::shared_ptr<EventLoop>& loop() const { return loop_; }
  PotShare& share() { return *share_; }
  // Of the peer's certificate, once OnShaken() was called.
  const std::shared_ptr<const std::vector<std::string>>& certificate_names() const {
    return certificate_names_;
  }

 private:
  void Shake();
  void WaitReadable();
  void WaitWritable();
  // What was waited for has come.
  void OnSocket(absl::FunctionRef<void()> event);
  void Read();

  const Http2Environment& environment_;
  const std::shared_ptr<EventLoop> loop_;
  const int socket_;  // Of transport_.
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
  bool failed_ = false;  // By an exception.
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP2_SOCKET_CONNECTION_H_
