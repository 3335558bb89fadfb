// A memoryd in memory, for tests of code that uses Client, without server, network and real time.
//
//   auto fake = std::make_shared<memoryd::client::FakeConnection>();
//   Agent agent{memoryd::client::Client(fake)};
//   fake->FailNext(absl::UnavailableError("restarting"));
#ifndef MEMORYD_FAKE_CONNECTION_H_
#define MEMORYD_FAKE_CONNECTION_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "memoryd/connection.h"
#include "memoryd/fake_items.h"
#include "memoryd/fake_sessions.h"

namespace memoryd::client {

// When a failure that a test has set takes effect.
enum class FailAt {
  kRequest,  // Before the call is done: nothing changes.
  kReply,    // After the call is done: only the reply is lost.
};

// Keeps messages, contents, sessions and items as memoryd does, with positions, ids, revisions,
// versions, request ids and pages. Errors have memoryd's reasons: INVALID_ARGUMENT for a missing
// session id or role, NOT_FOUND, ALREADY_EXISTS and ABORTED. It differs from memoryd in these
// points:
//   - Messages never leave short-term memory. Get returns all of them and counts no tokens.
//   - StreamAll ignores filters, and fails before its first page if a failure is set.
//   - DeleteMessage deletes a tool call without its results.
//   - Query finds texts that contain all words of the query, compared byte by byte, the newest
//     first. It ignores filters and neighbours.
//   - UpdateContext returns the context unchanged.
//   - ListItems and SearchItems ignore filters and vectors. SearchItems puts first the JSON values
//     that contain all words of the query, compared byte by byte, with the score 1. It ignores
//     which fields are searched.
//   - Values, names, paths of fields and filters of items are not checked, and have no limits.
//   - Items that expire are not found. They stay counted by their namespace until it is deleted.
//   - ListSessions lists by id alone.
//   - Jobs, blocks, forks, imports, subjects and watches do not exist.
//
// Subclass it for other answers, and call the method of this class for the rest. Any number of
// threads may use it.
class FakeConnection : public Connection {
 public:
  // Makes one call fail with `status`. Each further FailNext is for the call after it.
  void FailNext(absl::Status status, FailAt at = FailAt::kRequest);

  // Number of attempts of calls.
  int attempts() const;
  // Sum of the pauses that Client made between attempts. Wait only moves the clock.
  absl::Duration waited() const;

  absl::StatusOr<v1::PutResponse> Put(const v1::PutRequest& request,
                                      const Attempt& attempt) override;
  absl::StatusOr<v1::PutBatchResponse> PutBatch(const v1::PutBatchRequest& request,
                                                const Attempt& attempt) override;
  absl::StatusOr<v1::GetResponse> Get(const v1::GetRequest& request,
                                      const Attempt& attempt) override;
  absl::StatusOr<v1::GetAllResponse> GetAll(const v1::GetAllRequest& request,
                                            const Attempt& attempt) override;
  absl::Status StreamAll(const v1::StreamAllRequest& request, const Attempt& attempt,
                         const PageReader& read) override;
  absl::StatusOr<v1::SetResponse> Set(const v1::SetRequest& request,
                                      const Attempt& attempt) override;
  absl::StatusOr<v1::ResetResponse> Reset(const v1::ResetRequest& request,
                                          const Attempt& attempt) override;
  absl::StatusOr<v1::UpdateMessageResponse> UpdateMessage(const v1::UpdateMessageRequest& request,
                                                          const Attempt& attempt) override;
  absl::StatusOr<v1::DeleteMessageResponse> DeleteMessage(const v1::DeleteMessageRequest& request,
                                                          const Attempt& attempt) override;
  absl::StatusOr<v1::GetContentResponse> GetContent(const v1::GetContentRequest& request,
                                                    const Attempt& attempt) override;
  absl::StatusOr<v1::UpdateContentResponse> UpdateContent(const v1::UpdateContentRequest& request,
                                                          const Attempt& attempt) override;
  absl::StatusOr<v1::DeleteContentResponse> DeleteContent(const v1::DeleteContentRequest& request,
                                                          const Attempt& attempt) override;
  absl::StatusOr<v1::QueryResponse> Query(const v1::QueryRequest& request,
                                          const Attempt& attempt) override;
  absl::StatusOr<v1::UpdateContextResponse> UpdateContext(const v1::UpdateContextRequest& request,
                                                          const Attempt& attempt) override;

  absl::StatusOr<v1::CreateSessionResponse> CreateSession(const v1::CreateSessionRequest& request,
                                                          const Attempt& attempt) override;
  absl::StatusOr<v1::GetSessionResponse> GetSession(const v1::GetSessionRequest& request,
                                                    const Attempt& attempt) override;
  absl::StatusOr<v1::ListSessionsResponse> ListSessions(const v1::ListSessionsRequest& request,
                                                        const Attempt& attempt) override;
  absl::StatusOr<v1::UpdateSessionResponse> UpdateSession(const v1::UpdateSessionRequest& request,
                                                          const Attempt& attempt) override;
  absl::StatusOr<v1::DeleteSessionResponse> DeleteSession(const v1::DeleteSessionRequest& request,
                                                          const Attempt& attempt) override;

  absl::StatusOr<v1::PutItemResponse> PutItem(const v1::PutItemRequest& request,
                                              const Attempt& attempt) override;
  absl::StatusOr<v1::GetItemResponse> GetItem(const v1::GetItemRequest& request,
                                              const Attempt& attempt) override;
  absl::StatusOr<v1::DeleteItemResponse> DeleteItem(const v1::DeleteItemRequest& request,
                                                    const Attempt& attempt) override;
  absl::StatusOr<v1::ListItemsResponse> ListItems(const v1::ListItemsRequest& request,
                                                  const Attempt& attempt) override;
  absl::StatusOr<v1::SearchItemsResponse> SearchItems(const v1::SearchItemsRequest& request,
                                                      const Attempt& attempt) override;
  absl::StatusOr<v1::BatchItemsResponse> BatchItems(const v1::BatchItemsRequest& request,
                                                    const Attempt& attempt) override;
  absl::StatusOr<v1::GetNamespaceResponse> GetNamespace(const v1::GetNamespaceRequest& request,
                                                        const Attempt& attempt) override;
  absl::StatusOr<v1::UpdateNamespaceResponse> UpdateNamespace(
      const v1::UpdateNamespaceRequest& request, const Attempt& attempt) override;
  absl::StatusOr<v1::ListNamespacesResponse> ListNamespaces(
      const v1::ListNamespacesRequest& request, const Attempt& attempt) override;
  absl::StatusOr<v1::CopyNamespaceResponse> CopyNamespace(const v1::CopyNamespaceRequest& request,
                                                          const Attempt& attempt) override;
  absl::StatusOr<v1::DeleteNamespaceResponse> DeleteNamespace(
      const v1::DeleteNamespaceRequest& request, const Attempt& attempt) override;

  absl::Time Now() override;
  void Wait(absl::Duration pause) override;

 private:
  struct Failure {
    absl::Status status;
    FailAt at;
  };
  struct Answered {
    std::string request;
    std::string reply;
  };

  // Runs a call under the lock, or fails with the next failure that is set.
  template <typename Response>
  absl::StatusOr<Response> Run(const std::function<absl::StatusOr<Response>()>& call);
  // A Put, under the lock.
  absl::StatusOr<v1::PutResponse> PutOnce(const v1::PutRequest& request);
  // The same as Run(), and repeats the stored reply of a known request id.
  template <typename Response, typename Request>
  absl::StatusOr<Response> RunOnce(const char* method, const Request& request,
                                   const std::function<absl::StatusOr<Response>()>& call);
  // The latter part of it, under the lock.
  template <typename Response, typename Request>
  absl::StatusOr<Response> Once(const char* method, const Request& request,
                                const std::function<absl::StatusOr<Response>()>& call);

  mutable std::mutex mutex_;                  // Guards all below.
  std::map<std::string, Answered> answered_;  // By request id.
  FakeSessions sessions_;
  FakeItems items_;
  std::deque<Failure> failures_;
  int attempts_ = 0;
  absl::Time now_ = absl::UnixEpoch();
  absl::Duration waited_;
};

}  // namespace memoryd::client

#endif  // MEMORYD_FAKE_CONNECTION_H_
