#include "server/rpc/item_service.h"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/base/utf8_decode.h"
#include "core/items/item.h"
#include "core/items/namespace_path.h"
#include "core/lifecycle/namespace_calls.h"
#include "core/reads/item_reads.h"
#include "core/reads/item_search.h"
#include "core/storage/item_store.h"
#include "core/writes/items/item_call.h"
#include "server/rpc/batch_call.h"
#include "server/rpc/import_stream.h"
#include "server/rpc/item_reply.h"
#include "server/rpc/run_unary.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/write_call.h"
#include "server/wire/convert_item.h"
#include "server/wire/method.h"
#include "server/wire/page_token.h"
#include "server/wire/rpc_call.h"

namespace memoryd {
namespace {

template <typename Request>
using Call = std::shared_ptr<ParsedCall<Request>>;

// The batch of one operation that the request of an RPC with one stands for.
template <typename Request>
absl::StatusOr<CheckedBatch> BatchOf(const Call<Request>& call, std::size_t item_bytes,
                                     v1::ItemBatch& batch) {
  Request& request = call->mutable_request();
  MEMORYD_RETURN_IF_ERROR(CheckMayWriteItems(call->caller()));
  // The audit log asks for it at the end.
  *batch.mutable_namespace_() = request.namespace_();
  if constexpr (requires { request.put(); }) {
    if (!request.has_put()) return InvalidField("put", "is required");
    *batch.add_operations()->mutable_put() = std::move(*request.mutable_put());
    if (request.has_config()) *batch.mutable_config() = request.config();
  } else {
    if (!request.has_delete_()) return InvalidField("delete", "is required");
    *batch.add_operations()->mutable_delete_() = request.delete_();
  }
  if (request.has_request_id()) batch.set_request_id(request.request_id());
  batch.DiscardUnknownFields();
  return FromProto(batch, ItemCallerOf(*call), ProvenanceOf(call->caller()), item_bytes);
}

// What a token of ListItems is bound to.
std::string ScopeOf(const v1::ListItemsRequest& request, const std::string& tenant) {
  v1::ListItemsRequest bound = request;
  bound.clear_page_token();
  bound.clear_page_size();
  bound.DiscardUnknownFields();
  return "ListItems/" + std::to_string(tenant.size()) + "/" + tenant + bound.SerializeAsString();
}

std::string ScopeOf(const v1::ListNamespacesRequest& request, const std::string& tenant) {
  v1::ListNamespacesRequest bound = request;
  bound.clear_page_token();
  bound.clear_page_size();
  bound.DiscardUnknownFields();
  return "ListNamespaces/" + std::to_string(tenant.size()) + "/" + tenant +
         bound.SerializeAsString();
}

// Whoever makes a token by himself may have put into it what no store takes for a text.
absl::Status CheckPlace(std::string_view place) {
  if (IsUtf8(place) && place.find('\0') == std::string_view::npos) return absl::OkStatus();
  return InvalidField("page_token", "is not a token of this list");
}

// Generation, version and key behind which the next page begins.
std::string TokenOf(const std::string& scope, const ItemList& list) {
  return EncodeListToken(scope, std::to_string(list.generation) + "/" +
                                    std::to_string(list.after_version) + "/" + list.after_key);
}

absl::Status TakeToken(const std::string& scope, const std::string& token, ItemListRequest& list) {
  MEMORYD_ASSIGN_OR_RETURN(const std::string place, DecodeListToken(scope, token));
  const char* const end = place.data() + place.size();
  const auto generation = std::from_chars(place.data(), end, list.generation);
  if (generation.ec == std::errc() && generation.ptr != end) {
    const auto version = std::from_chars(generation.ptr + 1, end, list.range.after_version);
    if (version.ec == std::errc() && version.ptr != end) {
      list.range.after_key.assign(version.ptr + 1, end);
      return CheckPlace(list.range.after_key);
    }
  }
  return InvalidField("page_token", "is not a token of this list");
}

absl::StatusOr<std::string> ReplyOf(const NamespacePath& path,
                                    const absl::StatusOr<NamespaceRow>& row) {
  if (!row.ok()) return row.status();
  v1::GetNamespaceResponse reply;
  MEMORYD_RETURN_IF_ERROR(Fill(path, *row, *reply.mutable_namespace_()));
  return reply.SerializeAsString();
}

template <typename Response>
std::string ReplyOf(const NamespaceCounts& counts) {
  Response reply;
  reply.set_namespace_count(counts.namespaces);
  reply.set_item_count(counts.items);
  return reply.SerializeAsString();
}

}  // namespace

void ItemService::AddTo(RpcMethods& methods) {
  methods.Add(Method::kPutItem, this, &ItemService::PutItem);
  methods.Add(Method::kGetItem, this, &ItemService::GetItem);
  methods.Add(Method::kDeleteItem, this, &ItemService::DeleteItem);
  methods.Add(Method::kListItems, this, &ItemService::ListItems);
  methods.Add(Method::kSearchItems, this, &ItemService::SearchItems);
  methods.Add(Method::kBatchItems, this, &ItemService::BatchItems);
  methods.Add(Method::kGetNamespace, this, &ItemService::GetNamespace);
  methods.Add(Method::kUpdateNamespace, this, &ItemService::UpdateNamespace);
  methods.Add(Method::kListNamespaces, this, &ItemService::ListNamespaces);
  methods.Add(Method::kCopyNamespace, this, &ItemService::CopyNamespace);
  methods.Add(Method::kDeleteNamespace, this, &ItemService::DeleteNamespace);
  methods.Add(Method::kImportNamespace, this, &ItemService::ImportNamespace);
}

// ---- items ----

void ItemService::PutItem(RpcCallPtr rpc) {
  RunUnary<v1::PutItemRequest>(
      environment_, Method::kPutItem, std::move(rpc),
      [this](const Call<v1::PutItemRequest>& call) -> absl::Status {
        v1::ItemBatch batch;
        MEMORYD_ASSIGN_OR_RETURN(CheckedBatch checked, BatchOf(call, item_bytes_, batch));
        engine_.namespaces().Write(
            std::move(checked.batch), std::move(checked.settings), checked.byte_size, EndOf(call),
            [call](absl::StatusOr<ItemsWritten> written) {
              if (!written.ok()) {
                call->Fail(written.status());
                return;
              }
              v1::PutItemResponse reply;
              Fill(written->writes.front(), written->update_us, *reply.mutable_write());
              reply.set_replayed(written->replayed);
              call->Succeed(reply.SerializeAsString());
            });
        return absl::OkStatus();
      });
}

void ItemService::GetItem(RpcCallPtr rpc) {
  RunUnary<v1::GetItemRequest>(
      environment_, Method::kGetItem, std::move(rpc),
      [this](const Call<v1::GetItemRequest>& call) -> absl::Status {
        const v1::GetItemRequest& request = call->request();
        MEMORYD_ASSIGN_OR_RETURN(NamespacePath path,
                                 PathFromProto("namespace", request.namespace_()));
        MEMORYD_ASSIGN_OR_RETURN(ItemGet get,
                                 FromProto("get", request.get(), {call->tenant(), path}));
        engine_.item_reads().Get(ItemCallerOf(*call), {std::move(get)}, EndOf(call),
                                 [call, path](absl::StatusOr<ItemsRead> read) {
                                   if (!read.ok()) {
                                     call->Fail(read.status());
                                     return;
                                   }
                                   v1::GetItemResponse reply;
                                   std::optional<Item>& item = read->items.front();
                                   if (item.has_value()) {
                                     Fill(path, *std::move(item), *reply.mutable_item());
                                   }
                                   call->Succeed(reply.SerializeAsString());
                                 });
        return absl::OkStatus();
      });
}

void ItemService::DeleteItem(RpcCallPtr rpc) {
  RunUnary<v1::DeleteItemRequest>(
      environment_, Method::kDeleteItem, std::move(rpc),
      [this](const Call<v1::DeleteItemRequest>& call) -> absl::Status {
        v1::ItemBatch batch;
        MEMORYD_ASSIGN_OR_RETURN(CheckedBatch checked, BatchOf(call, item_bytes_, batch));
        engine_.namespaces().Write(std::move(checked.batch), {}, checked.byte_size, EndOf(call),
                                   [call](absl::StatusOr<ItemsWritten> written) {
                                     if (!written.ok()) {
                                       call->Fail(written.status());
                                       return;
                                     }
                                     v1::DeleteItemResponse reply;
                                     reply.set_existed(written->writes.front().existed);
                                     reply.set_replayed(written->replayed);
                                     call->Succeed(reply.SerializeAsString());
                                   });
        return absl::OkStatus();
      });
}

void ItemService::ListItems(RpcCallPtr rpc) {
  RunUnary<v1::ListItemsRequest>(
      environment_, Method::kListItems, std::move(rpc),
      [this](const Call<v1::ListItemsRequest>& call) -> absl::Status {
        const v1::ListItemsRequest& request = call->request();
        MEMORYD_ASSIGN_OR_RETURN(const std::int64_t size, PageSize(request.page_size()));
        MEMORYD_ASSIGN_OR_RETURN(ItemListRequest list,
                                 FromProto(request, ItemCallerOf(*call), size));
        std::string scope = ScopeOf(request, call->tenant());
        if (!request.page_token().empty()) {
          MEMORYD_RETURN_IF_ERROR(TakeToken(scope, request.page_token(), list));
        }
        NamespacePath path = list.key.path;
        engine_.item_reads().List(std::move(list), EndOf(call),
                                  [call, scope = std::move(scope),
                                   path = std::move(path)](absl::StatusOr<ItemList> page) {
                                    if (!page.ok()) {
                                      call->Fail(page.status());
                                      return;
                                    }
                                    v1::ListItemsResponse reply;
                                    for (Item& item : page->items) {
                                      v1::Item& proto = *reply.add_items();
                                      Fill(path, std::move(item), proto);
                                      if (call->request().keys_only()) proto.clear_value();
                                    }
                                    if (page->more)
                                      reply.set_next_page_token(TokenOf(scope, *page));
                                    call->Succeed(reply.SerializeAsString());
                                  });
        return absl::OkStatus();
      });
}

void ItemService::SearchItems(RpcCallPtr rpc) {
  RunUnary<v1::SearchItemsRequest>(
      environment_, Method::kSearchItems, std::move(rpc),
      [this](const Call<v1::SearchItemsRequest>& call) -> absl::Status {
        MEMORYD_ASSIGN_OR_RETURN(ItemSearchRequest search,
                                 FromProto(call->request(), ItemCallerOf(*call)));
        engine_.item_reads().Search(
            std::move(search), EndOf(call), [call](absl::StatusOr<ItemsFound> found) {
              if (!found.ok()) {
                call->Fail(found.status());
                return;
              }
              v1::SearchItemsResponse reply;
              for (FoundStoredItem& item : found->items) {
                v1::ItemResult& result = *reply.add_results();
                Fill(item.path, std::move(item.item), *result.mutable_item());
                if (item.score.has_value()) result.set_score(*item.score);
              }
              if (found->filter_limit) reply.add_notices("FILTER_LIMIT");
              if (found->lacks_word_vectors) reply.add_notices("NO_WORD_VECTORS");
              call->Succeed(reply.SerializeAsString());
            });
        return absl::OkStatus();
      });
}

void ItemService::BatchItems(RpcCallPtr rpc) {
  RunUnary<v1::BatchItemsRequest>(environment_, Method::kBatchItems, std::move(rpc),
                                  [this](const Call<v1::BatchItemsRequest>& call) -> absl::Status {
                                    return RunBatches(engine_, item_bytes_, environment_, call);
                                  });
}

// ---- namespaces ----

void ItemService::GetNamespace(RpcCallPtr rpc) {
  RunUnary<v1::GetNamespaceRequest>(
      environment_, Method::kGetNamespace, std::move(rpc),
      [this](const Call<v1::GetNamespaceRequest>& call) -> absl::Status {
        MEMORYD_ASSIGN_OR_RETURN(NamespacePath path,
                                 PathFromProto("namespace", call->request().namespace_()));
        engine_.item_reads().GetNamespace(ItemCallerOf(*call), path, EndOf(call),
                                          [call, path](const absl::StatusOr<NamespaceRow>& row) {
                                            call->Finish(ReplyOf(path, row));
                                          });
        return absl::OkStatus();
      });
}

void ItemService::UpdateNamespace(RpcCallPtr rpc) {
  RunUnary<v1::UpdateNamespaceRequest>(
      environment_, Method::kUpdateNamespace, std::move(rpc),
      [this](const Call<v1::UpdateNamespaceRequest>& call) -> absl::Status {
        MEMORYD_RETURN_IF_ERROR(CheckMayWriteItems(call->caller()));
        MEMORYD_ASSIGN_OR_RETURN(NamespacePath path,
                                 PathFromProto("namespace", call->request().namespace_()));
        MEMORYD_ASSIGN_OR_RETURN(NamespaceSettings settings,
                                 FromProto("config", call->request().config()));
        const std::string& subject = call->caller().subject;
        MEMORYD_RETURN_IF_ERROR(CheckSubject(settings, subject));
        engine_.namespaces().Update({call->tenant(), path}, std::move(settings), subject,
                                    EndOf(call),
                                    [call, path](const absl::StatusOr<NamespaceRow>& row) {
                                      // The two replies have the same field.
                                      auto reply = ReplyOf(path, row);
                                      if (reply.ok()) reply = ReplyFor(*call, *std::move(reply));
                                      call->Finish(std::move(reply));
                                    });
        return absl::OkStatus();
      });
}

void ItemService::ListNamespaces(RpcCallPtr rpc) {
  RunUnary<v1::ListNamespacesRequest>(
      environment_, Method::kListNamespaces, std::move(rpc),
      [this](const Call<v1::ListNamespacesRequest>& call) -> absl::Status {
        const v1::ListNamespacesRequest& request = call->request();
        MEMORYD_ASSIGN_OR_RETURN(const std::int64_t size, PageSize(request.page_size()));
        MEMORYD_ASSIGN_OR_RETURN(NamespaceListRequest list,
                                 FromProto(request, ItemCallerOf(*call), size));
        std::string scope = ScopeOf(request, call->tenant());
        if (!request.page_token().empty()) {
          MEMORYD_ASSIGN_OR_RETURN(list.after, DecodeListToken(scope, request.page_token()));
          MEMORYD_RETURN_IF_ERROR(CheckPlace(list.after));
        }
        engine_.item_reads().ListNamespaces(
            std::move(list), EndOf(call),
            [call, scope = std::move(scope)](const absl::StatusOr<NamespaceList>& page) {
              if (!page.ok()) {
                call->Fail(page.status());
                return;
              }
              v1::ListNamespacesResponse reply;
              for (const ListedNamespace& listed : page->namespaces) {
                v1::Namespace& proto = *reply.add_namespaces();
                if (const absl::Status status = Fill(listed.path, listed.row, proto);
                    !status.ok()) {
                  call->Fail(status);
                  return;
                }
                if (call->request().max_depth() == 0) continue;
                v1::Namespace path_alone;
                path_alone.mutable_namespace_()->Swap(proto.mutable_namespace_());
                proto.Swap(&path_alone);
              }
              if (page->more) reply.set_next_page_token(EncodeListToken(scope, page->after));
              call->Succeed(reply.SerializeAsString());
            });
        return absl::OkStatus();
      });
}

void ItemService::CopyNamespace(RpcCallPtr rpc) {
  RunUnary<v1::CopyNamespaceRequest>(
      environment_, Method::kCopyNamespace, std::move(rpc),
      [this](const Call<v1::CopyNamespaceRequest>& call) -> absl::Status {
        MEMORYD_RETURN_IF_ERROR(CheckMayWriteItems(call->caller()));
        NamespaceCopyRequest copy;
        copy.tenant = call->tenant();
        copy.subject = call->caller().subject;
        MEMORYD_ASSIGN_OR_RETURN(copy.source,
                                 PathFromProto("namespace", call->request().namespace_()));
        MEMORYD_ASSIGN_OR_RETURN(copy.target,
                                 PathFromProto("new_namespace", call->request().new_namespace()));
        if (copy.target.StartsWith(copy.source)) {
          return InvalidField("new_namespace", "must not be the namespace, nor stand below it");
        }
        copy.recursive = call->request().recursive();
        engine_.namespaces().Copy(
            std::move(copy), EndOf(call), [call](const absl::StatusOr<NamespaceCounts>& counts) {
              call->Finish(counts.ok() ? ReplyOf<v1::CopyNamespaceResponse>(*counts)
                                       : absl::StatusOr<std::string>(counts.status()));
            });
        return absl::OkStatus();
      });
}

void ItemService::DeleteNamespace(RpcCallPtr rpc) {
  RunUnary<v1::DeleteNamespaceRequest>(
      environment_, Method::kDeleteNamespace, std::move(rpc),
      [this](const Call<v1::DeleteNamespaceRequest>& call) -> absl::Status {
        MEMORYD_RETURN_IF_ERROR(CheckMayWriteItems(call->caller()));
        MEMORYD_ASSIGN_OR_RETURN(NamespacePath path,
                                 PathFromProto("namespace", call->request().namespace_()));
        engine_.namespaces().Delete(
            {call->tenant(), std::move(path)}, call->request().recursive(), call->caller().subject,
            EndOf(call), [call](const absl::StatusOr<NamespaceCounts>& counts) {
              call->Finish(counts.ok() ? ReplyOf<v1::DeleteNamespaceResponse>(*counts)
                                       : absl::StatusOr<std::string>(counts.status()));
            });
        return absl::OkStatus();
      });
}

void ItemService::ImportNamespace(RpcCallPtr rpc) {
  RunNamespaceImport(engine_, item_bytes_, environment_, std::move(rpc));
}

}  // namespace memoryd
