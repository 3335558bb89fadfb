#include "core/blocks/block.h"

#include "core/blocks/block_knowledge.h"

namespace memoryd {

void FeedRequest::DropBodies(std::size_t bytes) {
  for (BlockMessage& message : messages) {
    message.row = nullptr;
    StoredMessage kept;
    kept.role = std::move(message.parts.role);
    kept.untrusted = message.parts.untrusted;
    message.parts = std::move(kept);
    bytes += sizeof(BlockMessage) + message.id.size();
  }
  memory.Resize(static_cast<std::int64_t>(bytes));
}

absl::StatusOr<BlockKnowledge> Block::Known(const BlockState& /*state*/) const {
  return BlockKnowledge();
}

void Block::Truncate(const BlockSession& /*session*/, BlockContent /*content*/,
                     std::int64_t /*tokens*/, const TokenCounter& /*counter*/,
                     BlockDeadline /*deadline*/, Done<BlockContent> done) const {
  done(BlockContent());
}

BlockPart ToBlockPart(StoredPart stored, const std::string& body) {
  BlockPart part;
  part.kind = stored.kind;
  part.text = std::move(stored.text);
  if (part.kind != StoredPart::Kind::kText) part.body = body;
  part.url = std::move(stored.url);
  part.mime_type = std::move(stored.mime_type);
  part.opaque_type = std::move(stored.opaque_type);
  part.token_count = stored.token_count;
  return part;
}

}  // namespace memoryd
