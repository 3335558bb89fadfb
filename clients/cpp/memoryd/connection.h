// The connection on which Client makes each attempt of a call. Tests replace it by a
// FakeConnection, or by an implementation of their own.
#ifndef MEMORYD_CONNECTION_H_
#define MEMORYD_CONNECTION_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <functional>
#include <memory>

#include "memoryd/options.h"
#include "memoryd/v1/block_service.pb.h"
#include "memoryd/v1/item_service.pb.h"
#include "memoryd/v1/job_service.pb.h"
#include "memoryd/v1/memory_service.pb.h"
#include "memoryd/v1/server_service.pb.h"
#include "memoryd/v1/session_service.pb.h"

namespace memoryd::client {

// Options of one attempt of a call.
struct Attempt {
  absl::Time deadline;
  // Whether to wait for a connection until the deadline. If false, the attempt fails UNAVAILABLE.
  bool wait_for_ready = false;
};

// Receives a page of a stream. Returns false to end the stream.
using PageReader = std::function<bool(v1::StreamAllResponse)>;

// Receives what is new in a session. Returns false to end the stream.
using WatchReader = std::function<bool(v1::WatchSessionResponse)>;

// Fills in the next request of an import; the argument is empty. Returns false at the end.
using ImportSource = std::function<bool(v1::ImportSessionRequest&)>;
using NamespaceImportSource = std::function<bool(v1::ImportNamespaceRequest&)>;

// Each method makes one attempt of the RPC of the same name, see proto/memoryd/v1. A method that is
// not overridden returns UNIMPLEMENTED. Any number of threads may call the methods.
class Connection {
 public:
  virtual ~Connection() = default;

  virtual absl::StatusOr<v1::PutResponse> Put(const v1::PutRequest&, const Attempt&);
  virtual absl::StatusOr<v1::PutBatchResponse> PutBatch(const v1::PutBatchRequest&, const Attempt&);
  virtual absl::StatusOr<v1::GetResponse> Get(const v1::GetRequest&, const Attempt&);
  virtual absl::StatusOr<v1::GetAllResponse> GetAll(const v1::GetAllRequest&, const Attempt&);
  // Calls `read` for each page, on the caller's thread. CANCELLED: `read` returned false.
  virtual absl::Status StreamAll(const v1::StreamAllRequest&, const Attempt&,
                                 const PageReader& read);
  virtual absl::StatusOr<v1::SetResponse> Set(const v1::SetRequest&, const Attempt&);
  virtual absl::StatusOr<v1::ResetResponse> Reset(const v1::ResetRequest&, const Attempt&);
  virtual absl::StatusOr<v1::UpdateMessageResponse> UpdateMessage(const v1::UpdateMessageRequest&,
                                                                  const Attempt&);
  virtual absl::StatusOr<v1::DeleteMessageResponse> DeleteMessage(const v1::DeleteMessageRequest&,
                                                                  const Attempt&);
  virtual absl::StatusOr<v1::GetContentResponse> GetContent(const v1::GetContentRequest&,
                                                            const Attempt&);
  virtual absl::StatusOr<v1::UpdateContentResponse> UpdateContent(const v1::UpdateContentRequest&,
                                                                  const Attempt&);
  virtual absl::StatusOr<v1::DeleteContentResponse> DeleteContent(const v1::DeleteContentRequest&,
                                                                  const Attempt&);
  virtual absl::StatusOr<v1::QueryResponse> Query(const v1::QueryRequest&, const Attempt&);
  virtual absl::StatusOr<v1::UpdateContextResponse> UpdateContext(const v1::UpdateContextRequest&,
                                                                  const Attempt&);

  virtual absl::StatusOr<v1::CreateSessionResponse> CreateSession(const v1::CreateSessionRequest&,
                                                                  const Attempt&);
  virtual absl::StatusOr<v1::GetSessionResponse> GetSession(const v1::GetSessionRequest&,
                                                            const Attempt&);
  virtual absl::StatusOr<v1::ListSessionsResponse> ListSessions(const v1::ListSessionsRequest&,
                                                                const Attempt&);
  // Calls `read` for each reply, on the caller's thread. CANCELLED: `read` returned false.
  virtual absl::Status WatchSession(const v1::WatchSessionRequest&, const Attempt&,
                                    const WatchReader& read);
  virtual absl::StatusOr<v1::UpdateSessionResponse> UpdateSession(const v1::UpdateSessionRequest&,
                                                                  const Attempt&);
  virtual absl::StatusOr<v1::DeleteSessionResponse> DeleteSession(const v1::DeleteSessionRequest&,
                                                                  const Attempt&);
  virtual absl::StatusOr<v1::ForkSessionResponse> ForkSession(const v1::ForkSessionRequest&,
                                                              const Attempt&);
  virtual absl::StatusOr<v1::EraseSubjectResponse> EraseSubject(const v1::EraseSubjectRequest&,
                                                                const Attempt&);
  // Calls `next` on the caller's thread and sends each request.
  virtual absl::StatusOr<v1::ImportSessionResponse> ImportSession(const ImportSource& next,
                                                                  const Attempt&);

  virtual absl::StatusOr<v1::PutItemResponse> PutItem(const v1::PutItemRequest&, const Attempt&);
  virtual absl::StatusOr<v1::GetItemResponse> GetItem(const v1::GetItemRequest&, const Attempt&);
  virtual absl::StatusOr<v1::DeleteItemResponse> DeleteItem(const v1::DeleteItemRequest&,
                                                            const Attempt&);
  virtual absl::StatusOr<v1::ListItemsResponse> ListItems(const v1::ListItemsRequest&,
                                                          const Attempt&);
  virtual absl::StatusOr<v1::SearchItemsResponse> SearchItems(const v1::SearchItemsRequest&,
                                                              const Attempt&);
  virtual absl::StatusOr<v1::BatchItemsResponse> BatchItems(const v1::BatchItemsRequest&,
                                                            const Attempt&);
  virtual absl::StatusOr<v1::GetNamespaceResponse> GetNamespace(const v1::GetNamespaceRequest&,
                                                                const Attempt&);
  virtual absl::StatusOr<v1::UpdateNamespaceResponse> UpdateNamespace(
      const v1::UpdateNamespaceRequest&, const Attempt&);
  virtual absl::StatusOr<v1::ListNamespacesResponse> ListNamespaces(
      const v1::ListNamespacesRequest&, const Attempt&);
  virtual absl::StatusOr<v1::CopyNamespaceResponse> CopyNamespace(const v1::CopyNamespaceRequest&,
                                                                  const Attempt&);
  virtual absl::StatusOr<v1::DeleteNamespaceResponse> DeleteNamespace(
      const v1::DeleteNamespaceRequest&, const Attempt&);
  // As ImportSession.
  virtual absl::StatusOr<v1::ImportNamespaceResponse> ImportNamespace(
      const NamespaceImportSource& next, const Attempt&);

  virtual absl::StatusOr<v1::ListJobsResponse> ListJobs(const v1::ListJobsRequest&, const Attempt&);
  virtual absl::StatusOr<v1::GetJobResponse> GetJob(const v1::GetJobRequest&, const Attempt&);
  virtual absl::StatusOr<v1::RetryJobResponse> RetryJob(const v1::RetryJobRequest&, const Attempt&);
  virtual absl::StatusOr<v1::CancelJobResponse> CancelJob(const v1::CancelJobRequest&,
                                                          const Attempt&);
  virtual absl::StatusOr<v1::GetUsageResponse> GetUsage(const v1::GetUsageRequest&, const Attempt&);

  virtual absl::StatusOr<v1::GetBlockResponse> GetBlock(const v1::GetBlockRequest&, const Attempt&);
  virtual absl::StatusOr<v1::ListBlockEntriesResponse> ListBlockEntries(
      const v1::ListBlockEntriesRequest&, const Attempt&);
  virtual absl::StatusOr<v1::UndoBlockChangeResponse> UndoBlockChange(
      const v1::UndoBlockChangeRequest&, const Attempt&);
  virtual absl::StatusOr<v1::AddFactResponse> AddFact(const v1::AddFactRequest&, const Attempt&);
  virtual absl::StatusOr<v1::UpdateFactResponse> UpdateFact(const v1::UpdateFactRequest&,
                                                            const Attempt&);
  virtual absl::StatusOr<v1::DeleteFactResponse> DeleteFact(const v1::DeleteFactRequest&,
                                                            const Attempt&);

  virtual absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo(const v1::GetServerInfoRequest&,
                                                                  const Attempt&);

  // The clock of Attempt::deadline.
  virtual absl::Time Now();
  // Waits between two attempts, on the caller's thread.
  virtual void Wait(absl::Duration pause);
};

// Returns a connection over gRPC. It connects when a call needs it, and again after a failure.
std::shared_ptr<Connection> MakeConnection(const Options& options);

}  // namespace memoryd::client

#endif  // MEMORYD_CONNECTION_H_
