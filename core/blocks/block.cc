#include "core/blocks/block.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/overloaded.h"
#include "core/blocks/block_knowledge.h"
#include "core/blocks/entity_block.h"
#include "core/blocks/fact_state.h"
#include "core/blocks/summary_block.h"
#include "core/model/body_reader.h"
#include "core/model/job.h"
#include "core/tokens/token_counter.h"

namespace memoryd {
namespace {

// What a stable block says, part by part: nothing where it can't.
std::vector<std::string> SaidBy(const Block& block, const BlockSession& session) {
  RenderRequest render;
  render.session = session;
  std::vector<std::string> texts;
  block.Render(std::move(render), [&texts](absl::StatusOr<BlockContent> said) {
    if (!said.ok()) return;
    for (BlockPart& part : said->parts) {
      if (part.kind == StoredPart::Kind::kText) texts.push_back(std::move(part.text));
    }
  });
  return texts;
}

template <typename Item>
std::vector<BlockText> Newest(std::vector<Item> items, std::size_t most) {
  std::vector<BlockText> texts;
  for (std::size_t i = items.size() - std::min(items.size(), most); i < items.size(); ++i) {
    texts.emplace_back(std::move(items[i]));
  }
  return texts;
}

}  // namespace

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

std::vector<BlockText> Block::Texts(const BlockState& state, const BlockSession& session,
                                    std::size_t most) const {
  auto known = Known(state);
  if (!known.ok()) return {};
  return std::visit(
      Overloaded{[&](FactState& facts) { return Newest(std::move(facts.facts), most); },
                 [&](EntityState& entities) { return Newest(std::move(entities.entities), most); },
                 [&](SummaryState& summary) {
                   return Newest<std::string>({std::move(summary.summary)}, most);
                 },
                 [&](std::monostate&) {
                   if (!stable()) return std::vector<BlockText>();
                   return Newest(SaidBy(*this, session), most);
                 },
                 [](auto&) { return std::vector<BlockText>(); }},
      known->of_kind);
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
