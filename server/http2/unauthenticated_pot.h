// Memory that callers hold before the server knows who they are.
#ifndef MEMORYD_SERVER_HTTP2_UNAUTHENTICATED_POT_H_
#define MEMORYD_SERVER_HTTP2_UNAUTHENTICATED_POT_H_

#include <atomic>
#include <cstdint>

namespace memoryd {

// Connections, their header blocks and calls without a tenant, in bytes as estimated. Nothing of it
// is a tenant's, so it has a bound of its own. Any thread.
class UnauthenticatedPot {
 public:
  explicit UnauthenticatedPot(std::int64_t limit) : limit_(limit) {}

  // False, and nothing is taken, beyond the limit.
  [[nodiscard]] bool Take(std::int64_t bytes) {
    if (held_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= limit_) return true;
    Give(bytes);
    return false;
  }
  void Give(std::int64_t bytes) { held_.fetch_sub(bytes, std::memory_order_relaxed); }

  std::int64_t limit() const { return limit_; }
  std::int64_t held() const { return held_.load(std::memory_order_relaxed); }

 private:
  const std::int64_t limit_;
  std::atomic<std::int64_t> held_{0};
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP2_UNAUTHENTICATED_POT_H_
