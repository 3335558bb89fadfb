// Opaque positions between two pages.
#ifndef MEMORYD_SERVER_WIRE_PAGE_TOKEN_H_
#define MEMORYD_SERVER_WIRE_PAGE_TOKEN_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace memoryd {

// Where a page of GetAll begins.
struct PagePosition {
  std::uint64_t generation = 0;
  std::int64_t position = 0;
  // Of a content, behind the last message.
  bool in_contents = false;
  // Contents from here on are on none of the pages; 0: no bound.
  std::int64_t until_content = 0;
};

// `scope` is all that the token is bound to: method, order, tenant, session, filters. A token of
// another scope, cut or changed, is INVALID_ARGUMENT with one text. It is no secret and grants
// nothing.
std::string EncodePageToken(std::string_view scope, const PagePosition& position);
absl::StatusOr<PagePosition> DecodePageToken(std::string_view scope, std::string_view token);

// The same for ListSessions, whose pages begin after a session id.
std::string EncodeListToken(std::string_view scope, std::string_view after);
absl::StatusOr<std::string> DecodeListToken(std::string_view scope, std::string_view token);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_WIRE_PAGE_TOKEN_H_
