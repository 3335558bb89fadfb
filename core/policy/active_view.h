// The active messages of a session as policies see them.
#ifndef MEMORYD_CORE_POLICY_ACTIVE_VIEW_H_
#define MEMORYD_CORE_POLICY_ACTIVE_VIEW_H_

#include <cstddef>
#include <deque>
#include <span>

#include "core/model/message.h"

namespace memoryd {

// The active messages, oldest first, without the pinned ones: those of `base` from index `dropped`
// on, then `appended`. Borrows both. Index 0 is the oldest message.
class ActiveView {
 public:
  // `dropped` is at most base.size().
  ActiveView(const std::deque<MessagePtr>& base, std::size_t dropped,
             std::span<const MessagePtr> appended)
      : base_(base), dropped_(dropped), kept_(base.size() - dropped), appended_(appended) {}

  std::size_t size() const { return kept_ + appended_.size(); }
  const MessagePtr& pointer(std::size_t i) const {
    return i < kept_ ? base_[dropped_ + i] : appended_[i - kept_];
  }
  const Message& at(std::size_t i) const { return *pointer(i); }

 private:
  const std::deque<MessagePtr>& base_;
  const std::size_t dropped_;
  const std::size_t kept_;
  const std::span<const MessagePtr> appended_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_POLICY_ACTIVE_VIEW_H_
