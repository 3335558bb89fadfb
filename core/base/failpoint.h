// Places at which a test can end the process or have an exception thrown:
//
//   ReachFailpoint("commit_sent");
//
// That does nothing, but in the executable memoryd_failpoints, which has a definition of its own
// (tests/torture/failpoints.cc). On the way of a write, in order; other calls pass the first and
// the replies too:
//
//   request_parsed   its RPC has been parsed
//   write_queued     it is about to wait for the committer of its session
//   batch_drafted    what its batch changes is known, and nothing of that is sent
//   commit_begun     SQLite: the transaction is open; PostgreSQL: the statement is made
//   commit_sent      SQLite: the transaction is complete, COMMIT not run; PostgreSQL: the statement
//                    is on its way, the answer not read
//   commit_answered  the store has said what became of it
//   session_applied  the session in memory is what is stored
//   reply_ready      the answer is known to the caller's RPC
//   reply_given      the answer was handed to gRPC
//   job_answered     a block was fed, and the end of its job is not written
//
// And on the way of a read: `session_loaded`, when a session's row and messages have come.
#ifndef MEMORYD_CORE_BASE_FAILPOINT_H_
#define MEMORYD_CORE_BASE_FAILPOINT_H_

#include <string_view>

namespace memoryd {

// Any thread.
void ReachFailpoint(std::string_view name);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BASE_FAILPOINT_H_
