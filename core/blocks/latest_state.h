// What a block reads of its state, kept for as long as the state stays the same.
#ifndef MEMORYD_CORE_BLOCKS_LATEST_STATE_H_
#define MEMORYD_CORE_BLOCKS_LATEST_STATE_H_

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "core/model/job.h"

namespace memoryd {

// A longer state is read each time. ByteSize() of a BlockState counts what is kept of it.
inline constexpr std::size_t kMaxReadState = std::size_t{64} << 10;

// Keeps the state of one block of one session as it was read last: each Get needs it, and few Gets
// come after a change of it. Any thread may call.
template <typename T>
class LatestState {
 public:
  // What `read` makes of the text, a StatusOr<T> of a string_view: "" for a block that was never
  // fed. `state` must not change any more. Errors are not kept.
  template <typename Read>
  absl::StatusOr<std::shared_ptr<const T>> Of(const std::shared_ptr<const BlockState>& state,
                                              const Read& read) {
    const std::string_view text = state == nullptr ? "" : std::string_view(state->state);
    const bool keeps = !text.empty() && text.size() <= kMaxReadState;
    if (keeps) {
      const MutexLock lock(mutex_);
      if (state_ == state) return value_;
    }
    MEMORYD_ASSIGN_OR_RETURN(T value, read(text));
    auto made = std::make_shared<const T>(std::move(value));
    if (keeps) {
      const MutexLock lock(mutex_);
      state_ = state;
      value_ = made;
    }
    return made;
  }

 private:
  Mutex mutex_;
  std::shared_ptr<const BlockState> state_ MEMORYD_GUARDED_BY(mutex_);
  std::shared_ptr<const T> value_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_LATEST_STATE_H_
