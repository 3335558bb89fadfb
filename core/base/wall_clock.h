// What time it is, for what must be tested at any time.
#ifndef MEMORYD_CORE_BASE_WALL_CLOCK_H_
#define MEMORYD_CORE_BASE_WALL_CLOCK_H_

#include <cstdint>

namespace memoryd {

// Any thread may ask.
class WallClock {
 public:
  virtual ~WallClock() = default;
  // Microseconds since the epoch; may go back.
  virtual std::int64_t NowUs() const = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_BASE_WALL_CLOCK_H_
