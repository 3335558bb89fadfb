#include "memoryd/connection.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>

#include <memory>

#include "memoryd/grpc_connection.h"
#include "memoryd/options.h"

namespace memoryd::client {
namespace {

absl::Status NotHere(const char* method) {
  return absl::UnimplementedError(absl::StrCat("this connection has no ", method));
}

}  // namespace

absl::StatusOr<v1::PutResponse> Connection::Put(const v1::PutRequest&, const Attempt&) {
  return NotHere("Put");
}

absl::StatusOr<v1::PutBatchResponse> Connection::PutBatch(const v1::PutBatchRequest&,
                                                          const Attempt&) {
  return NotHere("PutBatch");
}

absl::StatusOr<v1::GetResponse> Connection::Get(const v1::GetRequest&, const Attempt&) {
  return NotHere("Get");
}

absl::StatusOr<v1::GetAllResponse> Connection::GetAll(const v1::GetAllRequest&, const Attempt&) {
  return NotHere("GetAll");
}

absl::Status Connection::WatchSession(const v1::WatchSessionRequest&, const Attempt&,
                                      const WatchReader&) {
  return NotHere("WatchSession");
}

absl::Status Connection::StreamAll(const v1::StreamAllRequest&, const Attempt&, const PageReader&) {
  return NotHere("StreamAll");
}

absl::StatusOr<v1::SetResponse> Connection::Set(const v1::SetRequest&, const Attempt&) {
  return NotHere("Set");
}

absl::StatusOr<v1::ResetResponse> Connection::Reset(const v1::ResetRequest&, const Attempt&) {
  return NotHere("Reset");
}

absl::StatusOr<v1::UpdateMessageResponse> Connection::UpdateMessage(const v1::UpdateMessageRequest&,
                                                                    const Attempt&) {
  return NotHere("UpdateMessage");
}

absl::StatusOr<v1::DeleteMessageResponse> Connection::DeleteMessage(const v1::DeleteMessageRequest&,
                                                                    const Attempt&) {
  return NotHere("DeleteMessage");
}

absl::StatusOr<v1::GetContentResponse> Connection::GetContent(const v1::GetContentRequest&,
                                                              const Attempt&) {
  return NotHere("GetContent");
}

absl::StatusOr<v1::UpdateContentResponse> Connection::UpdateContent(const v1::UpdateContentRequest&,
                                                                    const Attempt&) {
  return NotHere("UpdateContent");
}

absl::StatusOr<v1::DeleteContentResponse> Connection::DeleteContent(const v1::DeleteContentRequest&,
                                                                    const Attempt&) {
  return NotHere("DeleteContent");
}

absl::StatusOr<v1::QueryResponse> Connection::Query(const v1::QueryRequest&, const Attempt&) {
  return NotHere("Query");
}

absl::StatusOr<v1::UpdateContextResponse> Connection::UpdateContext(const v1::UpdateContextRequest&,
                                                                    const Attempt&) {
  return NotHere("UpdateContext");
}

absl::StatusOr<v1::CreateSessionResponse> Connection::CreateSession(const v1::CreateSessionRequest&,
                                                                    const Attempt&) {
  return NotHere("CreateSession");
}

absl::StatusOr<v1::GetSessionResponse> Connection::GetSession(const v1::GetSessionRequest&,
                                                              const Attempt&) {
  return NotHere("GetSession");
}

absl::StatusOr<v1::ListSessionsResponse> Connection::ListSessions(const v1::ListSessionsRequest&,
                                                                  const Attempt&) {
  return NotHere("ListSessions");
}

absl::StatusOr<v1::UpdateSessionResponse> Connection::UpdateSession(const v1::UpdateSessionRequest&,
                                                                    const Attempt&) {
  return NotHere("UpdateSession");
}

absl::StatusOr<v1::DeleteSessionResponse> Connection::DeleteSession(const v1::DeleteSessionRequest&,
                                                                    const Attempt&) {
  return NotHere("DeleteSession");
}

absl::StatusOr<v1::ForkSessionResponse> Connection::ForkSession(const v1::ForkSessionRequest&,
                                                                const Attempt&) {
  return NotHere("ForkSession");
}

absl::StatusOr<v1::EraseSubjectResponse> Connection::EraseSubject(const v1::EraseSubjectRequest&,
                                                                  const Attempt&) {
  return NotHere("EraseSubject");
}

absl::StatusOr<v1::ImportSessionResponse> Connection::ImportSession(const ImportSource&,
                                                                    const Attempt&) {
  return NotHere("ImportSession");
}

absl::StatusOr<v1::PutItemResponse> Connection::PutItem(const v1::PutItemRequest&, const Attempt&) {
  return NotHere("PutItem");
}

absl::StatusOr<v1::GetItemResponse> Connection::GetItem(const v1::GetItemRequest&, const Attempt&) {
  return NotHere("GetItem");
}

absl::StatusOr<v1::DeleteItemResponse> Connection::DeleteItem(const v1::DeleteItemRequest&,
                                                              const Attempt&) {
  return NotHere("DeleteItem");
}

absl::StatusOr<v1::ListItemsResponse> Connection::ListItems(const v1::ListItemsRequest&,
                                                            const Attempt&) {
  return NotHere("ListItems");
}

absl::StatusOr<v1::SearchItemsResponse> Connection::SearchItems(const v1::SearchItemsRequest&,
                                                                const Attempt&) {
  return NotHere("SearchItems");
}

absl::StatusOr<v1::BatchItemsResponse> Connection::BatchItems(const v1::BatchItemsRequest&,
                                                              const Attempt&) {
  return NotHere("BatchItems");
}

absl::StatusOr<v1::GetNamespaceResponse> Connection::GetNamespace(const v1::GetNamespaceRequest&,
                                                                  const Attempt&) {
  return NotHere("GetNamespace");
}

absl::StatusOr<v1::UpdateNamespaceResponse> Connection::UpdateNamespace(
    const v1::UpdateNamespaceRequest&, const Attempt&) {
  return NotHere("UpdateNamespace");
}

absl::StatusOr<v1::ListNamespacesResponse> Connection::ListNamespaces(
    const v1::ListNamespacesRequest&, const Attempt&) {
  return NotHere("ListNamespaces");
}

absl::StatusOr<v1::CopyNamespaceResponse> Connection::CopyNamespace(const v1::CopyNamespaceRequest&,
                                                                    const Attempt&) {
  return NotHere("CopyNamespace");
}

absl::StatusOr<v1::DeleteNamespaceResponse> Connection::DeleteNamespace(
    const v1::DeleteNamespaceRequest&, const Attempt&) {
  return NotHere("DeleteNamespace");
}

absl::StatusOr<v1::ImportNamespaceResponse> Connection::ImportNamespace(
    const NamespaceImportSource&, const Attempt&) {
  return NotHere("ImportNamespace");
}

absl::StatusOr<v1::ListJobsResponse> Connection::ListJobs(const v1::ListJobsRequest&,
                                                          const Attempt&) {
  return NotHere("ListJobs");
}

absl::StatusOr<v1::GetJobResponse> Connection::GetJob(const v1::GetJobRequest&, const Attempt&) {
  return NotHere("GetJob");
}

absl::StatusOr<v1::RetryJobResponse> Connection::RetryJob(const v1::RetryJobRequest&,
                                                          const Attempt&) {
  return NotHere("RetryJob");
}

absl::StatusOr<v1::CancelJobResponse> Connection::CancelJob(const v1::CancelJobRequest&,
                                                            const Attempt&) {
  return NotHere("CancelJob");
}

absl::StatusOr<v1::GetUsageResponse> Connection::GetUsage(const v1::GetUsageRequest&,
                                                          const Attempt&) {
  return NotHere("GetUsage");
}

absl::StatusOr<v1::GetBlockResponse> Connection::GetBlock(const v1::GetBlockRequest&,
                                                          const Attempt&) {
  return NotHere("GetBlock");
}

absl::StatusOr<v1::ListBlockEntriesResponse> Connection::ListBlockEntries(
    const v1::ListBlockEntriesRequest&, const Attempt&) {
  return NotHere("ListBlockEntries");
}

absl::StatusOr<v1::UndoBlockChangeResponse> Connection::UndoBlockChange(
    const v1::UndoBlockChangeRequest&, const Attempt&) {
  return NotHere("UndoBlockChange");
}

absl::StatusOr<v1::AddFactResponse> Connection::AddFact(const v1::AddFactRequest&, const Attempt&) {
  return NotHere("AddFact");
}

absl::StatusOr<v1::UpdateFactResponse> Connection::UpdateFact(const v1::UpdateFactRequest&,
                                                              const Attempt&) {
  return NotHere("UpdateFact");
}

absl::StatusOr<v1::DeleteFactResponse> Connection::DeleteFact(const v1::DeleteFactRequest&,
                                                              const Attempt&) {
  return NotHere("DeleteFact");
}

absl::StatusOr<v1::GetServerInfoResponse> Connection::GetServerInfo(const v1::GetServerInfoRequest&,
                                                                    const Attempt&) {
  return NotHere("GetServerInfo");
}

absl::Time Connection::Now() { return absl::Now(); }

void Connection::Wait(absl::Duration pause) { absl::SleepFor(pause); }

std::shared_ptr<Connection> MakeConnection(const Options& options) {
  return MakeGrpcConnection(options);
}

}  // namespace memoryd::client
