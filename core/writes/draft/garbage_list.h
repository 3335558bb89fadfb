// What a commit leaves to be purged.
#ifndef MEMORYD_CORE_WRITES_DRAFT_GARBAGE_LIST_H_
#define MEMORYD_CORE_WRITES_DRAFT_GARBAGE_LIST_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/storage/store.h"

namespace memoryd {

class GarbageList {
 public:
  // Ranges of a generation that touch become one.
  void Add(std::uint64_t generation, PositionRange range) {
    for (Garbage& garbage : ranges_) {
      const bool touches = garbage.begin <= range.end && range.begin <= garbage.end;
      if (garbage.generation != generation || !touches) continue;
      garbage.begin = std::min(garbage.begin, range.begin);
      garbage.end = std::max(garbage.end, range.end);
      return;
    }
    ranges_.push_back({generation, range.begin, range.end});
  }

  void MoveTo(std::vector<Garbage>& all) {
    all.insert(all.end(), ranges_.begin(), ranges_.end());
    ranges_.clear();
  }

 private:
  std::vector<Garbage> ranges_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_DRAFT_GARBAGE_LIST_H_
