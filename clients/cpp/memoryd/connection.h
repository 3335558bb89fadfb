// The way to a server, one attempt of a call at a time. Client stands on it; tests put a
// FakeConnection, or an implementation of their own, in its place.
#ifndef MEMORYD_CONNECTION_H_
#define MEMORYD_CONNECTION_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <functional>
#include <memory>

#include "memoryd/options.h"
#include "memoryd/v1/block_service.pb.h"
#include "memoryd/v1/job_service.pb.h"
#include "memoryd/v1/memory_service.pb.h"
#include "memoryd/v1/server_service.pb.h"
#include "memoryd/v1/session_service.pb.h"

namespace memoryd::client {

// How an attempt is to be made.
struct Attempt {
  absl::Time deadline;
  // Whether to wait for a connection until the deadline instead of failing UNAVAILABLE.
  bool wait_for_ready = false;
};

// Takes a page of a stream; false ends the stream.
using PageReader = std::function<bool(v1::StreamAllResponse)>;

// Fills in the next request of an import, whose argument is empty; false at the end.
using ImportSource = std::function<bool(v1::ImportSessionRequest&)>;

// For any number of threads. The contract of each method stands with the RPC of the same name in
// proto/memoryd/v1; those that are not overridden answer UNIMPLEMENTED.
class Connection {
 public:
  virtual ~Connection() = default;

  virtual absl::StatusOr<v1::PutResponse> Put(const v1::PutRequest&, const Attempt&);
  virtual absl::StatusOr<v1::GetResponse> Get(const v1::GetRequest&, const Attempt&);
  virtual absl::StatusOr<v1::GetAllResponse> GetAll(const v1::GetAllRequest&, const Attempt&);
  // Calls `read` for each page, on the caller's thread. CANCELLED when `read` ended the stream.
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
  virtual absl::StatusOr<v1::UpdateSessionResponse> UpdateSession(const v1::UpdateSessionRequest&,
                                                                  const Attempt&);
  virtual absl::StatusOr<v1::DeleteSessionResponse> DeleteSession(const v1::DeleteSessionRequest&,
                                                                  const Attempt&);
  virtual absl::StatusOr<v1::ForkSessionResponse> ForkSession(const v1::ForkSessionRequest&,
                                                              const Attempt&);
  virtual absl::StatusOr<v1::EraseSubjectResponse> EraseSubject(const v1::EraseSubjectRequest&,
                                                                const Attempt&);
  // Sends what `next` fills in, on the caller's thread.
  virtual absl::StatusOr<v1::ImportSessionResponse> ImportSession(const ImportSource& next,
                                                                  const Attempt&);

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

  // The clock that deadlines are told by, and the pause between two attempts.
  virtual absl::Time Now();
  virtual void Wait(absl::Duration pause);
};

// A connection over gRPC. It is made, and after a failure made again, when a call needs it.
std::shared_ptr<Connection> MakeConnection(const Options& options);

}  // namespace memoryd::client

#endif  // MEMORYD_CONNECTION_H_
