// A memoryd in memory, for tests of code that uses Client: no server, no network, no time.
//
//   auto fake = std::make_shared<memoryd::client::FakeConnection>();
//   Agent agent{memoryd::client::Client(fake)};
//   fake->FailNext(absl::UnavailableError("restarting"));
#ifndef MEMORYD_FAKE_CONNECTION_H_
#define MEMORYD_FAKE_CONNECTION_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "memoryd/connection.h"

namespace memoryd::client {

// When a failure that a test has ordered comes.
enum class FailAt {
  kRequest,  // Nothing is done.
  kReply,    // What the call asks for is done, and the answer lost.
};

// Keeps messages, contents and sessions as memoryd does: positions, ids, revisions, request ids,
// pages, and the refusals INVALID_ARGUMENT (no session id, message without a role), NOT_FOUND,
// ALREADY_EXISTS and ABORTED with their reasons. Nothing ever leaves short-term memory: Get answers
// all messages and counts no tokens. StreamAll knows no filter, and fails as ordered before any of
// its pages. A tool's call goes without its results. Query finds what holds all words of the query,
// compared bytewise, the newest first; it knows no filters and neighbours. UpdateContext returns
// the context as it is. There are no jobs, blocks, forks, imports and subjects. Subclass it for
// other answers; call the method of this class for the rest.
//
// For any number of threads.
class FakeConnection : public Connection {
 public:
  // The next call for which nothing is ordered yet fails so.
  void FailNext(absl::Status status, FailAt at = FailAt::kRequest);

  // How many attempts of calls were made, and how long Client has paused between them in all: Wait
  // only moves the clock.
  int attempts() const;
  absl::Duration waited() const;

  absl::StatusOr<v1::PutResponse> Put(const v1::PutRequest& request,
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

  absl::Time Now() override;
  void Wait(absl::Duration pause) override;

 private:
  struct Session {
    v1::SessionConfig config;
    std::uint64_t generation = 0;
    std::int64_t revision = 0;
    std::int64_t next_position = 1;
    std::int64_t next_content_position = 1;
    std::vector<v1::Message> messages;
    std::vector<v1::Content> contents;
  };
  struct Place {
    Session* session;
    std::vector<v1::Message>::iterator message;
  };
  struct ContentPlace {
    Session* session;
    std::vector<v1::Content>::iterator content;
  };
  struct Failure {
    absl::Status status;
    FailAt at;
  };
  struct Answered {
    std::string request;
    std::string reply;
  };

  // Runs a call under the lock, or fails as ordered.
  template <typename Response>
  absl::StatusOr<Response> Run(const std::function<absl::StatusOr<Response>()>& call);
  // Also answers a request id as before.
  template <typename Response, typename Request>
  absl::StatusOr<Response> RunOnce(const char* method, const Request& request,
                                   const std::function<absl::StatusOr<Response>()>& call);

  // The session, made if there is none; null where there is none. The mutex is held.
  Session& Made(const std::string& session_id);
  Session* Found(const std::string& session_id);
  // Where the message, or content, is that a request means, which is checked.
  template <typename Request>
  absl::StatusOr<Place> PlaceOf(const Request& request);
  template <typename Request>
  absl::StatusOr<ContentPlace> ContentPlaceOf(const Request& request);
  v1::Session Described(const std::string& session_id, const Session& session) const;
  // Stores the messages and contents of a Put or Set and fills in what its reply says of them.
  template <typename Request, typename Response>
  void Append(const Request& request, Session& session, Response& reply);

  mutable std::mutex mutex_;  // Guards all below.
  std::map<std::string, Session> sessions_;
  std::map<std::string, Answered> answered_;  // By request id.
  std::deque<Failure> failures_;
  int attempts_ = 0;
  std::uint64_t generations_ = 0;
  absl::Time now_ = absl::UnixEpoch();
  absl::Duration waited_;
};

}  // namespace memoryd::client

#endif  // MEMORYD_FAKE_CONNECTION_H_
