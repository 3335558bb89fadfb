// Requests about items -> what the core takes. After this, bad input can't exist.
#ifndef MEMORYD_SERVER_WIRE_CONVERT_ITEM_H_
#define MEMORYD_SERVER_WIRE_CONVERT_ITEM_H_

#include <google/protobuf/repeated_field.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/field_path.h"
#include "core/items/namespace_config.h"
#include "core/items/namespace_path.h"
#include "core/lifecycle/namespace_import.h"
#include "core/reads/item_reads.h"
#include "core/storage/item_store.h"
#include "memoryd/v1/item_service.pb.h"
#include "server/wire/convert.h"

namespace memoryd {

inline constexpr int kMaxBatches = 1000;
inline constexpr int kMaxOperationsOfBatch = 1000;
inline constexpr int kMaxOperations = 10'000;
inline constexpr int kMaxImportedItems = 1000;
// How the MIME types of JSON, and of bytes without one, are shown.
inline constexpr char kJsonType[] = "application/json";
inline constexpr char kOctetsType[] = "application/octet-stream";

using Names = google::protobuf::RepeatedPtrField<std::string>;

// The path in a request's `field`. INVALID_ARGUMENT names the element.
absl::StatusOr<NamespacePath> PathFromProto(std::string_view field, const Names& names);
absl::StatusOr<NamespacePath> PrefixFromProto(std::string_view field, const Names& names);

// What the message at `field` writes; its texts are moved out. A value may have `item_bytes`.
absl::StatusOr<ItemWrite> FromProto(const FieldPath& field, v1::ItemPut& put,
                                    const Provenance& from, std::size_t item_bytes);
absl::StatusOr<ItemWrite> FromProto(const FieldPath& field, const v1::ItemDelete& deletion);
absl::StatusOr<ItemGet> FromProto(const FieldPath& field, const v1::ItemGet& get,
                                  const NamespaceKey& key);

// PERMISSION_DENIED `SUBJECT_NOT_GRANTED` when a caller of this subject, empty for any, asks for a
// namespace of another.
absl::Status CheckSubject(const NamespaceSettings& settings, std::string_view subject);

// Absent fields say nothing.
absl::StatusOr<NamespaceSettings> FromProto(const FieldPath& field,
                                            const v1::NamespaceConfig& config);

// A batch, sorted by what is done with it.
struct CheckedBatch {
  ItemBatch batch;
  std::vector<ItemGet> gets;
  NamespaceSettings settings;
  // By operation, whether it is a get; these and the writes stand in the order of the operations.
  std::vector<bool> is_get;
  // By write, whether it is a put. The batch itself may be gone when that is asked.
  std::vector<bool> is_put;
  std::size_t byte_size = 0;  // Of the request.
};

// Checks `batch` and moves its texts out. Field names are those of a call of its own; an error that
// is one operation's has the value `operation`. A value may have `item_bytes`. Of a caller of one
// subject the batch has that; PERMISSION_DENIED `SUBJECT_NOT_GRANTED` when its configuration has
// another.
absl::StatusOr<CheckedBatch> FromProto(v1::ItemBatch& batch, const ItemCaller& caller,
                                       const Provenance& from, std::size_t item_bytes);

// Whether a batch writes, or reads, anything.
bool Writes(const v1::ItemBatch& batch);
bool Reads(const v1::ItemBatch& batch);

// What is listed, but for the page token and what is bound to it.
absl::StatusOr<ItemListRequest> FromProto(const v1::ListItemsRequest& request,
                                          const ItemCaller& caller, std::int64_t page_size);
absl::StatusOr<ItemSearchRequest> FromProto(const v1::SearchItemsRequest& request,
                                            const ItemCaller& caller);
// A caller of one subject lists that: PERMISSION_DENIED `SUBJECT_NOT_GRANTED` when it asks for
// another.
absl::StatusOr<NamespaceListRequest> FromProto(const v1::ListNamespacesRequest& request,
                                               const ItemCaller& caller, std::int64_t page_size);

// What an import brings; its texts are moved out. `now_us` stands for times that are not given.
absl::StatusOr<std::vector<Item>> FromProto(v1::ImportNamespaceItems& items, std::int64_t now_us,
                                            std::size_t item_bytes);
absl::StatusOr<NamespaceImportRequest> FromProto(const v1::ImportNamespaceBegin& begin,
                                                 std::string_view tenant);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_WIRE_CONVERT_ITEM_H_
