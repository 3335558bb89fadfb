// Query.
#ifndef MEMORYD_CORE_RECALL_QUERY_CALL_H_
#define MEMORYD_CORE_RECALL_QUERY_CALL_H_

#include <functional>

#include "absl/status/statusor.h"
#include "core/calls/call_end.h"
#include "core/recall/recall.h"
#include "core/recall/search_call.h"
#include "core/recall/session_search.h"

namespace memoryd {

// Any thread; returns at once. The environment outlives the call.
void StartQuery(const SearchEnvironment* environment, QueryRequest request, CallEnd end,
                std::function<void(absl::StatusOr<Found>)> done);

}  // namespace memoryd

#endif  // MEMORYD_CORE_RECALL_QUERY_CALL_H_
