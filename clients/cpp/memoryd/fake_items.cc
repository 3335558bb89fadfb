#include "memoryd/fake_items.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/time/time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "memoryd/fake_item_rules.h"

namespace memoryd::client {

using fake_items::Apply;
using fake_items::Bad;
using fake_items::BeginTtl;
using fake_items::CheckBatch;
using fake_items::CheckPath;
using fake_items::DifferenceOf;
using fake_items::IsBehind;
using fake_items::IsBelow;
using fake_items::Matches;
using fake_items::Page;
using fake_items::PageOf;
using fake_items::ReadToken;
using fake_items::Refusal;
using fake_items::Returned;
using fake_items::SetTime;
using fake_items::TokenOf;
using fake_items::ToTime;
using fake_items::ValueOf;

FakeItems::Namespace* FakeItems::Found(const Path& path) {
  const auto found = namespaces_.find(path);
  return found == namespaces_.end() ? nullptr : &found->second;
}

FakeItems::Namespace& FakeItems::Made(const Path& path, absl::Time now) {
  const auto [made, is_new] = namespaces_.try_emplace(path);
  Namespace& space = made->second;
  if (is_new) {
    space.generation = space.version = ++versions_;
    space.create_time = space.update_time = now;
    space.config.set_refresh_ttl(true);
    space.config.mutable_search()->add_fields("$");
  }
  return space;
}

v1::Item* FakeItems::Live(Namespace* space, const std::string& key, absl::Time now) {
  if (space == nullptr) return nullptr;
  const auto found = space->items.find(key);
  if (found == space->items.end()) return nullptr;
  v1::Item& item = found->second;
  return item.has_expire_time() && ToTime(item.expire_time()) <= now ? nullptr : &item;
}

absl::Status FakeItems::Check(const v1::ItemBatch& batch, Namespace* space, absl::Time now) {
  if (space != nullptr) {
    if (const std::string name = DifferenceOf(batch.config(), space->config); !name.empty()) {
      return Refusal(absl::StatusCode::kFailedPrecondition,
                     absl::StrCat("config.", name, ": differs from the existing namespace"),
                     "CONFIG_MISMATCH");
    }
  }
  int vector_size = space == nullptr ? 0 : space->vector_size;
  for (int i = 0; i < batch.operations_size(); ++i) {
    const v1::ItemOperation& operation = batch.operations(i);
    if (operation.has_get()) continue;
    const bool is_put = operation.has_put();
    const std::string& key = is_put ? operation.put().key() : operation.delete_().key();
    const v1::Item* const item = Live(space, key, now);
    const std::int64_t version = item == nullptr ? 0 : item->version();
    const bool has_expected = is_put ? operation.put().has_expected_version()
                                     : operation.delete_().has_expected_version();
    const std::int64_t expected =
        is_put ? operation.put().expected_version() : operation.delete_().expected_version();
    if (has_expected && expected != version) {
      return Refusal(absl::StatusCode::kAborted, "expected_version is not the item's version",
                     "VERSION_MISMATCH",
                     {{"operation", absl::StrCat(i)}, {"version", absl::StrCat(version)}});
    }
    if (!is_put || operation.put().vector().empty()) continue;
    if (vector_size == 0) vector_size = operation.put().vector_size();
    if (operation.put().vector_size() != vector_size) {
      return Refusal(absl::StatusCode::kInvalidArgument,
                     "vector: has another size than the namespace's vectors", "VECTOR_SIZE",
                     {{"operation", absl::StrCat(i)}});
    }
  }
  return absl::OkStatus();
}

v1::ItemWrite FakeItems::Store(const v1::ItemPut& put, const Path& path, Namespace& space,
                               absl::Time now) {
  v1::Item item;
  item.mutable_namespace_()->Assign(path.begin(), path.end());
  item.set_key(put.key());
  if (put.has_json()) {
    item.set_json(put.json());
    item.set_mime_type("application/json");
  } else {
    item.set_bytes_value(put.bytes_value());
    item.set_mime_type(put.mime_type().empty() ? "application/octet-stream" : put.mime_type());
  }
  const v1::Item* const before = Live(&space, put.key(), now);
  if (before != nullptr) {
    *item.mutable_create_time() = before->create_time();
  } else {
    SetTime(now, *item.mutable_create_time());
  }
  SetTime(now, *item.mutable_update_time());
  if (put.has_ttl()) {
    *item.mutable_ttl() = put.ttl();
  } else if (!put.without_ttl() && space.config.has_default_ttl()) {
    *item.mutable_ttl() = space.config.default_ttl();
  }
  BeginTtl(item, now);
  if (put.has_search()) *item.mutable_search() = put.search();
  *item.mutable_vector() = put.vector();
  if (!put.vector().empty()) space.vector_size = put.vector_size();
  item.set_version(++versions_);
  space.version = versions_;
  space.update_time = now;

  v1::ItemWrite write;
  write.set_version(item.version());
  *write.mutable_create_time() = item.create_time();
  *write.mutable_update_time() = item.update_time();
  if (item.has_expire_time()) *write.mutable_expire_time() = item.expire_time();
  space.items[put.key()] = std::move(item);
  return write;
}

absl::StatusOr<v1::ItemBatchOutcome> FakeItems::Do(const v1::ItemBatch& batch, absl::Time now) {
  const Path path(batch.namespace_().begin(), batch.namespace_().end());
  const std::pair<Path, std::string> id(path, batch.request_id());
  if (batch.has_request_id()) {
    if (const auto known = answered_.find(id); known != answered_.end()) {
      if (known->second.request != batch.SerializeAsString()) {
        return Refusal(absl::StatusCode::kAlreadyExists, "request_id: was used for another request",
                       "REQUEST_ID_REUSED");
      }
      v1::ItemBatchOutcome outcome = known->second.outcome;
      outcome.set_replayed(true);
      return outcome;
    }
  }
  Namespace* space = Found(path);
  if (absl::Status status = Check(batch, space, now); !status.ok()) return status;
  v1::ItemBatchOutcome outcome;
  // Reads see the state before the writes.
  for (const v1::ItemOperation& operation : batch.operations()) {
    v1::ItemOperationResult& result = *outcome.add_results();
    if (!operation.has_get()) continue;
    v1::GetItemResponse& got = *result.mutable_get();
    v1::Item* const item = Live(space, operation.get().key(), now);
    if (item == nullptr) continue;
    const bool refresh = operation.get().has_refresh_ttl() ? operation.get().refresh_ttl()
                                                           : space->config.refresh_ttl();
    if (refresh) BeginTtl(*item, now);
    *got.mutable_item() = Returned(*item, operation.get().with_vector());
  }
  bool writes = false;
  for (int i = 0; i < batch.operations_size(); ++i) {
    const v1::ItemOperation& operation = batch.operations(i);
    v1::ItemOperationResult& result = *outcome.mutable_results(i);
    writes |= !operation.has_get();
    if (operation.has_put()) {
      if (space == nullptr) {
        space = &Made(path, now);
        Apply(batch.config(), space->config);
      }
      *result.mutable_put() = Store(operation.put(), path, *space, now);
    } else if (operation.has_delete_()) {
      const std::string& key = operation.delete_().key();
      result.mutable_delete_()->set_existed(Live(space, key, now) != nullptr);
      if (space != nullptr) space->items.erase(key);
    }
  }
  if (batch.has_request_id() && writes) {
    answered_[id] = {.request = batch.SerializeAsString(), .outcome = outcome};
  }
  return outcome;
}

absl::StatusOr<v1::PutItemResponse> FakeItems::Put(const v1::PutItemRequest& request,
                                                   absl::Time now) {
  v1::ItemBatch batch;
  *batch.mutable_namespace_() = request.namespace_();
  *batch.add_operations()->mutable_put() = request.put();
  if (request.has_request_id()) batch.set_request_id(request.request_id());
  if (request.has_config()) *batch.mutable_config() = request.config();
  if (absl::Status status = CheckBatch("", batch); !status.ok()) return status;
  const absl::StatusOr<v1::ItemBatchOutcome> outcome = Do(batch, now);
  if (!outcome.ok()) return outcome.status();
  v1::PutItemResponse reply;
  *reply.mutable_write() = outcome->results(0).put();
  reply.set_replayed(outcome->replayed());
  return reply;
}

absl::StatusOr<v1::GetItemResponse> FakeItems::Get(const v1::GetItemRequest& request,
                                                   absl::Time now) {
  v1::ItemBatch batch;
  *batch.mutable_namespace_() = request.namespace_();
  *batch.add_operations()->mutable_get() = request.get();
  if (absl::Status status = CheckBatch("", batch); !status.ok()) return status;
  const absl::StatusOr<v1::ItemBatchOutcome> outcome = Do(batch, now);
  if (!outcome.ok()) return outcome.status();
  return outcome->results(0).get();
}

absl::StatusOr<v1::DeleteItemResponse> FakeItems::Delete(const v1::DeleteItemRequest& request,
                                                         absl::Time now) {
  v1::ItemBatch batch;
  *batch.mutable_namespace_() = request.namespace_();
  *batch.add_operations()->mutable_delete_() = request.delete_();
  if (request.has_request_id()) batch.set_request_id(request.request_id());
  if (absl::Status status = CheckBatch("", batch); !status.ok()) return status;
  const absl::StatusOr<v1::ItemBatchOutcome> outcome = Do(batch, now);
  if (!outcome.ok()) return outcome.status();
  v1::DeleteItemResponse reply = outcome->results(0).delete_();
  reply.set_replayed(outcome->replayed());
  return reply;
}

absl::StatusOr<v1::BatchItemsResponse> FakeItems::Batch(const v1::BatchItemsRequest& request,
                                                        absl::Time now) {
  v1::BatchItemsResponse reply;
  for (int i = 0; i < request.batches_size(); ++i) {
    const std::string above = absl::StrCat("batches[", i, "].");
    if (absl::Status status = CheckBatch(above, request.batches(i)); !status.ok()) return status;
  }
  for (const v1::ItemBatch& batch : request.batches()) {
    absl::StatusOr<v1::ItemBatchOutcome> outcome = Do(batch, now);
    if (outcome.ok()) {
      *reply.add_outcomes() = *std::move(outcome);
    } else {
      *reply.add_outcomes()->mutable_error() = fake_items::ErrorOf(outcome.status());
    }
  }
  return reply;
}

absl::StatusOr<v1::ListItemsResponse> FakeItems::List(const v1::ListItemsRequest& request,
                                                      absl::Time now) {
  if (absl::Status status = CheckPath("namespace", request.namespace_()); !status.ok()) {
    return status;
  }
  Namespace* const space = Found({request.namespace_().begin(), request.namespace_().end()});
  std::int64_t generation = 0;
  v1::Item last;
  if (!request.page_token().empty()) {
    if (absl::Status status = ReadToken(request.page_token(), generation, last); !status.ok()) {
      return status;
    }
    if (space == nullptr || space->generation != generation) {
      return Refusal(absl::StatusCode::kAborted, "page_token: the namespace was deleted",
                     "NAMESPACE_REPLACED");
    }
  }
  std::vector<v1::Item*> items;
  if (space != nullptr) {
    for (auto& [key, stored] : space->items) {
      v1::Item* const item = Live(space, key, now);
      if (item == nullptr || !absl::StartsWith(key, request.key_prefix())) continue;
      if (key < request.start_key()) continue;
      if (!request.end_key().empty() && key >= request.end_key()) continue;
      if (generation == 0 || IsBehind(*item, last, request.order())) items.push_back(item);
    }
  }
  std::sort(items.begin(), items.end(), [&request](const v1::Item* left, const v1::Item* right) {
    return IsBehind(*right, *left, request.order());
  });
  const absl::StatusOr<Page> page = PageOf(request.page_size(), 0, items.size());
  if (!page.ok()) return page.status();
  v1::ListItemsResponse reply;
  for (std::size_t i = 0; i < page->end; ++i) {
    if (request.refresh_ttl()) BeginTtl(*items[i], now);
    v1::Item& item = *reply.add_items();
    item = Returned(*items[i], request.with_vectors());
    if (request.keys_only()) item.clear_value();
  }
  if (page->end < items.size()) {
    reply.set_next_page_token(TokenOf(space->generation, *items[page->end - 1]));
  }
  return reply;
}

absl::StatusOr<v1::SearchItemsResponse> FakeItems::Search(const v1::SearchItemsRequest& request,
                                                          absl::Time now) {
  if (request.limit() < 0) return Bad("limit", "is negative");
  if (request.offset() < 0) return Bad("offset", "is negative");
  constexpr std::size_t kUsual = 10;
  const auto offset = static_cast<std::size_t>(request.offset());
  const std::size_t most =
      request.limit() == 0 ? kUsual : static_cast<std::size_t>(std::min(request.limit(), 1000));
  const std::vector<std::string> words =
      absl::StrSplit(request.query(), absl::ByAnyChar(" \t\r\n"), absl::SkipEmpty());
  const Path prefix(request.namespace_prefix().begin(), request.namespace_prefix().end());
  struct Hit {
    v1::Item* item;
    bool answers;
    bool refresh;
  };
  std::vector<Hit> hits;
  for (auto& [path, space] : namespaces_) {
    if (!IsBelow(path, prefix)) continue;
    const bool refresh =
        request.has_refresh_ttl() ? request.refresh_ttl() : space.config.refresh_ttl();
    for (auto& [key, stored] : space.items) {
      v1::Item* const item = Live(&space, key, now);
      if (item == nullptr) continue;
      const bool answers = !words.empty() &&
                           std::all_of(words.begin(), words.end(), [item](const std::string& word) {
                             return item->has_json() && absl::StrContains(ValueOf(*item), word);
                           });
      hits.push_back({item, answers, refresh});
    }
  }
  std::sort(hits.begin(), hits.end(), [](const Hit& left, const Hit& right) {
    if (left.answers != right.answers) return left.answers;
    return left.item->version() > right.item->version();
  });
  v1::SearchItemsResponse reply;
  for (std::size_t i = offset; i < std::min(hits.size(), offset + most); ++i) {
    if (hits[i].refresh) BeginTtl(*hits[i].item, now);
    v1::ItemResult& result = *reply.add_results();
    *result.mutable_item() = Returned(*hits[i].item, request.with_vectors());
    if (hits[i].answers) result.set_score(1);
  }
  return reply;
}

v1::Namespace FakeItems::Described(const Path& path, const Namespace& space) {
  v1::Namespace described;
  described.mutable_namespace_()->Assign(path.begin(), path.end());
  *described.mutable_config() = space.config;
  std::int64_t bytes = 0;
  for (const auto& [key, item] : space.items) {
    bytes +=
        static_cast<std::int64_t>(key.size() + ValueOf(item).size() +
                                  static_cast<std::size_t>(item.vector_size()) * sizeof(float));
  }
  described.set_item_count(static_cast<std::int64_t>(space.items.size()));
  described.set_item_bytes(bytes);
  described.set_vector_size(space.vector_size);
  described.set_version(space.version);
  SetTime(space.create_time, *described.mutable_create_time());
  SetTime(space.update_time, *described.mutable_update_time());
  return described;
}

absl::StatusOr<v1::GetNamespaceResponse> FakeItems::GetNamespace(
    const v1::GetNamespaceRequest& request) {
  if (absl::Status status = CheckPath("namespace", request.namespace_()); !status.ok()) {
    return status;
  }
  const Path path(request.namespace_().begin(), request.namespace_().end());
  const Namespace* const space = Found(path);
  if (space == nullptr) {
    return Refusal(absl::StatusCode::kNotFound, "there is no such namespace",
                   "NAMESPACE_NOT_FOUND");
  }
  v1::GetNamespaceResponse reply;
  *reply.mutable_namespace_() = Described(path, *space);
  return reply;
}

absl::StatusOr<v1::UpdateNamespaceResponse> FakeItems::UpdateNamespace(
    const v1::UpdateNamespaceRequest& request, absl::Time now) {
  if (absl::Status status = CheckPath("namespace", request.namespace_()); !status.ok()) {
    return status;
  }
  const Path path(request.namespace_().begin(), request.namespace_().end());
  Namespace& space = Made(path, now);
  Apply(request.config(), space.config);
  space.version = ++versions_;
  space.update_time = now;
  v1::UpdateNamespaceResponse reply;
  *reply.mutable_namespace_() = Described(path, space);
  return reply;
}

absl::StatusOr<v1::ListNamespacesResponse> FakeItems::ListNamespaces(
    const v1::ListNamespacesRequest& request) {
  if (request.max_depth() < 0 || request.max_depth() > fake_items::kMostNames) {
    return Bad("max_depth", "is not 0 to 16");
  }
  const auto depth = static_cast<std::size_t>(request.max_depth());
  std::map<Path, v1::Namespace> listed;
  for (const auto& [path, space] : namespaces_) {
    if (space.items.empty()) continue;
    if (!request.subject().empty() && space.config.subject() != request.subject()) continue;
    if (!std::all_of(request.matches().begin(), request.matches().end(),
                     [&path = path](const auto& match) { return Matches(match, path); })) {
      continue;
    }
    if (depth == 0) {
      listed[path] = Described(path, space);
      continue;
    }
    Path cut = path;
    cut.resize(std::min(depth, path.size()));
    listed[cut].mutable_namespace_()->Assign(cut.begin(), cut.end());
  }
  std::size_t begin = 0;
  if (!request.page_token().empty() && !absl::SimpleAtoi(request.page_token(), &begin)) {
    return Bad("page_token", "is none of this server's");
  }
  const absl::StatusOr<Page> page = PageOf(request.page_size(), begin, listed.size());
  if (!page.ok()) return page.status();
  v1::ListNamespacesResponse reply;
  auto it = std::next(listed.begin(), static_cast<std::ptrdiff_t>(page->begin));
  for (std::size_t i = page->begin; i < page->end; ++i, ++it) *reply.add_namespaces() = it->second;
  if (page->end < listed.size()) reply.set_next_page_token(absl::StrCat(page->end));
  return reply;
}

std::vector<FakeItems::Path> FakeItems::At(const Path& path, bool recursive) const {
  std::vector<Path> paths;
  for (const auto& [stored, space] : namespaces_) {
    if (stored == path || (recursive && IsBelow(stored, path))) paths.push_back(stored);
  }
  return paths;
}

absl::StatusOr<v1::CopyNamespaceResponse> FakeItems::CopyNamespace(
    const v1::CopyNamespaceRequest& request, absl::Time now) {
  for (const auto& [field, names] : {std::pair("namespace", &request.namespace_()),
                                     std::pair("new_namespace", &request.new_namespace())}) {
    if (absl::Status status = CheckPath(field, *names); !status.ok()) return status;
  }
  const Path source(request.namespace_().begin(), request.namespace_().end());
  const Path target(request.new_namespace().begin(), request.new_namespace().end());
  if (IsBelow(target, source)) return Bad("new_namespace", "is the source or lies below it");
  std::vector<std::pair<Path, Path>> moves;
  for (const Path& from : At(source, request.recursive())) {
    Path to = target;
    to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(source.size()), from.end());
    if (to.size() > fake_items::kMostNames)
      return Bad("new_namespace", "a path would have above 16 names");
    moves.emplace_back(from, std::move(to));
  }
  v1::CopyNamespaceResponse reply;
  for (const auto& [from, to] : moves) {
    const Namespace* const existing = Found(to);
    if (existing != nullptr && !existing->items.empty()) {
      return Refusal(absl::StatusCode::kAlreadyExists, "a namespace at new_namespace has items",
                     "NAMESPACE_EXISTS");
    }
    const Namespace copied = namespaces_.at(from);
    Namespace& space = Made(to, now);
    space.config = copied.config;
    space.config.clear_subject();
    space.vector_size = copied.vector_size;
    for (const auto& [key, stored] : copied.items) {
      if (stored.has_expire_time() && ToTime(stored.expire_time()) <= now) continue;
      v1::Item& item = space.items[key] = stored;
      item.mutable_namespace_()->Assign(to.begin(), to.end());
      item.set_version(++versions_);
      SetTime(now, *item.mutable_create_time());
      SetTime(now, *item.mutable_update_time());
      BeginTtl(item, now);
      reply.set_item_count(reply.item_count() + 1);
    }
    space.version = versions_;
    reply.set_namespace_count(reply.namespace_count() + 1);
  }
  return reply;
}

absl::StatusOr<v1::DeleteNamespaceResponse> FakeItems::DeleteNamespace(
    const v1::DeleteNamespaceRequest& request) {
  if (absl::Status status = CheckPath("namespace", request.namespace_()); !status.ok()) {
    return status;
  }
  v1::DeleteNamespaceResponse reply;
  const Path top(request.namespace_().begin(), request.namespace_().end());
  for (const Path& path : At(top, request.recursive())) {
    const auto items = static_cast<std::int64_t>(namespaces_.at(path).items.size());
    reply.set_item_count(reply.item_count() + items);
    reply.set_namespace_count(reply.namespace_count() + 1);
    namespaces_.erase(path);
  }
  return reply;
}

}  // namespace memoryd::client
