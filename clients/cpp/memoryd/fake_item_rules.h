// Rules and conversions of FakeItems.
#ifndef MEMORYD_FAKE_ITEM_RULES_H_
#define MEMORYD_FAKE_ITEM_RULES_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "memoryd/v1/item_service.pb.h"

namespace memoryd::client::fake_items {

inline constexpr int kMostNames = 16;

using Names = google::protobuf::RepeatedPtrField<std::string>;

// Errors with a reason and details, as memoryd's. Bad() names a field of the request.
absl::Status Refusal(absl::StatusCode code, const std::string& message, std::string reason,
                     std::map<std::string, std::string> details = {});
absl::Status Bad(const std::string& field, const char* what);
v1::ItemError ErrorOf(const absl::Status& status);

// Check a path, and a batch. `above` is the path of the batch in its request, empty where the
// request is of one operation.
absl::Status CheckPath(const std::string& field, const Names& names);
absl::Status CheckBatch(const std::string& above, const v1::ItemBatch& batch);

void SetTime(absl::Time time, google::protobuf::Timestamp& field);
absl::Time ToTime(const google::protobuf::Timestamp& field);
// Begins the ttl of an item, if it has one.
void BeginTtl(v1::Item& item, absl::Time now);
const std::string& ValueOf(const v1::Item& item);
// An item as a read returns it.
v1::Item Returned(const v1::Item& item, bool with_vector);

// The name of a field that `asked` has otherwise, empty when there is none.
std::string DifferenceOf(const v1::NamespaceConfig& asked, const v1::NamespaceConfig& stored);
void Apply(const v1::NamespaceConfig& asked, v1::NamespaceConfig& stored);

bool Matches(const v1::NamespaceMatch& match, const std::vector<std::string>& path);
// Whether `path` is `prefix` or lies below it.
bool IsBelow(const std::vector<std::string>& path, const std::vector<std::string>& prefix);

// Where a page begins and ends among `count` results.
struct Page {
  std::size_t begin = 0;
  std::size_t end = 0;
};
absl::StatusOr<Page> PageOf(int page_size, std::size_t begin, std::size_t count);
// Whether `left` comes after `right` in the order.
bool IsBehind(const v1::Item& left, const v1::Item& right, v1::ItemOrder order);
// A token is the namespace's generation, and version and key of the last item.
std::string TokenOf(std::int64_t generation, const v1::Item& last);
absl::Status ReadToken(const std::string& token, std::int64_t& generation, v1::Item& last);

}  // namespace memoryd::client::fake_items

#endif  // MEMORYD_FAKE_ITEM_RULES_H_
