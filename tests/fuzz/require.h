// What a fuzz target asserts.
#ifndef MEMORYD_TESTS_FUZZ_REQUIRE_H_
#define MEMORYD_TESTS_FUZZ_REQUIRE_H_

#include <cstdlib>

namespace memoryd {

// Ends the process where a property does not hold, in builds without assertions too.
inline void Require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace memoryd

#endif  // MEMORYD_TESTS_FUZZ_REQUIRE_H_
