// Replies to callers that may write and not read.
#ifndef MEMORYD_SERVER_RPC_WRITE_ONLY_REPLY_H_
#define MEMORYD_SERVER_RPC_WRITE_ONLY_REPLY_H_

#include <string>

#include "memoryd/v1/memory.pb.h"
#include "server/wire/method.h"

namespace memoryd {

// A reply of `method` without text that was stored before the call: with ids, counts, revisions,
// times and what the request itself brought. Stored replies, which are sent again to a repeated
// request, are those of a caller that reads, so this is for them too. `sent` is the configuration
// that a CreateSession brought, null for none: beside a template, the reply has no more than that.
// Not for an import that brought a configuration.
std::string WithoutStoredText(Method method, std::string reply,
                              const v1::SessionConfig* sent = nullptr);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_WRITE_ONLY_REPLY_H_
