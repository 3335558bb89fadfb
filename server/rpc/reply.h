// What the engine gives -> replies of the wire, as bytes.
#ifndef MEMORYD_SERVER_RPC_REPLY_H_
#define MEMORYD_SERVER_RPC_REPLY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/engine/engine.h"
#include "core/writes/write.h"

namespace memoryd {

// For WriteRequest::encode_reply.
std::string PutReply(const WriteResult& result);
// A PutResponse with the jobs that are open, and what models took while it waited for them.
std::string WithOpenJobs(std::string reply, const std::vector<OpenJob>& jobs, const Usage& usage);
std::string SetReply(const WriteResult& result);
std::string ResetReply(const WriteResult& result);
// The session id of these is not in the result: WithSessionId() adds it.
std::string CreateSessionReply(const WriteResult& result);
std::string UpdateSessionReply(const WriteResult& result);
std::string ForkSessionReply(const WriteResult& result);
std::string ImportSessionReply(const WriteResult& result);
std::string DeleteSessionReply(const WriteResult& result);

// A reply of one of these four with session.session_id set.
std::string WithSessionId(std::string reply, std::string_view session_id);

// A reply with its `replayed` field, whose number is `field`, set to true.
std::string Replayed(std::string reply, int field);

// Takes the memory of a large reply, of about so many bytes, before it is made.
using TakeReplyMemory = std::function<absl::Status(std::size_t)>;

// FAILED_PRECONDITION `REPLY_TOO_LARGE` above 64 MiB; the error of `take`, which is asked above
// 64 KiB.
absl::StatusOr<std::string> GetReply(const Context& context, const TakeReplyMemory& take);
// The most bytes of the next one's reply, before it is made.
std::size_t GetAllReplySize(const Page& page, std::string_view next_page_token);
std::string GetAllReply(const Page& page, std::string_view next_page_token);
std::string GetContentReply(const ContentView& view);
std::string GetSessionReply(std::string_view session_id, const SessionInfo& info);
std::string ListSessionsReply(const std::vector<std::pair<std::string, SessionInfo>>& sessions,
                              std::string_view next_page_token);

// `reload`: the reader has to read the session again, whatever else is new.
std::string WatchSessionReply(std::string_view session_id, const SessionState& state,
                              const StateChanges& news, bool reload);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_REPLY_H_
