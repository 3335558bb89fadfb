// memoryd.v1.Filter -> what the engine asks of each row.
#ifndef MEMORYD_SERVER_WIRE_FILTER_H_
#define MEMORYD_SERVER_WIRE_FILTER_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/reads/message_filter.h"
#include "core/reads/page.h"
#include "memoryd/v1/filter.pb.h"
#include "memoryd/v1/memory.pb.h"
#include "memoryd/v1/memory_service.pb.h"

namespace memoryd {

// Checks the filter, the request's field `filter`. INVALID_ARGUMENT that names what is wrong.
absl::StatusOr<MessageFilter> FromProto(const v1::Filter& filter);

// What a page token of `method` is bound to: the page's session, its order and what is asked of it.
std::string PageScope(std::string_view method, const PageRequest& page, const v1::Filter& filter);

// Sets the order of a page, the request's field `order`. INVALID_ARGUMENT when it is unknown.
absl::Status SetOrder(v1::MessageOrder order, PageRequest& page);

// Sets where the page begins, unless the token is empty.
absl::Status SetPlace(std::string_view scope, std::string_view token, PageRequest& page);

// The token of the page behind `page`; empty when it is the last.
std::string NextToken(std::string_view scope, const Page& page);

// Checks `status` and `filter` and sets the page's; what is unknown in `filter` goes.
absl::Status SetFilter(v1::MessageStatus status, v1::Filter& filter, PageRequest& page);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_WIRE_FILTER_H_
