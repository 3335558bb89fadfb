#include "core/recall/known_texts.h"

#include <algorithm>
#include <utility>

#include "core/blocks/block_knowledge.h"

namespace memoryd {
namespace {

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

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

// The last ones, where there are more than there is room for.
template <typename Item>
std::vector<KnownText> Newest(const std::string& block, std::vector<Item> items, std::size_t room) {
  std::vector<KnownText> texts;
  for (std::size_t i = items.size() - std::min(items.size(), room); i < items.size(); ++i) {
    texts.push_back({block, std::move(items[i])});
  }
  return texts;
}

}  // namespace

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
  auto known = block.Known(state == nullptr ? BlockState() : *state);
  if (!known.ok()) return;
  const std::size_t room = kMaxTexts - texts_.size();
  std::vector<KnownText> texts = std::visit(
      Overloaded{
          [&](FactState& facts) { return Newest(block.name(), std::move(facts.facts), room); },
          [&](EntityState& entities) {
            return Newest(block.name(), std::move(entities.entities), room);
          },
          [&](SummaryState& summary) {
            return Newest<std::string>(block.name(), {std::move(summary.summary)}, room);
          },
          [&](std::monostate&) {
            if (!block.stable()) return std::vector<KnownText>();
            return Newest(block.name(), SaidBy(block, of_.session), room);
          },
          [](auto&) { return std::vector<KnownText>(); }},
      known->of_kind);
  for (KnownText& text : texts) Add(std::move(text), counter);
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
