// Waits for the socket of one connection.
#ifndef MEMORYD_SERVER_HTTP2_SOCKET_WAITS_H_
#define MEMORYD_SERVER_HTTP2_SOCKET_WAITS_H_

#include <boost/asio/posix/stream_descriptor.hpp>
#include <utility>

#include "server/http2/event_loop.h"

namespace memoryd {

// With the loop's turn. A wait lasts as long as what its event holds, which has to keep this alive.
class SocketWaits {
 public:
  // `loop` outlives it.
  explicit SocketWaits(EventLoop* loop) : loop_(*loop), descriptor_(loop->context()) {}

  // False when the kernel watches no more sockets for this process. The socket stays its owner's.
  bool Begin(int socket) {
    boost::system::error_code error;
    static_cast<void>(descriptor_.assign(socket, error));
    return !error;
  }
  // Ends the waits without their events.
  void End() { descriptor_.release(); }

  // Calls `event` once the socket can be read, or written. One that is waited for already is not
  // waited for twice.
  template <typename Event>
  void ForRead(Event event) {
    Wait(boost::asio::posix::stream_descriptor::wait_read, reads_, std::move(event));
  }
  template <typename Event>
  void ForWrite(Event event) {
    Wait(boost::asio::posix::stream_descriptor::wait_write, writes_, std::move(event));
  }

 private:
  template <typename Event>
  void Wait(boost::asio::posix::stream_descriptor::wait_type type, bool& waits, Event event) {
    if (waits) return;
    waits = true;
    descriptor_.async_wait(type, [this, &waits, event = std::move(event)](
                                     const boost::system::error_code& error) mutable {
      loop_.Handle([&waits, &event, &error] {
        // Released with the turn, too.
        Event mine = std::move(event);
        waits = false;
        if (!error) mine();
      });
    });
  }

  EventLoop& loop_;
  boost::asio::posix::stream_descriptor descriptor_;
  bool reads_ = false;
  bool writes_ = false;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP2_SOCKET_WAITS_H_
