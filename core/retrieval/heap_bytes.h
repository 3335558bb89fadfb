// What containers take on the heap.
#ifndef MEMORYD_CORE_RETRIEVAL_HEAP_BYTES_H_
#define MEMORYD_CORE_RETRIEVAL_HEAP_BYTES_H_

#include <cstddef>
#include <string>
#include <vector>

namespace memoryd {

// What malloc adds to a block, on average.
inline constexpr std::size_t kBlockOverhead = 16;

inline std::size_t HeapBytes(const std::string& text) {
  static const std::size_t inline_capacity = std::string().capacity();
  return text.capacity() > inline_capacity ? text.capacity() + 1 + kBlockOverhead : 0;
}

// Without what the items have on the heap.
template <typename T>
std::size_t HeapBytes(const std::vector<T>& items) {
  return items.capacity() == 0 ? 0 : items.capacity() * sizeof(T) + kBlockOverhead;
}

// Of a table of absl's, likewise.
template <typename Map>
std::size_t TableBytes(const Map& map) {
  // A byte of control for each slot.
  return map.capacity() * (sizeof(typename Map::value_type) + 1) + kBlockOverhead;
}

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_HEAP_BYTES_H_
