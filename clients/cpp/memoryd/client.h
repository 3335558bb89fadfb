// Client for memoryd, the memory server for LLM agents.
//
//   memoryd::client::Client client({.target = "localhost:50051"});
//   auto stored = client.Put("s1", {MakeMessage("user", "Hello, world!")});
//   if (!stored.ok()) return stored.status();
//   auto context = client.Get("s1");
#ifndef MEMORYD_CLIENT_H_
#define MEMORYD_CLIENT_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "memoryd/connection.h"
#include "memoryd/error_info.h"
#include "memoryd/options.h"

namespace memoryd::client {

// Returns a message with one text.
v1::Message MakeMessage(std::string_view role, std::string_view text);
// Returns a content with one text.
v1::Content MakeContent(std::string_view text, std::string_view mime_type = "text/plain");

// A connection to one memoryd. Each method is the RPC of the same name; proto/memoryd/v1 has the
// contracts, with the errors. Methods block until the answer or the deadline. GetErrorInfo returns
// the reason and the field of an error. Any number of threads may use a client; copies share the
// connection.
//
// A call that changes something carries a request id. The client makes one for each call, unless
// the request has one. A call that fails UNAVAILABLE or CANCELLED has an unknown outcome, so it is
// repeated until its deadline; the request id keeps it from being done twice. RetryJob, CancelJob
// and CopyNamespace have no request id: they wait for a connection and are sent once. A call that
// the server refuses with the time when to come again, `retry_after_ms`, is repeated then. With
// Options::wait_for_ready false nothing is repeated.
class Client {
 public:
  explicit Client(const Options& options = {});
  // Uses the given connection, such as a FakeConnection. Only timeout and wait_for_ready of
  // `options` have an effect.
  explicit Client(std::shared_ptr<Connection> connection, const Options& options = {});

  // Memory.

  // The deadline is the request's `wait`, at most 30 seconds, plus Options::timeout. A timeout in
  // CallOptions includes the `wait`.
  absl::StatusOr<v1::PutResponse> Put(v1::PutRequest request,
                                      const CallOptions& options = {}) const;
  absl::StatusOr<v1::PutResponse> Put(std::string_view session_id,
                                      std::vector<v1::Message> messages,
                                      const CallOptions& options = {}) const;
  // Each Put gets a request_id of its own, if it has none. The deadline is later by the longest
  // time that the Puts of one session wait together. OK even if every Put fails: an outcome whose
  // error has the reason OUTCOME_UNKNOWN says that it is unknown. It is not repeated; repeat the
  // Put.
  absl::StatusOr<v1::PutBatchResponse> PutBatch(v1::PutBatchRequest request,
                                                const CallOptions& options = {}) const;
  absl::StatusOr<v1::GetResponse> Get(const v1::GetRequest& request,
                                      const CallOptions& options = {}) const;
  absl::StatusOr<v1::GetResponse> Get(std::string_view session_id,
                                      const CallOptions& options = {}) const;
  // Returns one page: with the request's `order` from the oldest messages or from the newest.
  absl::StatusOr<v1::GetAllResponse> GetAll(const v1::GetAllRequest& request,
                                            const CallOptions& options = {}) const;
  // Return all messages, or all contents, of a session, oldest first. They fetch page by page; the
  // timeout applies to each page.
  absl::StatusOr<std::vector<v1::Message>> AllMessages(std::string_view session_id,
                                                       const CallOptions& options = {}) const;
  absl::StatusOr<std::vector<v1::Content>> AllContents(std::string_view session_id,
                                                       const CallOptions& options = {}) const;
  // Calls `read` for every page, on this thread. A stream that breaks is continued after its last
  // page. The timeout applies to each page. OK at the end, and when `read` returns false.
  absl::Status StreamAll(v1::StreamAllRequest request, const PageReader& read,
                         const CallOptions& options = {}) const;
  absl::StatusOr<v1::SetResponse> Set(v1::SetRequest request,
                                      const CallOptions& options = {}) const;
  absl::StatusOr<v1::ResetResponse> Reset(v1::ResetRequest request,
                                          const CallOptions& options = {}) const;
  absl::StatusOr<v1::UpdateMessageResponse> UpdateMessage(v1::UpdateMessageRequest request,
                                                          const CallOptions& options = {}) const;
  absl::StatusOr<v1::DeleteMessageResponse> DeleteMessage(v1::DeleteMessageRequest request,
                                                          const CallOptions& options = {}) const;
  absl::StatusOr<v1::GetContentResponse> GetContent(const v1::GetContentRequest& request,
                                                    const CallOptions& options = {}) const;
  absl::StatusOr<v1::UpdateContentResponse> UpdateContent(v1::UpdateContentRequest request,
                                                          const CallOptions& options = {}) const;
  absl::StatusOr<v1::DeleteContentResponse> DeleteContent(v1::DeleteContentRequest request,
                                                          const CallOptions& options = {}) const;
  absl::StatusOr<v1::QueryResponse> Query(const v1::QueryRequest& request,
                                          const CallOptions& options = {}) const;
  absl::StatusOr<v1::UpdateContextResponse> UpdateContext(const v1::UpdateContextRequest& request,
                                                          const CallOptions& options = {}) const;

  // Sessions.

  absl::StatusOr<v1::Session> CreateSession(v1::CreateSessionRequest request,
                                            const CallOptions& options = {}) const;
  absl::StatusOr<v1::Session> GetSession(std::string_view session_id,
                                         const CallOptions& options = {}) const;
  // Returns one page.
  absl::StatusOr<v1::ListSessionsResponse> ListSessions(const v1::ListSessionsRequest& request,
                                                        const CallOptions& options = {}) const;
  // Returns all sessions in the order of their ids, page by page as AllMessages.
  absl::StatusOr<std::vector<v1::Session>> AllSessions(const CallOptions& options = {}) const;
  // Calls `read` for every reply, on this thread. A stream that breaks is continued after its last
  // revision, if that succeeds within Options::timeout. CallOptions::timeout is that of the whole
  // watch; without it there is no deadline. OK when the session is deleted, and when `read` returns
  // false.
  absl::Status WatchSession(v1::WatchSessionRequest request, const WatchReader& read,
                            const CallOptions& options = {}) const;
  absl::StatusOr<v1::Session> UpdateSession(v1::UpdateSessionRequest request,
                                            const CallOptions& options = {}) const;
  absl::StatusOr<v1::DeleteSessionResponse> DeleteSession(v1::DeleteSessionRequest request,
                                                          const CallOptions& options = {}) const;
  absl::StatusOr<v1::ForkSessionResponse> ForkSession(v1::ForkSessionRequest request,
                                                      const CallOptions& options = {}) const;
  // Calls `next` on this thread for each request, as fast as the server takes them. See
  // v1::ImportSessionRequest for their order. Without CallOptions::timeout there is no deadline. An
  // import that fails is not repeated. ALREADY_EXISTS `SESSION_EXISTS`: an earlier try may have
  // succeeded.
  absl::StatusOr<v1::Session> ImportSession(const ImportSource& next,
                                            const CallOptions& options = {}) const;
  absl::StatusOr<v1::EraseSubjectResponse> EraseSubject(const v1::EraseSubjectRequest& request,
                                                        const CallOptions& options = {}) const;

  // The knowledge of blocks.

  absl::StatusOr<v1::GetBlockResponse> GetBlock(const v1::GetBlockRequest& request,
                                                const CallOptions& options = {}) const;
  // Returns one page.
  absl::StatusOr<v1::ListBlockEntriesResponse> ListBlockEntries(
      const v1::ListBlockEntriesRequest& request, const CallOptions& options = {}) const;
  absl::StatusOr<v1::UndoBlockChangeResponse> UndoBlockChange(
      v1::UndoBlockChangeRequest request, const CallOptions& options = {}) const;
  absl::StatusOr<v1::AddFactResponse> AddFact(v1::AddFactRequest request,
                                              const CallOptions& options = {}) const;
  absl::StatusOr<v1::UpdateFactResponse> UpdateFact(v1::UpdateFactRequest request,
                                                    const CallOptions& options = {}) const;
  absl::StatusOr<v1::DeleteFactResponse> DeleteFact(v1::DeleteFactRequest request,
                                                    const CallOptions& options = {}) const;

  // Items. Each batch of a BatchItems gets a request_id of its own, if it has none and writes.

  absl::StatusOr<v1::PutItemResponse> PutItem(v1::PutItemRequest request,
                                              const CallOptions& options = {}) const;
  absl::StatusOr<v1::GetItemResponse> GetItem(const v1::GetItemRequest& request,
                                              const CallOptions& options = {}) const;
  absl::StatusOr<v1::DeleteItemResponse> DeleteItem(v1::DeleteItemRequest request,
                                                    const CallOptions& options = {}) const;
  // Returns one page.
  absl::StatusOr<v1::ListItemsResponse> ListItems(const v1::ListItemsRequest& request,
                                                  const CallOptions& options = {}) const;
  absl::StatusOr<v1::SearchItemsResponse> SearchItems(const v1::SearchItemsRequest& request,
                                                      const CallOptions& options = {}) const;
  absl::StatusOr<v1::BatchItemsResponse> BatchItems(v1::BatchItemsRequest request,
                                                    const CallOptions& options = {}) const;
  absl::StatusOr<v1::GetNamespaceResponse> GetNamespace(const v1::GetNamespaceRequest& request,
                                                        const CallOptions& options = {}) const;
  absl::StatusOr<v1::UpdateNamespaceResponse> UpdateNamespace(
      const v1::UpdateNamespaceRequest& request, const CallOptions& options = {}) const;
  // Returns one page.
  absl::StatusOr<v1::ListNamespacesResponse> ListNamespaces(
      const v1::ListNamespacesRequest& request, const CallOptions& options = {}) const;
  // Is not repeated: UNAVAILABLE says that the outcome is unknown.
  absl::StatusOr<v1::CopyNamespaceResponse> CopyNamespace(const v1::CopyNamespaceRequest& request,
                                                          const CallOptions& options = {}) const;
  absl::StatusOr<v1::DeleteNamespaceResponse> DeleteNamespace(
      const v1::DeleteNamespaceRequest& request, const CallOptions& options = {}) const;
  // As ImportSession; see v1::ImportNamespaceRequest. ALREADY_EXISTS `NAMESPACE_EXISTS`: an earlier
  // try may have succeeded.
  absl::StatusOr<v1::Namespace> ImportNamespace(const NamespaceImportSource& next,
                                                const CallOptions& options = {}) const;

  // Jobs and the server.

  absl::StatusOr<v1::ListJobsResponse> ListJobs(const v1::ListJobsRequest& request,
                                                const CallOptions& options = {}) const;
  absl::StatusOr<v1::GetJobResponse> GetJob(const v1::GetJobRequest& request,
                                            const CallOptions& options = {}) const;
  absl::StatusOr<v1::RetryJobResponse> RetryJob(const v1::RetryJobRequest& request,
                                                const CallOptions& options = {}) const;
  absl::StatusOr<v1::CancelJobResponse> CancelJob(const v1::CancelJobRequest& request,
                                                  const CallOptions& options = {}) const;
  absl::StatusOr<v1::GetUsageResponse> GetUsage(const CallOptions& options = {}) const;
  absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo(const CallOptions& options = {}) const;

 private:
  template <typename Request, typename Response>
  using Method = absl::StatusOr<Response> (Connection::*)(const Request&, const Attempt&);

  // Repeats the call while its outcome is unknown and time is left. When the time is over, the
  // returned error says that the outcome is unknown, if it is after any of the attempts.
  template <typename Request, typename Response>
  absl::StatusOr<Response> Repeat(Method<Request, Response> method, const Request& request,
                                  const CallOptions& options) const;
  // Makes the attempts of a call until it is answered or the time is over. One that is not
  // `is_repeatable` is made again only when the server has refused it and says when to come again.
  template <typename Request, typename Response>
  absl::StatusOr<Response> Send(Method<Request, Response> method, const Request& request,
                                Attempt attempt, bool is_repeatable) const;
  // For an upload: the client sends the call once, without a deadline unless the caller sets one.
  Attempt UploadAttempt(const CallOptions& options) const;
  // Repeats a call that changes something, under one request id.
  template <typename Request, typename Response>
  absl::StatusOr<Response> Change(Method<Request, Response> method, Request request,
                                  const CallOptions& options) const;
  // Sends the call once.
  template <typename Request, typename Response>
  absl::StatusOr<Response> Once(Method<Request, Response> method, const Request& request,
                                const CallOptions& options) const;

  absl::Time Deadline(const CallOptions& options) const;

  std::shared_ptr<Connection> connection_;
  absl::Duration timeout_;
  bool wait_for_ready_;
};

}  // namespace memoryd::client

#endif  // MEMORYD_CLIENT_H_
