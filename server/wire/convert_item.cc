#include "server/wire/convert_item.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/field_path.h"
#include "core/base/status_macros.h"
#include "core/base/utf8_decode.h"
#include "core/items/item.h"
#include "core/items/item_filter.h"
#include "core/items/item_rules.h"
#include "core/items/namespace_config.h"
#include "core/items/namespace_match.h"
#include "core/items/namespace_path.h"
#include "core/lifecycle/namespace_import.h"
#include "core/reads/item_reads.h"
#include "core/reads/item_search.h"
#include "core/sessions/session_errors.h"
#include "core/storage/item_batch.h"
#include "core/storage/item_store.h"
#include "server/wire/convert.h"
#include "server/wire/duration.h"
#include "server/wire/field_checks.h"
#include "server/wire/timestamp.h"

namespace memoryd {
namespace {

constexpr std::size_t kMaxWriter = 1024;
constexpr std::size_t kMaxQueryBytes = std::size_t{64} << 10;
constexpr std::int32_t kDefaultResults = 10;
constexpr std::int32_t kMaxResults = 1000;
constexpr std::int32_t kMaxOffset = 100'000;
// Of a page's values and vectors.
constexpr std::int64_t kPageBytes = std::int64_t{4} << 20;

std::vector<std::string> ToVector(const Names& names) { return {names.begin(), names.end()}; }

std::vector<float> ToVector(const google::protobuf::RepeatedField<float>& numbers) {
  return {numbers.begin(), numbers.end()};
}

void AppendUtf8(char32_t c, std::string& text) {
  const auto add = [&text](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto tail = [c](int shift) { return 0x80u | ((c >> shift) & 0x3Fu); };
  if (c < 0x80) {
    add(c);
  } else if (c < 0x800) {
    add(0xC0 | (c >> 6));
    add(tail(0));
  } else if (c < 0x10000) {
    add(0xE0 | (c >> 12));
    add(tail(6));
    add(tail(0));
  } else {
    add(0xF0 | (c >> 18));
    add(tail(12));
    add(tail(6));
    add(tail(0));
  }
}

// The least text above all that begin with `prefix`, in UTF-8, whose bytes sort as its characters
// do; empty when there is none.
std::string EndOf(std::string_view prefix) {
  std::vector<char32_t> characters;
  for (const char* p = prefix.data(); p < prefix.data() + prefix.size();) {
    const DecodedUtf8 next = DecodeUtf8(p, prefix.data() + prefix.size());
    characters.push_back(next.code_point);
    p += next.length;
  }
  while (!characters.empty() && characters.back() == 0x10FFFF) characters.pop_back();
  if (characters.empty()) return {};
  constexpr char32_t kLastBeforeSurrogates = 0xD7FF;
  char32_t& last = characters.back();
  last = last == kLastBeforeSurrogates ? 0xE000 : last + 1;
  std::string end;
  for (const char32_t c : characters) AppendUtf8(c, end);
  return end;
}

// A part of a key, or nothing.
absl::Status CheckKeyBound(const FieldPath& field, std::string_view bound) {
  MEMORYD_RETURN_IF_ERROR(CheckText(field, bound, kMaxItemKeyBytes));
  if (!IsUtf8(bound)) return InvalidField(field, "must be UTF-8");
  if (bound.find('\0') != std::string_view::npos)
    return InvalidField(field, "must not have U+0000");
  return absl::OkStatus();
}

absl::StatusOr<ItemListOrder> FromProto(v1::ItemOrder order) {
  switch (order) {
    case v1::ITEM_ORDER_UNSPECIFIED:
    case v1::ITEM_ORDER_KEY:
      return ItemListOrder::kKey;
    case v1::ITEM_ORDER_KEY_DESCENDING:
      return ItemListOrder::kKeyDescending;
    case v1::ITEM_ORDER_OLDEST_FIRST:
      return ItemListOrder::kOldestFirst;
    case v1::ITEM_ORDER_NEWEST_FIRST:
      return ItemListOrder::kNewestFirst;
    default:
      return InvalidField("order", "is not a known value");
  }
}

absl::StatusOr<NamespaceMatch> FromProto(const FieldPath& field, const v1::NamespaceMatch& match) {
  NamespaceMatch result;
  switch (match.end()) {
    case v1::NamespaceMatch::END_UNSPECIFIED:
    case v1::NamespaceMatch::END_PREFIX:
      break;
    case v1::NamespaceMatch::END_SUFFIX:
      result.end = NamespaceMatch::End::kSuffix;
      break;
    default:
      return InvalidField(field.Field("end"), "is not a known value");
  }
  result.names = ToVector(match.names());
  return result;
}

absl::Status TakeTtl(const FieldPath& field, const v1::ItemPut& put, ItemWrite& write) {
  switch (put.lifetime_case()) {
    case v1::ItemPut::kTtl:
      write.ttl_us = ToMicros(put.ttl());
      return CheckTtl(field.Field("ttl"), *write.ttl_us);
    case v1::ItemPut::kWithoutTtl:
      if (!put.without_ttl()) {
        return InvalidField(field.Field("without_ttl"), "must be true, or not set");
      }
      write.ttl_us = 0;
      return absl::OkStatus();
    case v1::ItemPut::LIFETIME_NOT_SET:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

// A status of one operation, which is named.
absl::Status OfOperation(const absl::Status& status, int operation) {
  ErrorValues values = ErrorDetails(status);
  values.emplace_back("operation", std::to_string(operation));
  return Error(status.code(), ErrorReason(status), std::string(status.message()),
               std::move(values));
}

// Takes over one operation.
absl::Status TakeOperation(v1::ItemOperation& operation, const Provenance& from,
                           std::size_t item_bytes, std::set<std::string, std::less<>>& written,
                           CheckedBatch& checked) {
  const FieldPath root;
  switch (operation.operation_case()) {
    case v1::ItemOperation::kPut: {
      MEMORYD_ASSIGN_OR_RETURN(
          ItemWrite write,
          FromProto(root.Field("put"), *operation.mutable_put(), from, item_bytes));
      checked.batch.writes.push_back(std::move(write));
      break;
    }
    case v1::ItemOperation::kDelete: {
      MEMORYD_ASSIGN_OR_RETURN(ItemWrite write,
                               FromProto(root.Field("delete"), operation.delete_()));
      checked.batch.writes.push_back(std::move(write));
      break;
    }
    case v1::ItemOperation::kGet: {
      MEMORYD_ASSIGN_OR_RETURN(ItemGet get,
                               FromProto(root.Field("get"), operation.get(), checked.batch.key));
      checked.gets.push_back(std::move(get));
      checked.is_get.push_back(true);
      return absl::OkStatus();
    }
    case v1::ItemOperation::OPERATION_NOT_SET:
      return InvalidField("operation", "is required: put, get or delete");
  }
  checked.is_get.push_back(false);
  checked.is_put.push_back(operation.has_put());
  if (!written.insert(checked.batch.writes.back().key).second) {
    return InvalidField("key", "a batch may write a key once");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<NamespacePath> PathFromProto(std::string_view field, const Names& names) {
  return NamespacePath::Make(FieldPath(), field, ToVector(names));
}

absl::StatusOr<NamespacePath> PrefixFromProto(std::string_view field, const Names& names) {
  return NamespacePath::MakePrefix(FieldPath(), field, ToVector(names));
}

absl::StatusOr<ItemWrite> FromProto(const FieldPath& field, v1::ItemPut& put,
                                    const Provenance& from, std::size_t item_bytes) {
  ItemWrite write;
  MEMORYD_RETURN_IF_ERROR(CheckItemKey(field.Field("key"), put.key()));
  ItemContent& content = write.content.emplace();
  switch (put.value_case()) {
    case v1::ItemPut::kJson:
      content.value = std::move(*put.mutable_json());
      break;
    case v1::ItemPut::kBytesValue:
      content.kind = ItemValueKind::kBytes;
      content.value = std::move(*put.mutable_bytes_value());
      break;
    case v1::ItemPut::VALUE_NOT_SET:
      return InvalidField(field.Field("json"), "is required, or bytes_value");
  }
  content.mime_type = put.mime_type();
  content.vector = ToVector(put.vector());
  if (put.has_search()) {
    MEMORYD_ASSIGN_OR_RETURN(content.search,
                             StoredSearch(field.Field("search"), ToVector(put.search().fields())));
  }
  MEMORYD_RETURN_IF_ERROR(CheckItemContent(field, content, item_bytes));
  content.writer = std::string(from.writer);
  content.untrusted = from.untrusted;
  if (put.has_expected_version()) {
    if (put.expected_version() < 0) {
      return InvalidField(field.Field("expected_version"), "must be at least 0");
    }
    write.expected_version = put.expected_version();
  }
  MEMORYD_RETURN_IF_ERROR(TakeTtl(field, put, write));
  write.key = put.key();
  return write;
}

absl::StatusOr<ItemWrite> FromProto(const FieldPath& field, const v1::ItemDelete& deletion) {
  ItemWrite write;
  MEMORYD_RETURN_IF_ERROR(CheckItemKey(field.Field("key"), deletion.key()));
  write.key = deletion.key();
  if (deletion.has_expected_version()) {
    if (deletion.expected_version() <= 0) {
      return InvalidField(field.Field("expected_version"), "must be above 0");
    }
    write.expected_version = deletion.expected_version();
  }
  return write;
}

absl::StatusOr<ItemGet> FromProto(const FieldPath& field, const v1::ItemGet& get,
                                  const NamespaceKey& key) {
  MEMORYD_RETURN_IF_ERROR(CheckItemKey(field.Field("key"), get.key()));
  ItemGet result{{key, get.key()}};
  if (get.has_refresh_ttl()) result.refresh_ttl = get.refresh_ttl();
  result.with_vector = get.with_vector();
  return result;
}

absl::Status CheckSubject(const NamespaceSettings& settings, std::string_view subject) {
  if (subject.empty() || settings.subject.value_or(std::string(subject)) == subject) {
    return absl::OkStatus();
  }
  return SubjectNotGranted("config.subject");
}

absl::StatusOr<NamespaceSettings> FromProto(const FieldPath& field,
                                            const v1::NamespaceConfig& config) {
  NamespaceSettings settings;
  if (config.has_subject()) {
    if (!config.subject().empty()) {
      MEMORYD_RETURN_IF_ERROR(CheckId(field.Field("subject"), config.subject(), kMaxSubjectBytes));
    }
    settings.subject = config.subject();
  }
  if (config.has_default_ttl()) {
    settings.ttl_us = ToMicros(config.default_ttl());
    if (*settings.ttl_us != 0) {
      MEMORYD_RETURN_IF_ERROR(CheckTtl(field.Field("default_ttl"), *settings.ttl_us));
    }
  }
  if (config.has_refresh_ttl()) settings.refresh_ttl = config.refresh_ttl();
  if (config.has_search()) {
    MEMORYD_ASSIGN_OR_RETURN(
        settings.search, StoredSearch(field.Field("search"), ToVector(config.search().fields())));
  }
  return settings;
}

bool Writes(const v1::ItemBatch& batch) {
  return std::any_of(batch.operations().begin(), batch.operations().end(),
                     [](const v1::ItemOperation& operation) { return !operation.has_get(); });
}

bool Reads(const v1::ItemBatch& batch) {
  return std::any_of(batch.operations().begin(), batch.operations().end(),
                     [](const v1::ItemOperation& operation) { return operation.has_get(); });
}

absl::StatusOr<CheckedBatch> FromProto(v1::ItemBatch& batch, const ItemCaller& caller,
                                       const Provenance& from, std::size_t item_bytes) {
  CheckedBatch checked;
  checked.byte_size = batch.ByteSizeLong();
  MEMORYD_ASSIGN_OR_RETURN(NamespacePath path, PathFromProto("namespace", batch.namespace_()));
  checked.batch.key = {caller.tenant, std::move(path)};
  checked.batch.subject = caller.subject;
  if (batch.operations_size() > kMaxOperationsOfBatch) {
    return InvalidField("operations", fmt::format("must be at most {}; got {}",
                                                  kMaxOperationsOfBatch, batch.operations_size()));
  }
  if (batch.has_config()) {
    MEMORYD_ASSIGN_OR_RETURN(checked.settings, FromProto("config", batch.config()));
    MEMORYD_RETURN_IF_ERROR(CheckSubject(checked.settings, caller.subject));
  }
  if (batch.has_request_id()) {
    MEMORYD_RETURN_IF_ERROR(CheckId("request_id", batch.request_id(), kMaxIdBytes));
    checked.batch.request_id = batch.request_id();
    batch.clear_request_id();
    // One for all RPCs: a call may be repeated among others in a BatchItems.
    // Of another subject's caller it is another request.
    checked.batch.fingerprint =
        Fingerprint(caller.subject.empty() ? "ItemBatch" : "ItemBatch/" + caller.subject, batch);
  }
  std::set<std::string, std::less<>> written;
  for (int i = 0; i < batch.operations_size(); ++i) {
    const absl::Status status =
        TakeOperation(*batch.mutable_operations(i), from, item_bytes, written, checked);
    if (!status.ok()) return OfOperation(status, i);
  }
  return checked;
}

absl::StatusOr<ItemListRequest> FromProto(const v1::ListItemsRequest& request,
                                          const ItemCaller& caller, std::int64_t page_size) {
  ItemListRequest list;
  list.subject = caller.subject;
  MEMORYD_ASSIGN_OR_RETURN(NamespacePath path, PathFromProto("namespace", request.namespace_()));
  list.key = {caller.tenant, std::move(path)};
  MEMORYD_ASSIGN_OR_RETURN(list.range.order, FromProto(request.order()));
  MEMORYD_RETURN_IF_ERROR(CheckKeyBound("key_prefix", request.key_prefix()));
  MEMORYD_RETURN_IF_ERROR(CheckKeyBound("start_key", request.start_key()));
  MEMORYD_RETURN_IF_ERROR(CheckKeyBound("end_key", request.end_key()));
  list.range.begin_key = std::max(request.start_key(), request.key_prefix());
  list.range.end_key = EndOf(request.key_prefix());
  if (!request.end_key().empty() &&
      (list.range.end_key.empty() || request.end_key() < list.range.end_key)) {
    list.range.end_key = request.end_key();
  }
  list.range.max_items = page_size;
  list.range.max_bytes = kPageBytes;
  list.range.with_values = !request.keys_only();
  list.range.with_vectors = request.with_vectors();
  MEMORYD_ASSIGN_OR_RETURN(list.filter, ItemFilter::Parse("filter_json", request.filter_json()));
  list.refresh_ttl = request.refresh_ttl();
  return list;
}

absl::StatusOr<ItemSearchRequest> FromProto(const v1::SearchItemsRequest& request,
                                            const ItemCaller& caller) {
  ItemSearchRequest search;
  search.tenant = caller.tenant;
  search.subject = caller.subject;
  MEMORYD_ASSIGN_OR_RETURN(search.prefix,
                           PrefixFromProto("namespace_prefix", request.namespace_prefix()));
  MEMORYD_ASSIGN_OR_RETURN(search.filter, ItemFilter::Parse("filter_json", request.filter_json()));
  MEMORYD_RETURN_IF_ERROR(CheckText("query", request.query(), kMaxQueryBytes));
  search.query = request.query();
  search.vector = ToVector(request.vector());
  MEMORYD_RETURN_IF_ERROR(CheckVector("vector", search.vector));
  if (request.limit() < 0) return InvalidField("limit", "must be at least 0");
  search.limit = request.limit() == 0 ? kDefaultResults : std::min(request.limit(), kMaxResults);
  if (request.offset() < 0 || request.offset() > kMaxOffset) {
    return InvalidField("offset", fmt::format("must be 0 to {}", kMaxOffset));
  }
  search.offset = request.offset();
  if (request.has_score_threshold()) {
    if (!(request.score_threshold() >= -1 && request.score_threshold() <= 1)) {
      return InvalidField("score_threshold", "must be -1 to 1");
    }
    search.least_cosine = request.score_threshold();
  }
  if (request.has_refresh_ttl()) search.refresh_ttl = request.refresh_ttl();
  search.with_vectors = request.with_vectors();
  return search;
}

absl::StatusOr<NamespaceListRequest> FromProto(const v1::ListNamespacesRequest& request,
                                               const ItemCaller& caller, std::int64_t page_size) {
  NamespaceListRequest list;
  list.tenant = caller.tenant;
  std::vector<NamespaceMatch> matches;
  for (int i = 0; i < request.matches_size(); ++i) {
    MEMORYD_ASSIGN_OR_RETURN(NamespaceMatch match,
                             FromProto(FieldPath("matches", i), request.matches(i)));
    matches.push_back(std::move(match));
  }
  MEMORYD_ASSIGN_OR_RETURN(list.filter, NamespaceFilter::Make("matches", std::move(matches)));
  if (request.max_depth() < 0 ||
      request.max_depth() > static_cast<std::int32_t>(kMaxNamespaceNames)) {
    return InvalidField("max_depth", fmt::format("must be 0 to {}", kMaxNamespaceNames));
  }
  list.max_depth = static_cast<std::size_t>(request.max_depth());
  if (!request.subject().empty()) {
    MEMORYD_RETURN_IF_ERROR(CheckId("subject", request.subject(), kMaxSubjectBytes));
  }
  list.subject = request.subject().empty() ? caller.subject : request.subject();
  if (!caller.subject.empty() && list.subject != caller.subject) {
    return SubjectNotGranted("subject");
  }
  list.include_empty = request.include_empty();
  list.max_namespaces = page_size;
  return list;
}

absl::StatusOr<Item> FromProto(const FieldPath& field, v1::Item& proto, std::int64_t now_us,
                               std::size_t item_bytes) {
  Item item;
  MEMORYD_RETURN_IF_ERROR(CheckItemKey(field.Field("key"), proto.key()));
  item.key = std::move(*proto.mutable_key());
  ItemContent& content = item.content;
  switch (proto.value_case()) {
    case v1::Item::kJson:
      content.value = std::move(*proto.mutable_json());
      // As it is shown.
      if (proto.mime_type() == kJsonType) proto.clear_mime_type();
      break;
    case v1::Item::kBytesValue:
      content.kind = ItemValueKind::kBytes;
      content.value = std::move(*proto.mutable_bytes_value());
      if (proto.mime_type() == kOctetsType) proto.clear_mime_type();
      break;
    case v1::Item::VALUE_NOT_SET:
      return InvalidField(field.Field("json"), "is required, or bytes_value");
  }
  content.mime_type = std::move(*proto.mutable_mime_type());
  content.vector = ToVector(proto.vector());
  if (proto.has_search()) {
    MEMORYD_ASSIGN_OR_RETURN(
        content.search, StoredSearch(field.Field("search"), ToVector(proto.search().fields())));
  }
  MEMORYD_RETURN_IF_ERROR(CheckItemContent(field, content, item_bytes));
  MEMORYD_RETURN_IF_ERROR(CheckText(field.Field("writer"), proto.writer(), kMaxWriter));
  content.writer = std::move(*proto.mutable_writer());
  content.untrusted = proto.untrusted();
  const auto take = [&](std::string_view name, bool is_there,
                        const google::protobuf::Timestamp& time,
                        std::int64_t& time_us) -> absl::Status {
    if (!is_there) return absl::OkStatus();
    MEMORYD_RETURN_IF_ERROR(CheckServerTime(field.Field(name), time));
    time_us = ToMicros(time);
    return absl::OkStatus();
  };
  item.create_us = item.update_us = now_us;
  MEMORYD_RETURN_IF_ERROR(
      take("create_time", proto.has_create_time(), proto.create_time(), item.create_us));
  MEMORYD_RETURN_IF_ERROR(
      take("update_time", proto.has_update_time(), proto.update_time(), item.update_us));
  MEMORYD_RETURN_IF_ERROR(
      take("expire_time", proto.has_expire_time(), proto.expire_time(), item.expire_us));
  if (proto.has_ttl()) {
    item.ttl_us = ToMicros(proto.ttl());
    MEMORYD_RETURN_IF_ERROR(CheckTtl(field.Field("ttl"), item.ttl_us));
  }
  return item;
}

absl::StatusOr<std::vector<Item>> FromProto(v1::ImportNamespaceItems& items, std::int64_t now_us,
                                            std::size_t item_bytes) {
  if (items.items_size() > kMaxImportedItems) {
    return InvalidField(
        "items", fmt::format("must be at most {}; got {}", kMaxImportedItems, items.items_size()));
  }
  std::vector<Item> taken;
  taken.reserve(static_cast<std::size_t>(items.items_size()));
  for (int i = 0; i < items.items_size(); ++i) {
    MEMORYD_ASSIGN_OR_RETURN(
        Item item, FromProto(FieldPath("items", i), *items.mutable_items(i), now_us, item_bytes));
    taken.push_back(std::move(item));
  }
  return taken;
}

absl::StatusOr<NamespaceImportRequest> FromProto(const v1::ImportNamespaceBegin& begin,
                                                 std::string_view tenant) {
  NamespaceImportRequest request;
  MEMORYD_ASSIGN_OR_RETURN(NamespacePath path, NamespacePath::Make(FieldPath("begin"), "namespace",
                                                                   ToVector(begin.namespace_())));
  request.key = {std::string(tenant), std::move(path)};
  MEMORYD_ASSIGN_OR_RETURN(const NamespaceSettings settings,
                           FromProto("begin.config", begin.config()));
  request.config.Apply(settings);
  if (begin.has_create_time()) {
    MEMORYD_RETURN_IF_ERROR(CheckServerTime("begin.create_time", begin.create_time()));
    request.create_us = ToMicros(begin.create_time());
  }
  return request;
}

}  // namespace memoryd
