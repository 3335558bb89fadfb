#include "memoryd/fake_item_rules.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/time/time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "memoryd/error_info.h"

namespace memoryd::client::fake_items {
namespace {

absl::Duration ToDuration(const google::protobuf::Duration& field) {
  return absl::Seconds(field.seconds()) + absl::Nanoseconds(field.nanos());
}

absl::Status CheckOperation(const std::string& field, const v1::ItemOperation& operation) {
  if (operation.has_get()) {
    return operation.get().key().empty() ? Bad(field + "get.key", "is required") : absl::OkStatus();
  }
  if (operation.has_delete_()) {
    return operation.delete_().key().empty() ? Bad(field + "delete.key", "is required")
                                             : absl::OkStatus();
  }
  if (!operation.has_put()) return Bad(field + "operation", "is required");
  const v1::ItemPut& put = operation.put();
  if (put.key().empty()) return Bad(field + "put.key", "is required");
  if (!put.has_json() && !put.has_bytes_value()) return Bad(field + "put.value", "is required");
  if (put.has_json() && !put.mime_type().empty()) {
    return Bad(field + "put.mime_type", "is for bytes_value only");
  }
  return put.expected_version() < 0 ? Bad(field + "put.expected_version", "is negative")
                                    : absl::OkStatus();
}

}  // namespace

absl::Status Refusal(absl::StatusCode code, const std::string& message, std::string reason,
                     std::map<std::string, std::string> details) {
  return WithErrorInfo(absl::Status(code, message),
                       {.reason = std::move(reason), .details = std::move(details)});
}

absl::Status Bad(const std::string& field, const char* what) {
  return WithErrorInfo(absl::InvalidArgumentError(absl::StrCat(field, ": ", what)),
                       {.reason = "INVALID_ARGUMENT", .field = field});
}

absl::Status CheckPath(const std::string& field, const Names& names) {
  if (names.empty()) return Bad(field, "is required");
  if (names.size() > kMostNames) return Bad(field, "has more than 16 names");
  for (int i = 0; i < names.size(); ++i) {
    if (names[i].empty()) return Bad(absl::StrCat(field, "[", i, "]"), "is empty");
  }
  return names[0] == "memoryd" ? Bad(absl::StrCat(field, "[0]"), "`memoryd` is reserved")
                               : absl::OkStatus();
}

void SetTime(absl::Time time, google::protobuf::Timestamp& field) {
  const std::int64_t us = absl::ToUnixMicros(time);
  field.set_seconds(us / 1'000'000);
  field.set_nanos(static_cast<std::int32_t>(us % 1'000'000 * 1'000));
}

absl::Time ToTime(const google::protobuf::Timestamp& field) {
  return absl::FromUnixSeconds(field.seconds()) + absl::Nanoseconds(field.nanos());
}

void BeginTtl(v1::Item& item, absl::Time now) {
  if (item.has_ttl()) SetTime(now + ToDuration(item.ttl()), *item.mutable_expire_time());
}

const std::string& ValueOf(const v1::Item& item) {
  return item.has_json() ? item.json() : item.bytes_value();
}

absl::StatusOr<Page> PageOf(int page_size, std::size_t begin, std::size_t count) {
  constexpr std::size_t kUsual = 100;
  constexpr std::size_t kMost = 1000;
  if (page_size < 0) return Bad("page_size", "is negative");
  const auto size = static_cast<std::size_t>(page_size);
  Page page{.begin = std::min(begin, count)};
  page.end = std::min(count, page.begin + (size == 0 ? kUsual : std::min(size, kMost)));
  return page;
}

absl::Status CheckBatch(const std::string& above, const v1::ItemBatch& batch) {
  if (absl::Status status = CheckPath(above + "namespace", batch.namespace_()); !status.ok()) {
    return status;
  }
  std::set<std::string> written;
  for (int i = 0; i < batch.operations_size(); ++i) {
    const v1::ItemOperation& operation = batch.operations(i);
    const std::string field = above.empty() ? "" : absl::StrCat(above, "operations[", i, "].");
    if (absl::Status status = CheckOperation(field, operation); !status.ok()) return status;
    if (operation.has_get()) continue;
    const std::string& key =
        operation.has_put() ? operation.put().key() : operation.delete_().key();
    if (!written.insert(key).second) return Bad(field + "key", "is written twice in the batch");
  }
  return absl::OkStatus();
}

std::string DifferenceOf(const v1::NamespaceConfig& asked, const v1::NamespaceConfig& stored) {
  if (asked.has_subject() && asked.subject() != stored.subject()) return "subject";
  if (asked.has_default_ttl() &&
      ToDuration(asked.default_ttl()) != ToDuration(stored.default_ttl())) {
    return "default_ttl";
  }
  if (asked.has_refresh_ttl() && asked.refresh_ttl() != stored.refresh_ttl()) return "refresh_ttl";
  if (asked.has_search() &&
      asked.search().SerializeAsString() != stored.search().SerializeAsString()) {
    return "search";
  }
  return "";
}

void Apply(const v1::NamespaceConfig& asked, v1::NamespaceConfig& stored) {
  // Given fields replace all, as the contract says; merging would append them.
  if (asked.has_search()) stored.clear_search();
  stored.MergeFrom(asked);
  if (ToDuration(stored.default_ttl()) == absl::ZeroDuration()) stored.clear_default_ttl();
  if (stored.subject().empty()) stored.clear_subject();
}

bool Matches(const v1::NamespaceMatch& match, const std::vector<std::string>& path) {
  const auto count = static_cast<std::size_t>(match.names_size());
  if (path.size() < count) return false;
  const std::size_t begin = match.end() == v1::NamespaceMatch::END_SUFFIX ? path.size() - count : 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& name = match.names(static_cast<int>(i));
    if (name != "*" && name != path[begin + i]) return false;
  }
  return true;
}

bool IsBelow(const std::vector<std::string>& path, const std::vector<std::string>& prefix) {
  return path.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), path.begin());
}

v1::Item Returned(const v1::Item& item, bool with_vector) {
  v1::Item returned = item;
  if (!with_vector) returned.clear_vector();
  return returned;
}

bool IsBehind(const v1::Item& left, const v1::Item& right, v1::ItemOrder order) {
  switch (order) {
    case v1::ITEM_ORDER_KEY_DESCENDING:
      return left.key() < right.key();
    case v1::ITEM_ORDER_OLDEST_FIRST:
      return left.version() > right.version();
    case v1::ITEM_ORDER_NEWEST_FIRST:
      return left.version() < right.version();
    default:
      return left.key() > right.key();
  }
}

std::string TokenOf(std::int64_t generation, const v1::Item& last) {
  return absl::StrCat(generation, "/", last.version(), "/", last.key());
}

absl::Status ReadToken(const std::string& token, std::int64_t& generation, v1::Item& last) {
  const std::vector<std::string> parts = absl::StrSplit(token, absl::MaxSplits('/', 2));
  std::int64_t version = 0;
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[0], &generation) ||
      !absl::SimpleAtoi(parts[1], &version)) {
    return Bad("page_token", "is none of this server's");
  }
  last.set_version(version);
  last.set_key(parts[2]);
  return absl::OkStatus();
}

v1::ItemError ErrorOf(const absl::Status& status) {
  const ErrorInfo info = GetErrorInfo(status);
  v1::ItemError error;
  error.set_code(static_cast<int>(status.code()));
  error.set_reason(info.reason);
  error.set_message(std::string(status.message()));
  const auto number = [&info](const char* name) {
    std::int64_t value = 0;
    const auto found = info.details.find(name);
    return found != info.details.end() && absl::SimpleAtoi(found->second, &value) ? value : 0;
  };
  if (info.details.contains("operation"))
    error.set_operation(static_cast<int>(number("operation")));
  error.set_version(number("version"));
  return error;
}

}  // namespace memoryd::client::fake_items
