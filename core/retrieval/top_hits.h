// The best of what a search looks at.
#ifndef MEMORYD_CORE_RETRIEVAL_TOP_HITS_H_
#define MEMORYD_CORE_RETRIEVAL_TOP_HITS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/retrieval/search.h"

namespace memoryd {

// The best hits so far by SearchHit::raw_score, the worst of them on top of a heap. Of equals,
// messages are before contents, and of one kind the later position.
class TopHits {
 public:
  // At least 1.
  explicit TopHits(std::size_t top_k) : top_k_(top_k) {}

  // Whether an item of this score may be among them.
  bool MayTake(double raw_score) const {
    return hits_.size() < top_k_ || raw_score >= hits_.front().raw_score;
  }

  void Offer(ItemKind kind, std::int64_t position, double raw_score) {
    SearchHit hit;
    hit.kind = kind;
    hit.position = position;
    hit.raw_score = raw_score;
    if (hits_.size() == top_k_) {
      if (!Better(hit, hits_.front())) return;
      std::pop_heap(hits_.begin(), hits_.end(), Better);
      hits_.pop_back();
    }
    hits_.push_back(hit);
    std::push_heap(hits_.begin(), hits_.end(), Better);
  }

  // The best first. Leaves none.
  std::vector<SearchHit> Take() {
    std::sort_heap(hits_.begin(), hits_.end(), Better);
    return std::exchange(hits_, {});
  }

 private:
  static bool Better(const SearchHit& a, const SearchHit& b) {
    if (a.raw_score != b.raw_score) return a.raw_score > b.raw_score;
    if (a.kind != b.kind) return a.kind == ItemKind::kMessage;
    return a.position > b.position;
  }

  const std::size_t top_k_;
  std::vector<SearchHit> hits_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_TOP_HITS_H_
