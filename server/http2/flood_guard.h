// Finds the peer who costs the server more than himself.
#ifndef MEMORYD_SERVER_HTTP2_FLOOD_GUARD_H_
#define MEMORYD_SERVER_HTTP2_FLOOD_GUARD_H_

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace memoryd {

// Counts what is of no use, over time, and the headers of each block as they are unpacked. Nothing
// that calls sends so many: a small block that names an entry of HPACK's table again and again
// would keep the loop busy.
class FloodGuard {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // So much is borne at once, and so much a second.
  static constexpr double kBurst = 1000;
  static constexpr double kRate = 200;
  // Of a block, each entry with 32 bytes beside its name and value. A large one counts as of no
  // use.
  static constexpr std::size_t kLargeHeaders = 96 << 10;
  static constexpr std::size_t kMostHeaders = 256 << 10;
  static constexpr double kLargeHeadersWeight = 5;

  explicit FloodGuard(TimePoint now) : at_(now) {}

  // Something of no use came.
  void Count(double weight, TimePoint now) {
    const double gone = std::chrono::duration<double>(now - at_).count() * kRate;
    at_ = now;
    count_ = std::max(0.0, count_ - gone) + weight;
    if (count_ > kBurst) flooded_ = true;
  }

  void BeginHeaders(TimePoint now) {
    header_bytes_ = 0;
    headers_at_ = now;
  }

  // An entry of the block that began last, its name and value.
  void CountHeader(std::size_t bytes) {
    constexpr std::size_t kEntry = 32;
    const std::size_t before = header_bytes_;
    header_bytes_ += bytes + kEntry;
    if (before <= kLargeHeaders && header_bytes_ > kLargeHeaders) {
      Count(kLargeHeadersWeight, std::max(headers_at_, at_));
    }
    if (header_bytes_ > kMostHeaders) flooded_ = true;
  }

  // It was too much.
  bool flooded() const { return flooded_; }
  // The peer is told so.
  void Told() { flooded_ = false; }

 private:
  double count_ = 0;
  TimePoint at_;
  std::size_t header_bytes_ = 0;
  TimePoint headers_at_;
  bool flooded_ = false;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP2_FLOOD_GUARD_H_
