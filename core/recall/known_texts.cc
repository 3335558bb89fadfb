#include "core/recall/known_texts.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/overloaded.h"
#include "core/blocks/block.h"
#include "core/blocks/entity_block.h"
#include "core/blocks/fact_state.h"
#include "core/model/job.h"
#include "core/retrieval/search.h"
#include "core/tokens/token_counter.h"

namespace memoryd {
std::string KnownText::text() const {
  return std::visit(
      Overloaded{[](const std::string& text) { return text; },
                 [](const Fact& fact) { return fact.text; },
                 [](const Entity& entity) { return entity.name + ": " + entity.line; }},
      item);
}

KnownTexts::KnownTexts(BlockStates of, const TokenCounter& counter, IndexOptions options)
    : of_(std::move(of)), options_(std::move(options)), index_(options_) {
  for (std::size_t i = 0; i < of_.blocks->size(); ++i) {
    Add(*(*of_.blocks)[i], of_.states[i].get(), counter);
  }
  bytes_ += sizeof(*this) + index_.ByteSize();
}

void KnownTexts::Add(const Block& block, const BlockState* state, const TokenCounter& counter) {
  std::vector<BlockText> texts =
      block.Texts(state == nullptr ? BlockState() : *state, of_.session, kMaxTexts - texts_.size());
  for (BlockText& text : texts) Add({block.name(), std::move(text)}, counter);
}

void KnownTexts::Add(KnownText text, const TokenCounter& counter) {
  const std::string words = text.text();
  if (words.empty()) return;
  text.token_count = counter.Count(words);
  IndexedItem item;
  item.kind = ItemKind::kContent;
  item.position = static_cast<std::int64_t>(texts_.size());
  item.text = words;
  index_.Add(item);
  bytes_ += sizeof(KnownText) + words.size();
  texts_.push_back(std::make_shared<const KnownText>(std::move(text)));
}

bool KnownTexts::IsOf(const BlockStates& blocks, const IndexOptions& options) const {
  return of_.blocks == blocks.blocks && of_.states == blocks.states && options_ == options;
}

}  // namespace memoryd
