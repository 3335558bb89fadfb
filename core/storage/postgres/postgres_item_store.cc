#include "core/storage/postgres/postgres_item_store.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/items/item.h"
#include "core/items/item_rules.h"
#include "core/items/namespace_path.h"
#include "core/storage/item_batch.h"
#include "core/storage/item_rows.h"
#include "core/storage/item_store.h"
#include "core/storage/postgres/batch_writer.h"
#include "core/storage/postgres/connection_settings.h"
#include "core/storage/postgres/item_queries.h"
#include "core/storage/postgres/item_writer.h"
#include "core/storage/postgres/namespace_queries.h"
#include "core/storage/postgres/namespace_staging.h"
#include "core/storage/postgres/namespace_writer.h"
#include "core/storage/postgres/query_connection.h"

namespace memoryd {
namespace {

using Parameters = std::vector<std::string>;

constexpr std::int64_t kPurgeStepRows = 500;

std::string Bits(std::uint64_t number) {
  return std::to_string(std::bit_cast<std::int64_t>(number));
}

std::string Bool(bool value) { return value ? "true" : "false"; }

// Above every text of at most `max_bytes` bytes: more of the greatest character than it may have. A
// condition that knows no end could not bound a scan of an index.
std::string TextEnd(std::size_t max_bytes) {
  std::string end;
  while (end.size() <= max_bytes) end += "\xF4\x8F\xBF\xBF";
  return end;
}

std::string PathEnd(const NamespacePath& prefix) {
  const std::string end = prefix.StoredEnd();
  return end.empty() ? TextEnd(kMaxNamespaceNameBytes) : end;
}

std::string KeyEnd(const ItemRange& range) {
  return range.end_key.empty() ? TextEnd(kMaxItemKeyBytes) : range.end_key;
}

// Where the columns of an item begin.
constexpr int kFirst = 1;

absl::StatusOr<Item> DecodeItem(const QueryResult& result, int row, bool with_values) {
  Item item;
  item.key = std::string(result.Text(row, kFirst));
  item.version = result.Int(row, kFirst + 1);
  item.create_us = result.Int(row, kFirst + 2);
  item.update_us = result.Int(row, kFirst + 3);
  item.expire_us = result.Int(row, kFirst + 4);
  item.ttl_us = result.Int(row, kFirst + 5);
  item.content.kind = static_cast<ItemValueKind>(result.Int(row, kFirst + 6));
  item.content.untrusted = result.Text(row, kFirst + 7) == "t";
  item.content.mime_type = std::string(result.Text(row, kFirst + 9));
  item.content.writer = std::string(result.Text(row, kFirst + 10));
  if (!result.IsNull(row, kFirst + 11)) item.content.search = result.Bytes(row, kFirst + 11);
  if (!DecodeVector(result.Bytes(row, kFirst + 13), item.content.vector)) {
    return absl::DataLossError("an item's vector can't be read back");
  }
  if (!with_values) return item;
  item.content.value = result.Bytes(row, kFirst + 14);
  MEMORYD_RETURN_IF_ERROR(CheckItemChecksum(item.key, item.content, result.Int(row, kFirst + 8)));
  return item;
}

NamespaceRow DecodeNamespace(const QueryResult& result, int row, int first) {
  NamespaceRow decoded;
  decoded.generation = std::bit_cast<std::uint64_t>(result.Int(row, first));
  decoded.version = result.Int(row, first + 1);
  decoded.config_version = result.Int(row, first + 2);
  decoded.item_count = result.Int(row, first + 3);
  decoded.item_bytes = result.Int(row, first + 4);
  decoded.vector_size = result.Int(row, first + 5);
  decoded.ttl_us = result.Int(row, first + 6);
  decoded.create_us = result.Int(row, first + 7);
  decoded.update_us = result.Int(row, first + 8);
  decoded.subject = std::string(result.Text(row, first + 9));
  decoded.config = result.Bytes(row, first + 10);
  return decoded;
}

const Query& ListQuery(ItemListOrder order) {
  switch (order) {
    case ItemListOrder::kKey:
      return kListItemsByKey;
    case ItemListOrder::kKeyDescending:
      return kListItemsByKeyDescending;
    case ItemListOrder::kOldestFirst:
      return kListItemsByVersion;
    case ItemListOrder::kNewestFirst:
      return kListItemsByVersionDescending;
  }
  return kListItemsByKey;
}

// The bounds of what a page may have, as the fifth and sixth parameter; further ones are appended.
void AddBounds(const ItemRange& range, Parameters& parameters) {
  std::string& begin = parameters[4];
  std::string& end = parameters[5];
  const bool by_key =
      range.order == ItemListOrder::kKey || range.order == ItemListOrder::kKeyDescending;
  if (!by_key) {
    const bool newest_first = range.order == ItemListOrder::kNewestFirst;
    begin = std::to_string(newest_first ? 0 : range.after_version);
    end = std::to_string(newest_first && range.after_version > 0
                             ? range.after_version
                             : std::numeric_limits<std::int64_t>::max());
    parameters.push_back(range.begin_key);
    parameters.push_back(KeyEnd(range));
    return;
  }
  begin = range.begin_key;
  end = KeyEnd(range);
  if (range.after_key.empty()) return;
  if (range.order == ItemListOrder::kKeyDescending) {
    end = std::min(end, range.after_key);
  } else {
    // The least text behind it that a key can be: none has the character U+0001.
    begin = std::max(begin, range.after_key + '\x01');
  }
}

// Array parameters of keys.
Parameters KeyParameters(std::span<const ItemKey> keys) {
  std::vector<std::string> tenants, namespaces, names;
  for (const ItemKey& key : keys) {
    tenants.push_back(key.name_space.tenant);
    namespaces.push_back(DigestParameter(key.name_space));
    names.push_back(key.key);
  }
  return {ArrayParameter(tenants), ArrayParameter(namespaces), ArrayParameter(names)};
}

}  // namespace

CommitContext PostgresItemStore::Context() {
  const Deadline start = std::chrono::steady_clock::now();
  return {writers_, readers_, dropper_, start + timeout_ * 3 / 5, start + timeout_};
}

absl::StatusOr<QueryResult> PostgresItemStore::Run(const Query& query,
                                                   const Parameters& parameters) {
  return RunItemQuery(readers_, dropper_, query, parameters,
                      std::chrono::steady_clock::now() + timeout_);
}

std::vector<ItemBatchResult> PostgresItemStore::WriteItems(std::span<const ItemBatch> batches,
                                                           std::int64_t now_us) {
  std::vector<ItemBatchResult> results(batches.size());
  std::vector<PendingItems> pending;
  pending.reserve(batches.size());
  for (std::size_t i = 0; i < batches.size(); ++i) pending.push_back({&batches[i], &results[i]});
  const CommitContext context = Context();
  WriteItemBatches(context, std::move(pending), now_us);
  return results;
}

absl::StatusOr<std::vector<std::optional<Item>>> PostgresItemStore::ReadItems(
    std::span<const ItemKey> keys, std::int64_t now_us, bool with_vectors, std::int64_t max_bytes) {
  std::vector<std::optional<Item>> items(keys.size());
  if (keys.empty()) return items;
  const bool one_namespace = std::all_of(keys.begin(), keys.end(), [&keys](const ItemKey& key) {
    return key.name_space == keys.front().name_space;
  });
  Parameters parameters = KeyParameters(keys);
  if (one_namespace) {
    parameters[0] = keys.front().name_space.tenant;
    parameters[1] = DigestParameter(keys.front().name_space);
  }
  parameters.push_back(std::to_string(now_us));
  parameters.push_back(Bool(with_vectors));
  parameters.push_back(std::to_string(max_bytes));
  MEMORYD_ASSIGN_OR_RETURN(const QueryResult found,
                           Run(one_namespace ? kReadItemsOfNamespace : kReadItems, parameters));
  if (found.size() > 0 && found.Int(0, 0) > max_bytes) return ReplyTooLarge();
  for (int row = 0; row < found.size(); ++row) {
    MEMORYD_ASSIGN_OR_RETURN(Item item, DecodeItem(found, row, /*with_values=*/true));
    items[static_cast<std::size_t>(found.Int(row, 1 + kItemColumnCount) - 1)] = std::move(item);
  }
  return items;
}

absl::StatusOr<ItemPage> PostgresItemStore::ListItems(const NamespaceKey& key,
                                                      std::uint64_t generation,
                                                      const ItemRange& range, std::int64_t now_us) {
  const std::int64_t max_items = std::max<std::int64_t>(0, range.max_items);
  const bool sized = range.with_values || range.with_vectors;
  Parameters parameters = {
      key.tenant,
      DigestParameter(key),
      Bits(generation),
      std::to_string(now_us),
      "",
      "",
      std::to_string(max_items + 1),
      std::to_string(sized ? range.max_bytes : std::numeric_limits<std::int64_t>::max()),
      Bool(range.with_values),
      Bool(range.with_vectors)};
  AddBounds(range, parameters);
  MEMORYD_ASSIGN_OR_RETURN(const QueryResult found, Run(ListQuery(range.order), parameters));
  ItemPage page;
  for (int row = 0; row < found.size(); ++row) {
    if (row >= max_items) break;
    MEMORYD_ASSIGN_OR_RETURN(Item item, DecodeItem(found, row, range.with_values));
    page.items.push_back(std::move(item));
    page.generation = std::bit_cast<std::uint64_t>(found.Int(row, kFirst + kItemColumnCount));
  }
  page.more = found.size() > 0 && found.Int(0, 0) > std::ssize(page.items);
  return page;
}

absl::StatusOr<std::vector<std::optional<NamespaceRow>>> PostgresItemStore::FindNamespaces(
    std::span<const NamespaceKey> keys) {
  std::vector<std::optional<NamespaceRow>> rows(keys.size());
  if (keys.empty()) return rows;
  std::vector<std::string> tenants, namespaces;
  for (const NamespaceKey& key : keys) {
    tenants.push_back(key.tenant);
    namespaces.push_back(DigestParameter(key));
  }
  MEMORYD_ASSIGN_OR_RETURN(
      const QueryResult found,
      Run(kFindNamespaces, {ArrayParameter(tenants), ArrayParameter(namespaces)}));
  for (int row = 0; row < found.size(); ++row) {
    rows[static_cast<std::size_t>(found.Int(row, 0) - 1)] = DecodeNamespace(found, row, 1);
  }
  return rows;
}

absl::StatusOr<std::vector<ListedNamespace>> PostgresItemStore::ListNamespaces(
    std::string_view tenant, const NamespacePath& prefix, std::string_view after,
    std::string_view subject, std::int64_t max_namespaces) {
  Parameters parameters = {std::string(tenant), std::string(after), prefix.stored(),
                           PathEnd(prefix),
                           std::to_string(std::max<std::int64_t>(0, max_namespaces))};
  if (!subject.empty()) parameters.emplace_back(subject);
  MEMORYD_ASSIGN_OR_RETURN(
      const QueryResult found,
      Run(subject.empty() ? kListNamespaces : kListSubjectNamespaces, parameters));
  std::vector<ListedNamespace> listed;
  for (int row = 0; row < found.size(); ++row) {
    MEMORYD_ASSIGN_OR_RETURN(NamespacePath path,
                             NamespacePath::FromStored(found.Text(row, kNamespaceColumnCount)));
    listed.push_back({std::move(path), DecodeNamespace(found, row, 0)});
  }
  return listed;
}

absl::StatusOr<bool> PostgresItemStore::WriteNamespace(const NamespaceKey& key,
                                                       const NamespaceChange& change,
                                                       std::int64_t now_us) {
  return WriteNamespaceRow(Context(), key, change, now_us);
}

absl::StatusOr<DeletedNamespace> PostgresItemStore::DeleteNamespace(
    const NamespaceKey& key, const NamespaceDeletion& deletion, std::int64_t now_us) {
  return DeleteNamespaceRow(Context(), key, deletion, now_us);
}

absl::StatusOr<std::optional<StagedNamespace>> PostgresItemStore::StageNamespace(
    const NamespaceKey& key, std::int64_t now_us) {
  return StageNamespaceRow(Context(), key, now_us);
}

absl::StatusOr<bool> PostgresItemStore::StageItems(const StagedNamespace& staged,
                                                   std::span<const Item> items,
                                                   std::int64_t now_us) {
  return StageItemRows(Context(), staged, items, now_us);
}

absl::StatusOr<bool> PostgresItemStore::PublishNamespace(const StagedNamespace& staged,
                                                         const NamespaceRow& row) {
  return PublishNamespaceRow(Context(), staged, row);
}

absl::Status PostgresItemStore::DropNamespace(const StagedNamespace& staged) {
  return DropStagedNamespace(Context(), staged);
}

absl::StatusOr<std::vector<std::optional<ItemRequestRecord>>> PostgresItemStore::FindItemRequests(
    const NamespaceKey& key, std::span<const std::string> request_ids) {
  const CommitContext context = Context();
  return ReadItemRequests(context, key, request_ids);
}

absl::Status PostgresItemStore::TouchItems(std::span<const ItemTouch> touches) {
  if (touches.empty()) return absl::OkStatus();
  std::vector<ItemKey> keys;
  std::vector<std::string> versions, times;
  for (const ItemTouch& touch : touches) {
    keys.push_back(touch.key);
    versions.push_back(std::to_string(touch.version));
    times.push_back(std::to_string(touch.expire_us));
  }
  Parameters parameters = KeyParameters(keys);
  parameters.push_back(ArrayParameter(versions));
  parameters.push_back(ArrayParameter(times));
  return Run(kTouchItems, parameters).status();
}

absl::StatusOr<ItemUsage> PostgresItemStore::ReadItemUsage(std::string_view tenant) {
  MEMORYD_ASSIGN_OR_RETURN(const QueryResult usage, Run(kReadItemUsage, {std::string(tenant)}));
  return ItemUsage{usage.Int(0, 0), usage.Int(0, 1), usage.Int(0, 2)};
}

absl::StatusOr<std::int64_t> PostgresItemStore::PurgeGarbage(std::int64_t max_rows) {
  MEMORYD_ASSIGN_OR_RETURN(const QueryResult garbage, Run(kListItemGarbage, {}));
  if (garbage.size() == 0) return 0;
  const Parameters key = {std::string(garbage.Text(0, 0)), BytesParameter(garbage.Bytes(0, 1)),
                          std::string(garbage.Text(0, 2))};
  Parameters parameters = key;
  parameters.push_back(std::to_string(max_rows));
  MEMORYD_ASSIGN_OR_RETURN(const QueryResult gone, Run(kPurgeGarbageItems, parameters));
  if (gone.Int(0, 0) > 0) return gone.Int(0, 0);
  MEMORYD_RETURN_IF_ERROR(Run(kDropItemGarbage, key).status());
  return 1;
}

absl::StatusOr<std::int64_t> PostgresItemStore::PurgeItems(std::int64_t now_us,
                                                           std::int64_t keep_us,
                                                           std::int64_t max_rows) {
  std::int64_t deleted = 0;
  while (deleted < max_rows) {
    const std::int64_t rows = std::min(kPurgeStepRows, max_rows - deleted);
    const std::string limit = std::to_string(rows);
    MEMORYD_ASSIGN_OR_RETURN(const QueryResult expired,
                             Run(kPurgeExpiredItems, {std::to_string(now_us), limit}));
    std::int64_t gone = expired.Int(0, 0);
    if (gone == 0) {
      MEMORYD_ASSIGN_OR_RETURN(
          const QueryResult staged,
          Run(kPurgeStaging, {std::to_string(StagingTime(now_us - kStagedUs)), limit}));
      gone = staged.Int(0, 0);
    }
    if (gone == 0) {
      MEMORYD_ASSIGN_OR_RETURN(gone, PurgeGarbage(rows));
    }
    if (gone == 0) {
      MEMORYD_ASSIGN_OR_RETURN(const QueryResult requests,
                               Run(kPurgeItemRequests, {std::to_string(now_us - keep_us), limit}));
      gone = requests.affected();
    }
    if (gone == 0) break;
    deleted += gone;
  }
  return deleted;
}

}  // namespace memoryd
