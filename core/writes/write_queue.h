// Where writes go.
#ifndef MEMORYD_CORE_WRITES_WRITE_QUEUE_H_
#define MEMORYD_CORE_WRITES_WRITE_QUEUE_H_

#include "core/writes/write.h"

namespace memoryd {

// Any thread; nothing waits. `done` runs exactly once, on the calling or another thread.
class WriteQueue {
 public:
  virtual ~WriteQueue() = default;
  virtual void Submit(WriteRequest request, Write::Done done) = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_WRITE_QUEUE_H_
