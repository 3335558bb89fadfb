// The items of a FakeConnection.
#ifndef MEMORYD_FAKE_ITEMS_H_
#define MEMORYD_FAKE_ITEMS_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "memoryd/v1/item_service.pb.h"

namespace memoryd::client {

// Does the RPCs of ItemService in memory; FakeConnection says how they differ from memoryd's. Each
// call happens at the time `now`. One thread at a time.
class FakeItems {
 public:
  absl::StatusOr<v1::PutItemResponse> Put(const v1::PutItemRequest& request, absl::Time now);
  absl::StatusOr<v1::GetItemResponse> Get(const v1::GetItemRequest& request, absl::Time now);
  absl::StatusOr<v1::DeleteItemResponse> Delete(const v1::DeleteItemRequest& request,
                                                absl::Time now);
  absl::StatusOr<v1::ListItemsResponse> List(const v1::ListItemsRequest& request, absl::Time now);
  absl::StatusOr<v1::SearchItemsResponse> Search(const v1::SearchItemsRequest& request,
                                                 absl::Time now);
  absl::StatusOr<v1::BatchItemsResponse> Batch(const v1::BatchItemsRequest& request,
                                               absl::Time now);
  absl::StatusOr<v1::GetNamespaceResponse> GetNamespace(const v1::GetNamespaceRequest& request);
  absl::StatusOr<v1::UpdateNamespaceResponse> UpdateNamespace(
      const v1::UpdateNamespaceRequest& request, absl::Time now);
  absl::StatusOr<v1::ListNamespacesResponse> ListNamespaces(
      const v1::ListNamespacesRequest& request);
  absl::StatusOr<v1::CopyNamespaceResponse> CopyNamespace(const v1::CopyNamespaceRequest& request,
                                                          absl::Time now);
  absl::StatusOr<v1::DeleteNamespaceResponse> DeleteNamespace(
      const v1::DeleteNamespaceRequest& request);

 private:
  using Path = std::vector<std::string>;
  struct Namespace {
    v1::NamespaceConfig config;
    std::map<std::string, v1::Item> items;
    std::int64_t generation = 0;
    std::int64_t version = 0;
    int vector_size = 0;
    absl::Time create_time;
    absl::Time update_time;
  };
  struct Answered {
    std::string request;
    v1::ItemBatchOutcome outcome;
  };

  // Does a batch whole or not at all, or repeats what is kept under its request_id.
  absl::StatusOr<v1::ItemBatchOutcome> Do(const v1::ItemBatch& batch, absl::Time now);
  // Returns why the batch can't be stored; `space` may be null.
  static absl::Status Check(const v1::ItemBatch& batch, Namespace* space, absl::Time now);
  // The answer that is kept of the batch, unless it was of another one.
  static absl::StatusOr<v1::ItemBatchOutcome> Again(const Answered& known,
                                                    const v1::ItemBatch& batch);
  static v1::GetItemResponse Read(const v1::ItemGet& get, Namespace* space, absl::Time now);
  // The items that `request` asks for, without regard to its page; `space` may be null.
  static std::vector<v1::Item*> Sorted(const v1::ListItemsRequest& request, Namespace* space,
                                       absl::Time now);
  v1::ItemWrite Store(const v1::ItemPut& put, const Path& path, Namespace& space, absl::Time now);
  Namespace& Made(const Path& path, absl::Time now);
  Namespace* Found(const Path& path);
  static v1::Item* Live(Namespace* space, const std::string& key, absl::Time now);
  static v1::Namespace Described(const Path& path, const Namespace& space);
  // The namespaces at `path` and, if `recursive`, below it.
  std::vector<Path> At(const Path& path, bool recursive) const;

  std::map<Path, Namespace> namespaces_;
  // By namespace and request_id.
  std::map<std::pair<Path, std::string>, Answered> answered_;
  // Versions are counted over all namespaces, so that none is used twice.
  std::int64_t versions_ = 0;
};

}  // namespace memoryd::client

#endif  // MEMORYD_FAKE_ITEMS_H_
