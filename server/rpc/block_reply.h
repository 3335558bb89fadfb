// What a block knows -> replies of BlockService, as bytes.
#ifndef MEMORYD_SERVER_RPC_BLOCK_REPLY_H_
#define MEMORYD_SERVER_RPC_BLOCK_REPLY_H_

#include <string>
#include <string_view>

#include "core/reads/block_view.h"
#include "core/writes/write.h"
#include "memoryd/v1/block_service.pb.h"

namespace memoryd {

void Fill(const Fact& fact, v1::Fact& proto);
void Fill(const Entity& entity, v1::Entity& proto);
std::string GetBlockReply(const BlockView& view);
std::string ListBlockEntriesReply(const EntryPage& page, std::string_view next_page_token);
// For WriteRequest::encode_reply.
std::string UndoBlockChangeReply(const WriteResult& result);
std::string AddFactReply(const WriteResult& result);
std::string UpdateFactReply(const WriteResult& result);
std::string DeleteFactReply(const WriteResult& result);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_BLOCK_REPLY_H_
