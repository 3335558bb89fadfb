// Prints JSON as Python would, for tests/tokens/compare_python_repr.py.
//
// stdin: for each document its size, 4 bytes little endian, and its bytes. stdout: for each, in the
// same frame, '=' and the text, or '!' and the error.

#include "core/tokens/python_repr.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>

int main() {
  std::ios::sync_with_stdio(false);
  const std::string all{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  std::string_view input = all;
  while (input.size() >= 4) {
    std::uint32_t size = 0;
    std::memcpy(&size, input.data(), 4);
    const auto repr = memoryd::PythonRepr(input.substr(4, size));
    const std::string reply = repr.ok() ? "=" + *repr : "!" + std::string(repr.status().message());
    const auto reply_size = static_cast<std::uint32_t>(reply.size());
    std::cout.write(reinterpret_cast<const char*>(&reply_size), 4) << reply;
    input.remove_prefix(std::min<std::size_t>(input.size(), 4 + std::size_t{size}));
  }
  return 0;
}
