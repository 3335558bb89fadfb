#include "server/rpc/handed_on.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/blocks/block.h"
#include "core/lifecycle/attached_sessions.h"
#include "core/writes/incoming.h"
#include "core/writes/write.h"
#include "memoryd/v1/memory.pb.h"
#include "server/wire/convert.h"
#include "server/wire/stored_body.h"

namespace memoryd {

absl::Status EncodeHandedOn(const HandedOn& from, WriteRequest& write) {
  IncomingItems& items = std::get<commands::Put>(write.command).items;
  const auto messages = std::make_shared<std::vector<v1::Message>>();
  messages->reserve(from.messages.size());
  items.messages.clear();
  for (const BlockMessage& handed : from.messages) {
    v1::Message& message = messages->emplace_back();
    if (!ParseBody(handed.row->body, message)) {
      return absl::DataLossError("a stored body can't be read back");
    }
    // Looked at where the caller counts.
    message.set_token_count(handed.row->token_count);
    const std::string writer = message.writer();
    Provenance provenance;
    provenance.writer = writer;
    provenance.source_session_id = from.source_session_id;
    provenance.source_message_id = handed.id;
    MEMORYD_ASSIGN_OR_RETURN(IncomingMessage incoming, FromProto(message, provenance));
    items.messages.push_back(std::move(incoming));
  }
  items.keep_alive = messages;
  const Sha256Digest digest = Sha256(fmt::format("{}\n{}", from.source_session_id, from.job_id));
  write.request_id = "handed-on-";
  for (const unsigned char byte : digest) write.request_id += fmt::format("{:02x}", byte);
  write.fingerprint.assign(digest.begin(), digest.end());
  return absl::OkStatus();
}

}  // namespace memoryd
