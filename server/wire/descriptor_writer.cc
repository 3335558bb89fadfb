#include "server/wire/descriptor_writer.h"

#include <limits.h>
#include <linux/limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <string_view>

namespace memoryd {
namespace {

constexpr int kPollMs = 50;

}  // namespace

bool DescriptorWriter::Write(std::string_view text) {
  while (!text.empty()) {
    if (!AwaitRoom()) return false;
    // A pipe that has room at all takes that much without waiting.
    const ssize_t written =
        ::write(descriptor_, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EAGAIN && errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool DescriptorWriter::AwaitRoom() const {
  for (;;) {
    pollfd room{descriptor_, POLLOUT, 0};
    const bool stopping =
        std::chrono::steady_clock::now().time_since_epoch().count() >= stop_at_.load();
    // An error shows in write().
    if (::poll(&room, 1, stopping ? 0 : kPollMs) > 0) return true;
    if (stopping) return false;
  }
}

}  // namespace memoryd
