// Which job of a block may be claimed: the first one that has not ended.
#ifndef MEMORYD_CORE_STORAGE_JOB_ORDER_H_
#define MEMORYD_CORE_STORAGE_JOB_ORDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/storage/store.h"

namespace memoryd {

// A stored job has a mark, `ready`, when it is the first of its block. The index that is claimed by
// holds marked jobs only: however many wait behind the first of a block, or behind one that was
// given back for later, claiming does not meet them.

// Whether `job`, which the change appends, begins with the mark. True for a block that the change
// does not write: claiming checks the number as well.
bool IsReady(const SessionChange& change, const Job& job);

struct BlockJob {
  const std::string* block;  // The change's.
  std::int64_t number;
};

// The jobs that get the mark when the change is written, if they are stored and open. None of them
// is appended, ended or cancelled by the same change.
std::vector<BlockJob> JobsToMark(const SessionChange& change);

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_JOB_ORDER_H_
