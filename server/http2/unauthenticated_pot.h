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

// What the connections of one address hold of the pot, so that no address empties it. Any thread.
class PotShare {
 public:
  enum class Outcome : std::uint8_t { kTaken, kShareEmpty, kPotEmpty };

  // `pot` outlives it.
  PotShare(UnauthenticatedPot* pot, std::int64_t limit) : pot_(*pot), limit_(limit) {}

  // Unless kTaken, nothing is taken.
  [[nodiscard]] Outcome Take(std::int64_t bytes) {
    if (held_.fetch_add(bytes, std::memory_order_relaxed) + bytes > limit_) {
      held_.fetch_sub(bytes, std::memory_order_relaxed);
      return Outcome::kShareEmpty;
    }
    if (pot_.Take(bytes)) return Outcome::kTaken;
    held_.fetch_sub(bytes, std::memory_order_relaxed);
    return Outcome::kPotEmpty;
  }
  void Give(std::int64_t bytes) {
    pot_.Give(bytes);
    held_.fetch_sub(bytes, std::memory_order_relaxed);
  }

  const UnauthenticatedPot& pot() const { return pot_; }

 private:
  UnauthenticatedPot& pot_;
  const std::int64_t limit_;
  std::atomic<std::int64_t> held_{0};
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP2_UNAUTHENTICATED_POT_H_
