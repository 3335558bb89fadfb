#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/time/time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "memoryd/fake_item_rules.h"
#include "memoryd/fake_items.h"

namespace memoryd::client {

using fake_items::Apply;
using fake_items::Bad;
using fake_items::BeginTtl;
using fake_items::CheckPath;
using fake_items::IsBelow;
using fake_items::Matches;
using fake_items::Page;
using fake_items::PageOf;
using fake_items::Refusal;
using fake_items::SetTime;
using fake_items::ToTime;
using fake_items::ValueOf;

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
                     [&at = path](const auto& match) { return Matches(match, at); })) {
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
