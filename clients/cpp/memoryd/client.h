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

// A message of one text.
v1::Message MakeMessage(std::string_view role, std::string_view text);
// A content of text.
v1::Content MakeContent(std::string_view text, std::string_view mime_type = "text/plain");

// A connection to one memoryd, for any number of threads; copies share it. Methods are the RPCs of
// proto/memoryd/v1, where their contracts stand, and block until the answer or the deadline.
//
// A call that changes something carries a request id, made once for the call unless the request has
// one; so a call that fails UNAVAILABLE or CANCELLED, whose outcome is unknown, is repeated until
// its deadline without ever being done twice. RetryJob and CancelJob have no request id and are not
// repeated: they wait for a connection and are sent once. GetErrorInfo tells reason and field of a
// failure.
class Client {
 public:
  explicit Client(const Options& options = {});
  // Over a connection of the caller's, such as a FakeConnection. Of `options` the timeout and
  // wait_for_ready count.
  explicit Client(std::shared_ptr<Connection> connection, const Options& options = {});

  // Memory.

  // Options::timeout begins behind the `wait` of the request; a timeout of the call's own covers
  // it.
  absl::StatusOr<v1::PutResponse> Put(v1::PutRequest request,
                                      const CallOptions& options = {}) const;
  absl::StatusOr<v1::PutResponse> Put(std::string_view session_id,
                                      std::vector<v1::Message> messages,
                                      const CallOptions& options = {}) const;
  absl::StatusOr<v1::GetResponse> Get(const v1::GetRequest& request,
                                      const CallOptions& options = {}) const;
  absl::StatusOr<v1::GetResponse> Get(std::string_view session_id,
                                      const CallOptions& options = {}) const;
  // One page.
  absl::StatusOr<v1::GetAllResponse> GetAll(const v1::GetAllRequest& request,
                                            const CallOptions& options = {}) const;
  // All messages, or contents, of a session, oldest first, fetched page by page; the timeout is
  // each page's own.
  absl::StatusOr<std::vector<v1::Message>> AllMessages(std::string_view session_id,
                                                       const CallOptions& options = {}) const;
  absl::StatusOr<std::vector<v1::Content>> AllContents(std::string_view session_id,
                                                       const CallOptions& options = {}) const;
  // Every page of the stream, which is gone on with behind its last page when it breaks off; a page
  // is waited for as long as the timeout says. OK too when `read` ended it.
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
  // One page.
  absl::StatusOr<v1::ListSessionsResponse> ListSessions(const v1::ListSessionsRequest& request,
                                                        const CallOptions& options = {}) const;
  // All sessions by id, as AllMessages.
  absl::StatusOr<std::vector<v1::Session>> AllSessions(const CallOptions& options = {}) const;
  absl::StatusOr<v1::Session> UpdateSession(v1::UpdateSessionRequest request,
                                            const CallOptions& options = {}) const;
  absl::StatusOr<v1::DeleteSessionResponse> DeleteSession(v1::DeleteSessionRequest request,
                                                          const CallOptions& options = {}) const;
  absl::StatusOr<v1::ForkSessionResponse> ForkSession(v1::ForkSessionRequest request,
                                                      const CallOptions& options = {}) const;
  // Requests are made by `next` as the server takes them; how, see v1::ImportSessionRequest. There
  // is no deadline but the call's own timeout, and one that broke off is not repeated:
  // `SESSION_EXISTS` may mean that an earlier try was done.
  absl::StatusOr<v1::Session> ImportSession(const ImportSource& next,
                                            const CallOptions& options = {}) const;
  absl::StatusOr<v1::EraseSubjectResponse> EraseSubject(const v1::EraseSubjectRequest& request,
                                                        const CallOptions& options = {}) const;

  // What blocks know.

  absl::StatusOr<v1::GetBlockResponse> GetBlock(const v1::GetBlockRequest& request,
                                                const CallOptions& options = {}) const;
  // One page.
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

  // Repeats the call while its outcome is unknown and there is time. When there is none left, a
  // failure is returned that leaves open whether it was done, if any attempt did.
  template <typename Request, typename Response>
  absl::StatusOr<Response> Repeat(Method<Request, Response> method, const Request& request,
                                  const CallOptions& options) const;
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
