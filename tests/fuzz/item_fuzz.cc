// Requests about items, and filters on values: whatever comes is refused in order, or leaves what
// can be stored, found and sent again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/base/field_path.h"
#include "core/base/utf8_decode.h"
#include "core/items/item.h"
#include "core/items/item_filter.h"
#include "core/items/namespace_path.h"
#include "core/items/searched_text.h"
#include "core/reads/item_reads.h"
#include "core/storage/item_batch.h"
#include "core/storage/item_store.h"
#include "memoryd/v1/item_service.pb.h"
#include "server/rpc/parse_request.h"
#include "server/wire/convert_item.h"
#include "tests/fuzz/require.h"

namespace memoryd {
namespace {

const ItemCaller kCaller{"default"};
constexpr std::int64_t kPageSize = 100;
constexpr std::size_t kItemBytes = std::size_t{32} << 20;

// As RequireNamesField(); one operation's refusal has its number too.
void RequireRefusal(const absl::Status& status) {
  Require(absl::IsInvalidArgument(status) && ErrorReason(status) == "INVALID_FIELD");
  const ErrorValues values = ErrorDetails(status);
  Require(!values.empty() && values[0].first == "field" && !values[0].second.empty());
  Require(std::string(status.message()).starts_with(values[0].second + ": "));
  Require(values.size() == 1 || (values.size() == 2 && values[1].first == "operation"));
}

template <typename Request>
bool Read(std::string_view bytes, Request& request) {
  return Parse(bytes, request).ok();
}

v1::ItemPut PutOf(const ItemWrite& write) {
  v1::ItemPut put;
  put.set_key(write.key);
  const ItemContent& content = *write.content;
  if (content.kind == ItemValueKind::kJson) {
    put.set_json(content.value);
  } else {
    put.set_bytes_value(content.value);
    put.set_mime_type(content.mime_type);
  }
  put.mutable_vector()->Add(content.vector.begin(), content.vector.end());
  return put;
}

// Checked once is checked for good, and what is stored can be searched.
void RequireStorable(const ItemWrite& write) {
  v1::ItemPut put = PutOf(write);
  const auto again = FromProto(FieldPath("put"), put, {}, kItemBytes);
  Require(again.ok() && again->key == write.key);
  Require(again->content->value == write.content->value);
  Require(again->content->mime_type == write.content->mime_type);
  Require(again->content->vector == write.content->vector);
  Require(IsUtf8(SearchedText(*write.content, "$")));
  Require(ItemFilter().Passes(*write.content).ok());
}

void RunBatch(std::string_view bytes) {
  v1::ItemBatch batch;
  if (!Read(bytes, batch)) return;
  const auto checked = FromProto(batch, kCaller, {"writer", true}, kItemBytes);
  if (!checked.ok()) return RequireRefusal(checked.status());
  Require(checked->is_get.size() == static_cast<std::size_t>(batch.operations_size()));
  Require(checked->gets.size() + checked->batch.writes.size() == checked->is_get.size());
  Require(checked->is_put.size() == checked->batch.writes.size());
  Require(checked->batch.fingerprint.size() == (checked->batch.request_id.empty() ? 0u : 32u));
  const NamespacePath& path = checked->batch.key.path;
  const auto stored = NamespacePath::FromStored(path.stored());
  Require(stored.ok() && *stored == path && path.depth() >= 1);
  for (const ItemWrite& write : checked->batch.writes) {
    if (write.content.has_value()) RequireStorable(write);
  }
}

void RunList(std::string_view bytes) {
  v1::ListItemsRequest request;
  if (!Read(bytes, request)) return;
  const auto list = FromProto(request, kCaller, kPageSize);
  if (!list.ok()) return RequireRefusal(list.status());
  const ItemRange& range = list->range;
  // A key that begins with the prefix is in the range, unless another bound leaves it out.
  for (const std::string& key : {request.key_prefix(), request.key_prefix() + "\xF4\x8F\xBF\xBF"}) {
    const bool inside =
        key >= request.start_key() && (request.end_key().empty() || key < request.end_key());
    const bool found = key >= range.begin_key && (range.end_key.empty() || key < range.end_key);
    Require(inside == found);
  }
}

void RunSearch(std::string_view bytes) {
  v1::SearchItemsRequest request;
  if (!Read(bytes, request)) return;
  const auto search = FromProto(request, kCaller);
  if (!search.ok()) return RequireRefusal(search.status());
  Require(search->limit >= 1 && search->limit <= 1000 && search->offset >= 0);
  Require(search->filter.empty() || !request.filter_json().empty());
}

void RunNamespaces(std::string_view bytes) {
  v1::ListNamespacesRequest request;
  if (!Read(bytes, request)) return;
  const auto list = FromProto(request, kCaller, kPageSize);
  if (!list.ok()) RequireRefusal(list.status());
}

void RunConfig(std::string_view bytes) {
  v1::UpdateNamespaceRequest request;
  if (!Read(bytes, request)) return;
  const auto path = PathFromProto("namespace", request.namespace_());
  if (!path.ok()) RequireRefusal(path.status());
  const auto settings = FromProto(FieldPath("config"), request.config());
  if (!settings.ok()) RequireRefusal(settings.status());
}

// A step of an import. What is taken is what ListItems shows, and is taken again the same.
void RunImport(std::string_view bytes) {
  v1::ImportNamespaceRequest request;
  const auto bound = ParsedBytes(bytes, *v1::ImportNamespaceRequest::descriptor());
  if (!Read(bytes, request)) return;
  // The memory taken for it suffices.
  if (bound.ok()) Require(*bound >= static_cast<std::int64_t>(request.SpaceUsedLong()));
  if (request.has_begin()) {
    const auto begun = FromProto(request.begin(), "default");
    if (!begun.ok()) return RequireRefusal(begun.status());
    Require(begun->key.path.depth() >= 1 && begun->create_us >= 0);
  }
  if (!request.has_items()) return;
  const int count = request.items().items_size();
  const auto items = FromProto(*request.mutable_items(), 1, kItemBytes);
  if (!items.ok()) return RequireRefusal(items.status());
  Require(static_cast<int>(items->size()) == count);
  for (const Item& item : *items) {
    Require(item.create_us >= 0 && item.update_us >= 0 && item.expire_us >= 0);
    ItemWrite write;
    write.key = item.key;
    write.content = item.content;
    RequireStorable(write);
  }
}

// A filter, a NUL, and a value that it is asked about.
void RunFilter(std::string_view bytes) {
  const std::size_t end = std::min(bytes.find('\0'), bytes.size());
  const auto filter = ItemFilter::Parse("filter_json", bytes.substr(0, end));
  if (!filter.ok()) return RequireRefusal(filter.status());
  v1::ItemPut put;
  put.set_key("k");
  put.set_json(std::string(bytes.substr(std::min(end + 1, bytes.size()))));
  const auto write = FromProto(FieldPath("put"), put, {}, kItemBytes);
  if (!write.ok()) return RequireRefusal(write.status());
  RequireStorable(*write);
  const auto passes = filter->Passes(*write->content);
  Require(passes.ok());
  // Bytes pass only where nothing is asked.
  ItemContent opaque = *write->content;
  opaque.kind = ItemValueKind::kBytes;
  const auto opaque_passes = filter->Passes(opaque);
  Require(opaque_passes.ok() && *opaque_passes == filter->empty());
}

}  // namespace
}  // namespace memoryd

// The first byte chooses the request.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool captured = [] {
    memoryd::CaptureProtobufLog();
    return true;
  }();
  (void)captured;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  using Run = void (*)(std::string_view);
  static constexpr Run kRuns[] = {memoryd::RunBatch,      memoryd::RunList,   memoryd::RunSearch,
                                  memoryd::RunNamespaces, memoryd::RunConfig, memoryd::RunFilter,
                                  memoryd::RunImport};
  kRuns[data[0] % std::size(kRuns)](bytes);
  return 0;
}
