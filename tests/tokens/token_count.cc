// Counts the tokens of the strings on stdin, for tests/tokens/compare_tiktoken.py.
//
//   token_count NAME VOCABULARY_DIR [REPEATS]
//
// stdin: for each string its size, 4 bytes little endian, and its bytes. stdout: a count a line.
// With REPEATS, stdout is instead one line: the nanoseconds of processor time that one pass over
// all strings took, the median of that many passes in one thread.

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokens/token_counter.h"

namespace {

std::vector<std::string_view> Split(std::string_view input) {
  std::vector<std::string_view> texts;
  while (input.size() >= 4) {
    std::uint32_t size = 0;
    std::memcpy(&size, input.data(), 4);
    texts.push_back(input.substr(4, size));
    input.remove_prefix(std::min<std::size_t>(input.size(), 4 + std::size_t{size}));
  }
  return texts;
}

std::int64_t ThreadNanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::int64_t MedianPassNanoseconds(const memoryd::TokenCounter& counter,
                                   const std::vector<std::string_view>& texts, int repeats) {
  std::vector<std::int64_t> passes;
  // Written, so that the counting cannot be left out.
  volatile std::int64_t total = 0;
  for (int i = 0; i < repeats; ++i) {
    const std::int64_t start = ThreadNanoseconds();
    std::int64_t sum = 0;
    for (const std::string_view text : texts) {
      sum += counter.Count(text);
    }
    total = sum;
    passes.push_back(ThreadNanoseconds() - start);
  }
  static_cast<void>(total);
  std::nth_element(passes.begin(), passes.begin() + repeats / 2, passes.end());
  return passes[static_cast<std::size_t>(repeats / 2)];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4 || (argc == 4 && std::atoi(argv[3]) < 1)) {
    std::cerr << "usage: token_count NAME VOCABULARY_DIR [REPEATS]\n";
    return 2;
  }
  const auto counter = memoryd::MakeTokenCounter(argv[1], argv[2]);
  if (!counter.ok()) {
    std::cerr << counter.status().message() << '\n';
    return 1;
  }
  std::ios::sync_with_stdio(false);
  const std::string input{std::istreambuf_iterator<char>(std::cin),
                          std::istreambuf_iterator<char>()};
  const std::vector<std::string_view> texts = Split(input);
  if (argc == 4) {
    std::cout << MedianPassNanoseconds(**counter, texts, std::atoi(argv[3])) << '\n';
    return 0;
  }
  for (const std::string_view text : texts) {
    std::cout << (*counter)->Count(text) << '\n';
  }
  return 0;
}
