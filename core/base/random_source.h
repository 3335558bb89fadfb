// Random numbers, for what must be tested with numbers that are known.
#ifndef MEMORYD_CORE_BASE_RANDOM_SOURCE_H_
#define MEMORYD_CORE_BASE_RANDOM_SOURCE_H_

#include <cstdint>

namespace memoryd {

// Any thread may ask.
class RandomSource {
 public:
  virtual ~RandomSource() = default;
  // Any 64-bit number, each as likely as the others.
  virtual std::uint64_t Next() = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_BASE_RANDOM_SOURCE_H_
