// The sessions of a FakeConnection.
#ifndef MEMORYD_FAKE_SESSIONS_H_
#define MEMORYD_FAKE_SESSIONS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "memoryd/v1/memory_service.pb.h"
#include "memoryd/v1/session_service.pb.h"

namespace memoryd::client {

// Does RPCs of MemoryService and SessionService in memory; FakeConnection says how they differ from
// memoryd's. Request ids are its owner's. One thread at a time.
class FakeSessions {
 public:
  absl::StatusOr<v1::PutResponse> Put(const v1::PutRequest& request);
  absl::StatusOr<v1::GetResponse> Get(const v1::GetRequest& request);
  absl::StatusOr<v1::GetAllResponse> GetAll(const v1::GetAllRequest& request);
  absl::StatusOr<v1::SetResponse> Set(const v1::SetRequest& request);
  absl::StatusOr<v1::ResetResponse> Reset(const v1::ResetRequest& request);
  absl::StatusOr<v1::UpdateMessageResponse> UpdateMessage(const v1::UpdateMessageRequest& request);
  absl::StatusOr<v1::DeleteMessageResponse> DeleteMessage(const v1::DeleteMessageRequest& request);
  absl::StatusOr<v1::GetContentResponse> GetContent(const v1::GetContentRequest& request);
  absl::StatusOr<v1::UpdateContentResponse> UpdateContent(const v1::UpdateContentRequest& request);
  absl::StatusOr<v1::DeleteContentResponse> DeleteContent(const v1::DeleteContentRequest& request);
  absl::StatusOr<v1::QueryResponse> Query(const v1::QueryRequest& request);
  absl::StatusOr<v1::UpdateContextResponse> UpdateContext(const v1::UpdateContextRequest& request);
  absl::StatusOr<v1::CreateSessionResponse> CreateSession(const v1::CreateSessionRequest& request);
  absl::StatusOr<v1::GetSessionResponse> GetSession(const v1::GetSessionRequest& request);
  absl::StatusOr<v1::ListSessionsResponse> ListSessions(const v1::ListSessionsRequest& request);
  absl::StatusOr<v1::UpdateSessionResponse> UpdateSession(const v1::UpdateSessionRequest& request);
  absl::StatusOr<v1::DeleteSessionResponse> DeleteSession(const v1::DeleteSessionRequest& request);

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
  // Return the session. Made() creates a missing one; Found() returns null.
  Session& Made(const std::string& session_id);
  Session* Found(const std::string& session_id);
  // Check the request and return the place of its message or content.
  template <typename Request>
  absl::StatusOr<Place> PlaceOf(const Request& request);
  template <typename Request>
  absl::StatusOr<ContentPlace> ContentPlaceOf(const Request& request);
  v1::Session Described(const std::string& session_id, const Session& session) const;
  // Stores the messages and contents of a Put or Set, and fills in their fields of the reply.
  template <typename Request, typename Response>
  void Append(const Request& request, Session& session, Response& reply);

  std::map<std::string, Session> sessions_;
  std::uint64_t generations_ = 0;
};

}  // namespace memoryd::client

#endif  // MEMORYD_FAKE_SESSIONS_H_
