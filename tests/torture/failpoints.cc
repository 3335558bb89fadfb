// Failpoints that do what the variable MEMORYD_TEST_FAILPOINT says. It names one as NAME:COUNT: the
// process gets SIGKILL when the place NAME is reached for the COUNTth time. As NAME:COUNT:throw it
// names one that throws std::bad_alloc then, once.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>

#include "core/base/failpoint.h"

namespace memoryd {
namespace {

struct Failpoint {
  std::string name;
  std::uint64_t count = 0;  // 0: never.
  bool throws = false;
};

// Ends the process on what it does not understand: a test that kills nothing proves nothing.
Failpoint FromEnvironment() {
  const char* const variable = std::getenv("MEMORYD_TEST_FAILPOINT");
  if (variable == nullptr) return {};
  const std::string_view text = variable;
  const std::size_t colon = text.find(':');
  constexpr std::string_view kThrow = ":throw";
  Failpoint failpoint;
  failpoint.throws = text.ends_with(kThrow);
  const char* const end = text.data() + text.size() - (failpoint.throws ? kThrow.size() : 0);
  if (colon == std::string_view::npos ||
      std::from_chars(text.data() + colon + 1, end, failpoint.count).ptr != end ||
      failpoint.count == 0) {
    std::abort();
  }
  failpoint.name = text.substr(0, colon);
  return failpoint;
}

}  // namespace

void ReachFailpoint(std::string_view name) {
  static const Failpoint wanted = FromEnvironment();
  static std::atomic<std::uint64_t> reached{0};
  if (name != wanted.name) return;
  if (reached.fetch_add(1, std::memory_order_relaxed) + 1 != wanted.count) return;
  if (wanted.throws) throw std::bad_alloc();
  kill(getpid(), SIGKILL);
}

}  // namespace memoryd
