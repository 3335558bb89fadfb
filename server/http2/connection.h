// A connection as the server sees it, whatever its peer speaks.
#ifndef MEMORYD_SERVER_HTTP2_CONNECTION_H_
#define MEMORYD_SERVER_HTTP2_CONNECTION_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/base/memory_budget.h"
#include "core/calls/executor.h"
#include "server/http2/event_loop.h"
#include "server/http2/http2_stats.h"
#include "server/http2/http2_times.h"
#include "server/http2/transport.h"
#include "server/http2/unauthenticated_pot.h"
#include "server/wire/rpc_call.h"

namespace memoryd {

// Made, used and destroyed with the turn of its loop. What an exception meets in any of these ends
// the connection and nothing else.
class Connection {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~Connection() = default;

  virtual void Start() = 0;
  // Looks for what takes too long. Once a second.
  virtual void Tick(Clock::time_point now) = 0;
  // Takes no new calls and ends when those under way have ended.
  virtual void BeginShutdown() = 0;
  virtual void Close(ConnectionEnd why) = 0;
  // Sends what there is to be sent.
  virtual void Flush() = 0;
};

// Who has the connections of one loop.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  // Flush() is to be called when the event under way has been handled.
  virtual void Touched(std::shared_ptr<Connection> connection) = 0;
  virtual void Closed(Connection* connection) = 0;
};

// What all connections of a server share; all of it outlives them.
struct Http2Environment {
  const RpcMethods* methods = nullptr;
  MemoryBudget* budget = nullptr;
  Http2Stats* stats = nullptr;
  // Runs the handlers of large messages, which may take long to parse.
  Executor* large_messages = nullptr;
  std::size_t max_message_bytes = 0;
  std::uint32_t max_concurrent_streams = 256;
  std::chrono::seconds keepalive{30};
  // 0: as old as it likes.
  std::chrono::seconds max_age{0};
  std::chrono::seconds max_age_grace{0};
  Http2Times times;
};

// What a connection is made of.
struct ConnectionParts {
  const Http2Environment* environment = nullptr;
  std::shared_ptr<EventLoop> loop;
  ConnectionOwner* owner = nullptr;
  int socket = -1;  // Of `transport`.
  std::unique_ptr<Transport> transport;
  // Of its address. `owner` has taken `base_bytes` from it for the connection.
  std::shared_ptr<PotShare> share;
  std::int64_t base_bytes = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP2_CONNECTION_H_
