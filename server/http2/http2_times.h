// How long a caller may take.
#ifndef MEMORYD_SERVER_HTTP2_HTTP2_TIMES_H_
#define MEMORYD_SERVER_HTTP2_HTTP2_TIMES_H_

#include <chrono>
#include <cstddef>

namespace memoryd {

// They are looked at once a second.
struct Http2Times {
  // Without a byte of a message that is half there, or of the first.
  std::chrono::seconds body_idle{10};
  // Without reading a byte of what was sent.
  std::chrono::seconds reply_unread{30};
  // For a message in either direction, beside a second for each 64 KiB. A peer that moves it byte
  // by byte is never idle.
  std::chrono::seconds message{30};
  static constexpr std::size_t kBytesPerSecond = 64 << 10;

  // How long a message of so many bytes may be under way.
  std::chrono::seconds ForMessage(std::size_t bytes) const {
    return message + std::chrono::seconds(bytes / kBytesPerSecond);
  }
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP2_HTTP2_TIMES_H_
