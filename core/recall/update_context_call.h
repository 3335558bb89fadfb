// UpdateContext.
#ifndef MEMORYD_CORE_RECALL_UPDATE_CONTEXT_CALL_H_
#define MEMORYD_CORE_RECALL_UPDATE_CONTEXT_CALL_H_

#include <functional>

#include "absl/status/statusor.h"
#include "core/calls/call_end.h"
#include "core/recall/recall.h"
#include "core/recall/search_call.h"

namespace memoryd {

// Any thread; returns at once. The environment outlives the call.
void StartUpdateContext(const SearchEnvironment* environment, UpdateContextRequest request,
                        CallEnd end, std::function<void(absl::StatusOr<UpdatedContext>)> done);

}  // namespace memoryd

#endif  // MEMORYD_CORE_RECALL_UPDATE_CONTEXT_CALL_H_
