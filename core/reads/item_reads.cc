#include "core/reads/item_reads.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "core/base/status_macros.h"
#include "core/calls/call_end.h"
#include "core/calls/calls.h"
#include "core/items/item.h"
#include "core/items/namespace_config.h"
#include "core/items/namespace_path.h"
#include "core/reads/item_search.h"
#include "core/reads/item_view.h"
#include "core/storage/item_store.h"

namespace memoryd {
namespace {

// What is looked at for one page with a filter.
constexpr std::int64_t kMaxItemsRead = 10'000;
constexpr std::int64_t kMaxBytesRead = std::int64_t{16} << 20;
constexpr std::int64_t kReadAtOnce = 1000;
constexpr std::int64_t kMaxNamespacesRead = 10'000;
constexpr std::int64_t kNamespacesAtOnce = 1000;
// The memory for more is taken before it is read.
constexpr std::int64_t kBytesReadUnasked = std::int64_t{1} << 20;

std::int64_t BytesOf(const ListedNamespace& listed) {
  return static_cast<std::int64_t>(sizeof(listed)) +
         CountedBytes(listed.path, listed.row.subject, listed.row.config);
}

std::int64_t BytesOf(const Item& item) {
  return static_cast<std::int64_t>(sizeof(Item)) + CountedBytes(item.key, item.content);
}

absl::Status NamespaceReplaced() {
  return Error(absl::StatusCode::kAborted, "NAMESPACE_REPLACED",
               "page_token: the namespace was deleted since the page before; begin again");
}

// A namespace is listed by its path alone. All that begin with a path of the full depth are listed
// as that one: what comes `after` is behind them.
void CutTo(std::size_t max_depth, ListedNamespace& listed, std::string& after) {
  if (listed.path.depth() >= max_depth) {
    listed.path = listed.path.Cut(max_depth);
    after = listed.path.StoredEnd();
  }
  listed.row = {};
}

}  // namespace

absl::StatusOr<NamespaceConfig> ConfigOf(const NamespaceRow& row) {
  return NamespaceConfig::FromStored(row.subject, row.ttl_us, row.config);
}

// ---- items by key ----

void ItemReads::Get(ItemCaller caller, std::vector<ItemGet> gets, CallEnd end,
                    Done<ItemsRead> done) {
  const std::string tenant = caller.tenant;
  const auto read = options_.calls->Begin<ItemsRead>(tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  options_.calls->Run(tenant, read,
                      [this, read, caller = std::move(caller), gets = std::move(gets)] {
                        const ItemView view(options_.store, caller.subject);
                        read->Finish(ReadNow(caller.tenant, view, gets));
                      });
}

absl::StatusOr<ItemsRead> ItemReads::ReadNow(const std::string& tenant, const ItemView& view,
                                             const std::vector<ItemGet>& gets) {
  std::vector<ItemKey> keys;
  keys.reserve(gets.size());
  for (const ItemGet& get : gets) keys.push_back(get.key);
  const bool with_vectors =
      std::any_of(gets.begin(), gets.end(), [](const ItemGet& get) { return get.with_vector; });
  ItemsRead result;
  constexpr auto kMostBytes = static_cast<std::int64_t>(kMaxReplyBytes);
  std::int64_t most = kBytesReadUnasked;
  auto items = view.ReadItems(keys, options_.clock->NowUs(), with_vectors, most);
  // In steps, so that a small server can read what it has room for.
  while (most < kMostBytes && ErrorReason(items.status()) == "REPLY_TOO_LARGE") {
    most = std::min(4 * most, kMostBytes);
    result.memory.Release();
    MEMORYD_ASSIGN_OR_RETURN(result.memory,
                             options_.memory->Take(tenant, MemoryUse::kReplies, most));
    items = view.ReadItems(keys, options_.clock->NowUs(), with_vectors, most);
  }
  MEMORYD_ASSIGN_OR_RETURN(result.items, std::move(items));
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < gets.size(); ++i) {
    std::optional<Item>& item = result.items[i];
    if (!item.has_value()) continue;
    bytes += BytesOf(*item);
    if (!gets[i].with_vector) item->content.vector.clear();
  }
  if (result.memory.bytes() > 0) {
    result.memory.Resize(bytes);
  } else {
    MEMORYD_ASSIGN_OR_RETURN(result.memory,
                             options_.memory->Take(tenant, MemoryUse::kReplies, bytes));
  }
  MEMORYD_RETURN_IF_ERROR(Refresh(view, gets, result.items));
  return result;
}

absl::Status ItemReads::Refresh(const ItemView& view, const std::vector<ItemGet>& gets,
                                std::vector<std::optional<Item>>& items) {
  std::vector<std::size_t> timed;
  std::set<NamespaceKey> asked;
  for (std::size_t i = 0; i < gets.size(); ++i) {
    if (!items[i].has_value() || items[i]->ttl_us == 0) continue;
    if (!gets[i].refresh_ttl.value_or(true)) continue;
    timed.push_back(i);
    if (!gets[i].refresh_ttl.has_value()) asked.insert(gets[i].key.name_space);
  }
  if (timed.empty()) return absl::OkStatus();
  const std::vector<NamespaceKey> keys(asked.begin(), asked.end());
  std::set<NamespaceKey> unrefreshed;
  if (!keys.empty()) {
    MEMORYD_ASSIGN_OR_RETURN(const auto rows, view.FindNamespaces(keys));
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (!rows[i].has_value()) continue;
      MEMORYD_ASSIGN_OR_RETURN(const NamespaceConfig config, ConfigOf(*rows[i]));
      if (!config.refresh_ttl) unrefreshed.insert(keys[i]);
    }
  }
  const std::int64_t now_us = options_.clock->NowUs();
  // An item may be asked for twice.
  std::map<std::pair<NamespaceKey, std::string>, ItemTouch> touches;
  for (const std::size_t i : timed) {
    const ItemKey& key = gets[i].key;
    if (!gets[i].refresh_ttl.has_value() && unrefreshed.contains(key.name_space)) continue;
    Item& item = *items[i];
    item.expire_us = now_us + item.ttl_us;
    touches.insert_or_assign({key.name_space, key.key},
                             ItemTouch{key, item.version, item.expire_us});
  }
  if (touches.empty()) return absl::OkStatus();
  std::vector<ItemTouch> touched;
  touched.reserve(touches.size());
  for (auto& [key, touch] : touches) touched.push_back(std::move(touch));
  return view.TouchItems(touched);
}

// ---- pages of items ----

void ItemReads::List(ItemListRequest request, CallEnd end, Done<ItemList> done) {
  const std::string tenant = request.key.tenant;
  const auto read = options_.calls->Begin<ItemList>(tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  options_.calls->Run(
      tenant, read, [this, read, request = std::move(request)] { read->Finish(ListNow(request)); });
}

absl::StatusOr<ItemList> ItemReads::ListNow(const ItemListRequest& request) {
  const ItemView view(options_.store, request.subject);
  ItemList list;
  list.generation = request.generation;
  MEMORYD_ASSIGN_OR_RETURN(
      list.memory,
      options_.memory->Take(request.key.tenant, MemoryUse::kReplies, request.range.max_bytes));
  ItemRange range = request.range;
  range.with_values |= !request.filter.empty();
  if (!request.filter.empty()) range.max_items = kReadAtOnce;
  std::int64_t items_read = 0;
  std::int64_t bytes_read = 0;
  std::int64_t bytes = 0;
  const auto is_full = [&] {
    return std::ssize(list.items) >= request.range.max_items || bytes >= request.range.max_bytes;
  };
  for (bool more = true;
       more && !is_full() && items_read < kMaxItemsRead && bytes_read < kMaxBytesRead;) {
    MEMORYD_ASSIGN_OR_RETURN(ItemPage page, view.ListItems(request.key, list.generation, range,
                                                           options_.clock->NowUs()));
    // Where nothing more is found, the namespace may have been deleted since the page before.
    if (!page.items.empty()) {
      list.generation = page.generation;
    } else if (list.generation != 0) {
      MEMORYD_ASSIGN_OR_RETURN(const auto row, view.FindNamespace(request.key));
      if (!row.has_value() || row->generation != list.generation) return NamespaceReplaced();
    }
    more = page.more && !page.items.empty();
    list.more = more;
    for (Item& item : page.items) {
      if (is_full()) {
        list.more = true;
        break;
      }
      ++items_read;
      bytes_read += BytesOf(item);
      list.after_key = range.after_key = item.key;
      list.after_version = range.after_version = item.version;
      MEMORYD_ASSIGN_OR_RETURN(const bool passes, request.filter.Passes(item.content));
      if (!passes) continue;
      if (!request.range.with_values) item.content.value.clear();
      bytes += BytesOf(item);
      list.items.push_back(std::move(item));
    }
  }
  list.memory.Resize(bytes);
  if (request.refresh_ttl) {
    MEMORYD_RETURN_IF_ERROR(RefreshListed(view, request.key, list.items));
  }
  return list;
}

absl::Status ItemReads::RefreshListed(const ItemView& view, const NamespaceKey& key,
                                      std::vector<Item>& listed) {
  std::vector<ItemGet> gets;
  std::vector<std::optional<Item>> items;
  for (Item& item : listed) {
    gets.push_back({{key, item.key}, true, true});
    items.emplace_back(std::move(item));
  }
  MEMORYD_RETURN_IF_ERROR(Refresh(view, gets, items));
  for (std::size_t i = 0; i < items.size(); ++i) listed[i] = *std::move(items[i]);
  return absl::OkStatus();
}

// ---- searches ----

void ItemReads::Search(ItemSearchRequest request, CallEnd end, Done<ItemsFound> done) {
  const std::string tenant = request.tenant;
  const auto read = options_.calls->Begin<ItemsFound>(tenant, std::move(end), std::move(done),
                                                      std::ssize(request.query));
  if (read == nullptr) return;
  // Admitted, and so bounded in number.
  options_.searchers->Submit(tenant, [this, read, request = std::move(request)] {
    if (read->HasEnded()) return;
    options_.calls->Guarded(read, [&] { read->Finish(SearchNow(request, *read)); });
  });
}

absl::StatusOr<ItemsFound> ItemReads::SearchNow(const ItemSearchRequest& request,
                                                const PendingRead& read) {
  const ItemView view(options_.store, request.subject);
  ItemSearch search(&view, options_.memory, options_.word_vectors, &request,
                    options_.clock->NowUs(), [&read] { return read.finished(); });
  MEMORYD_ASSIGN_OR_RETURN(FoundKeys keys, search.Run());
  std::vector<ItemGet> gets;
  gets.reserve(keys.keys.size());
  for (const FoundKey& found : keys.keys) {
    gets.push_back({found.key, request.refresh_ttl, request.with_vectors});
  }
  ItemsFound result;
  result.filter_limit = keys.filter_limit;
  result.lacks_word_vectors = !request.query.empty() && options_.word_vectors == nullptr;
  if (gets.empty()) return result;
  MEMORYD_ASSIGN_OR_RETURN(ItemsRead items, ReadNow(request.tenant, view, gets));
  result.memory = std::move(items.memory);
  for (std::size_t i = 0; i < gets.size(); ++i) {
    // It may have been deleted, or changed so that it does not pass any more.
    if (!items.items[i].has_value()) continue;
    MEMORYD_ASSIGN_OR_RETURN(const bool passes, request.filter.Passes(items.items[i]->content));
    if (!passes) continue;
    result.items.push_back(
        {gets[i].key.name_space.path, *std::move(items.items[i]), keys.keys[i].score});
  }
  return result;
}

// ---- namespaces ----

void ItemReads::GetNamespace(ItemCaller caller, NamespacePath path, CallEnd end,
                             Done<NamespaceRow> done) {
  const auto read =
      options_.calls->Begin<NamespaceRow>(caller.tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  options_.calls->Run(caller.tenant, read, [this, read, caller, path = std::move(path)] {
    auto row = ItemView(options_.store, caller.subject).FindNamespace({caller.tenant, path});
    if (!row.ok()) {
      read->Finish(row.status());
    } else if (!row->has_value()) {
      read->Finish(NamespaceNotFound());
    } else {
      read->Finish(**std::move(row));
    }
  });
}

void ItemReads::ListNamespaces(NamespaceListRequest request, CallEnd end,
                               Done<NamespaceList> done) {
  const std::string tenant = request.tenant;
  const auto read = options_.calls->Begin<NamespaceList>(tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  options_.calls->Run(tenant, read, [this, read, request = std::move(request)] {
    read->Finish(ListNamespacesNow(request));
  });
}

absl::StatusOr<NamespaceList> ItemReads::ListNamespacesNow(const NamespaceListRequest& request) {
  NamespaceList list;
  list.after = request.after;
  MEMORYD_ASSIGN_OR_RETURN(list.memory,
                           options_.memory->Take(request.tenant, MemoryUse::kReplies, 0));
  std::int64_t read = 0;
  // Most pages are full with the first that there are, and one more says that they go on.
  std::int64_t at_once = std::min(request.max_namespaces + 1, kNamespacesAtOnce);
  for (;; at_once = std::min(2 * at_once, kNamespacesAtOnce)) {
    MEMORYD_ASSIGN_OR_RETURN(std::vector<ListedNamespace> page,
                             options_.store->ListNamespaces(request.tenant, request.filter.begin(),
                                                            list.after, request.subject, at_once));
    read += std::ssize(page);
    for (ListedNamespace& listed : page) {
      // Stands below one that is listed already.
      if (listed.path.stored() <= list.after) continue;
      if (std::ssize(list.namespaces) >= request.max_namespaces) {
        list.more = true;
        return list;
      }
      list.after = listed.path.stored();
      if (listed.row.item_count == 0 && !request.include_empty) continue;
      if (!request.filter.Passes(listed.path)) continue;
      if (request.max_depth > 0) CutTo(request.max_depth, listed, list.after);
      MEMORYD_RETURN_IF_ERROR(list.memory.Grow(BytesOf(listed)));
      list.namespaces.push_back(std::move(listed));
    }
    if (std::ssize(page) < at_once) return list;
    if (read >= kMaxNamespacesRead) {
      list.more = true;
      return list;
    }
  }
}

}  // namespace memoryd
