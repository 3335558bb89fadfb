// Replies to callers that may write and not read.
#ifndef MEMORYD_SERVER_WRITE_ONLY_REPLY_H_
#define MEMORYD_SERVER_WRITE_ONLY_REPLY_H_

#include <string>

#include "server/method.h"

namespace memoryd {

// A reply of `method` without text that was stored before the call: with ids, counts, revisions,
// times and what the request itself brought. Stored replies, which are sent again to a repeated
// request, are those of a caller that reads, so this is for them too.
std::string WithoutStoredText(Method method, std::string reply);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_WRITE_ONLY_REPLY_H_
