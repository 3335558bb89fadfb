// memoryd.v1.Filter -> what the engine asks of each row.
#ifndef MEMORYD_SERVER_FILTER_H_
#define MEMORYD_SERVER_FILTER_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/engine/message_filter.h"
#include "core/engine/page.h"
#include "memoryd/v1/filter.pb.h"
#include "memoryd/v1/memory.pb.h"

namespace memoryd {

// Checks the filter, the request's field `filter`. INVALID_ARGUMENT that names what is wrong.
absl::StatusOr<MessageFilter> FromProto(const v1::Filter& filter);

// Checks `status` and `filter` and sets the page's; what is unknown in `filter` goes.
absl::Status SetFilter(v1::MessageStatus status, v1::Filter& filter, PageRequest& page);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_FILTER_H_
