// Messages that one session hands on to another, as they are put there.
#ifndef MEMORYD_SERVER_RPC_HANDED_ON_H_
#define MEMORYD_SERVER_RPC_HANDED_ON_H_

#include "absl/status/status.h"
#include "core/lifecycle/attached_sessions.h"
#include "core/writes/write.h"

namespace memoryd {

// A HandOnEncoder. Who wrote a message, and whether he is to be believed, goes with it. DATA_LOSS
// for a body that can't be read.
absl::Status EncodeHandedOn(const HandedOn& from, WriteRequest& write);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_HANDED_ON_H_
