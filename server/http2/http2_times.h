// How long a caller of HTTP/2 may take.
#ifndef MEMORYD_SERVER_HTTP2_HTTP2_TIMES_H_
#define MEMORYD_SERVER_HTTP2_HTTP2_TIMES_H_

#include <chrono>

namespace memoryd {

// They are looked at once a second.
struct Http2Times {
  // Without a byte of a message that is half there, or of the first.
  std::chrono::seconds body_idle{10};
  // Without reading a byte of what was sent.
  std::chrono::seconds reply_unread{30};
  // For a message in either direction, beside a second for each 64 KiB.
  std::chrono::seconds message{30};
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP2_HTTP2_TIMES_H_
