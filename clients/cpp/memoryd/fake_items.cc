#include "memoryd/fake_items.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/time/time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
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

absl::StatusOr<v1::ItemBatchOutcome> FakeItems::Again(const Answered& known,
                                                      const v1::ItemBatch& batch) {
  if (known.request != batch.SerializeAsString()) {
    return Refusal(absl::StatusCode::kAlreadyExists, "request_id: was used for another request",
                   "REQUEST_ID_REUSED");
  }
  v1::ItemBatchOutcome outcome = known.outcome;
  outcome.set_replayed(true);
  return outcome;
}

v1::GetItemResponse FakeItems::Read(const v1::ItemGet& get, Namespace* space, absl::Time now) {
  v1::GetItemResponse got;
  v1::Item* const item = Live(space, get.key(), now);
  if (item == nullptr) return got;
  const bool refresh = get.has_refresh_ttl() ? get.refresh_ttl() : space->config.refresh_ttl();
  if (refresh) BeginTtl(*item, now);
  *got.mutable_item() = Returned(*item, get.with_vector());
  return got;
}

absl::StatusOr<v1::ItemBatchOutcome> FakeItems::Do(const v1::ItemBatch& batch, absl::Time now) {
  const Path path(batch.namespace_().begin(), batch.namespace_().end());
  const std::pair<Path, std::string> id(path, batch.request_id());
  if (const auto known = answered_.find(id); batch.has_request_id() && known != answered_.end()) {
    return Again(known->second, batch);
  }
  Namespace* space = Found(path);
  if (absl::Status status = Check(batch, space, now); !status.ok()) return status;
  v1::ItemBatchOutcome outcome;
  for (int i = 0; i < batch.operations_size(); ++i) outcome.add_results();
  // Reads see the state before the writes.
  for (int i = 0; i < batch.operations_size(); ++i) {
    const v1::ItemOperation& operation = batch.operations(i);
    if (!operation.has_get()) continue;
    *outcome.mutable_results(i)->mutable_get() = Read(operation.get(), space, now);
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

std::vector<v1::Item*> FakeItems::Sorted(const v1::ListItemsRequest& request, Namespace* space,
                                         absl::Time now) {
  std::vector<v1::Item*> items;
  if (space == nullptr) return items;
  for (const auto& [key, stored] : space->items) {
    if (!absl::StartsWith(key, request.key_prefix()) || key < request.start_key()) continue;
    if (!request.end_key().empty() && key >= request.end_key()) continue;
    if (v1::Item* const item = Live(space, key, now); item != nullptr) items.push_back(item);
  }
  std::sort(items.begin(), items.end(), [&request](const v1::Item* left, const v1::Item* right) {
    return IsBehind(*right, *left, request.order());
  });
  return items;
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
  std::vector<v1::Item*> items = Sorted(request, space, now);
  if (generation != 0) {
    std::erase_if(items,
                  [&](const v1::Item* item) { return !IsBehind(*item, last, request.order()); });
  }
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

}  // namespace memoryd::client
