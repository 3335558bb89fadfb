// How what is kept for long grows.
#ifndef MEMORYD_CORE_RETRIEVAL_MAKE_ROOM_H_
#define MEMORYD_CORE_RETRIEVAL_MAKE_ROOM_H_

#include <algorithm>
#include <cstddef>
#include <vector>

namespace memoryd {

// Makes room for `count` more items, by a quarter of what there is at least: a vector that doubles
// may be half empty.
template <typename T>
void MakeRoom(std::vector<T>& items, std::size_t count) {
  const std::size_t needed = items.size() + count;
  if (needed <= items.capacity()) return;
  items.reserve(std::max(needed, items.capacity() + items.capacity() / 4));
}

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_MAKE_ROOM_H_
