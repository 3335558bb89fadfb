#include "core/recall/known_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/blocks/block.h"
#include "core/blocks/block_knowledge.h"
#include "core/blocks/entity_block.h"
#include "core/blocks/fact_state.h"
#include "core/blocks/memory_text.h"
#include "core/blocks/summary_block.h"
#include "core/model/job.h"
#include "core/model/language.h"
#include "core/model/session_config.h"
#include "core/retrieval/search.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Knows what it was given.
class KnowingBlock : public Block {
 public:
  KnowingBlock(std::string name, absl::StatusOr<BlockKnowledge> knowledge)
      : Block(Named(std::move(name))), knowledge_(std::move(knowledge)) {}

  bool feeds() const override { return true; }
  void Feed(FeedRequest, Done<FeedResult> done) const override { done(FeedResult()); }
  void Render(RenderRequest, Done<BlockContent> done) const override { done(BlockContent()); }
  absl::StatusOr<BlockKnowledge> Known(const BlockState&) const override { return knowledge_; }

 private:
  static BlockSettings Named(std::string name) {
    BlockSettings settings;
    settings.name = std::move(name);
    return settings;
  }

  const absl::StatusOr<BlockKnowledge> knowledge_;
};

BlockStates StatesOf(BlockSet blocks) {
  BlockStates states;
  states.states.resize(blocks.size());
  states.blocks = std::make_shared<const BlockSet>(std::move(blocks));
  return states;
}

std::vector<std::string> Found(const KnownTexts& texts, std::string_view query) {
  SearchRequest request;
  request.query = query;
  request.top_k = 10;
  std::vector<std::string> found;
  for (const SearchHit& hit : texts.index().Search(request)) {
    const KnownText& text = *texts.at(hit.position);
    found.push_back(text.block + "/" + text.text());
  }
  return found;
}

FactState Facts(std::size_t count) {
  FactState state;
  for (std::size_t i = 0; i < count; ++i) {
    Fact fact;
    fact.id = static_cast<std::int64_t>(i + 1);
    fact.text = "fact number" + std::to_string(i + 1);
    state.facts.push_back(std::move(fact));
  }
  return state;
}

TEST(KnownTextsTest, WhatBlocksKnowIsFoundUnderTheirNames) {
  EntityState entities;
  entities.entities.push_back({"Rex", "A beagle.", {}, 1, 1});
  SummaryState summary;
  summary.summary = "They met a beagle.";
  const KnownTexts texts(
      StatesOf({std::make_shared<KnowingBlock>("e", BlockKnowledge{entities}),
                std::make_shared<KnowingBlock>("s", BlockKnowledge{summary}),
                std::make_shared<KnowingBlock>("f", BlockKnowledge{Facts(1)}),
                std::make_shared<KnowingBlock>("n", BlockKnowledge{KnownEntries{3}})}),
      ByteTokenCounter(), IndexOptions());
  EXPECT_THAT(Found(texts, "rex"), ElementsAre("e/Rex: A beagle."));
  EXPECT_THAT(Found(texts, "beagle met"), ElementsAre("s/They met a beagle.", "e/Rex: A beagle."));
  EXPECT_THAT(Found(texts, "number1"), ElementsAre("f/fact number1"));
  EXPECT_GT(texts.at(0)->token_count, 0);
}

TEST(KnownTextsTest, ABlockThatCannotBeReadIsLeftOut) {
  const KnownTexts texts(
      StatesOf({std::make_shared<KnowingBlock>("bad", absl::DataLossError("torn")),
                std::make_shared<KnowingBlock>("f", BlockKnowledge{Facts(1)})}),
      ByteTokenCounter(), IndexOptions());
  EXPECT_THAT(Found(texts, "number1"), ElementsAre("f/fact number1"));
}

TEST(KnownTextsTest, OfTooManyTheLatestOfABlockAreKept) {
  const KnownTexts texts(StatesOf({std::make_shared<KnowingBlock>("f", BlockKnowledge{Facts(5001)}),
                                   std::make_shared<KnowingBlock>("g", BlockKnowledge{Facts(1)})}),
                         ByteTokenCounter(), IndexOptions());
  EXPECT_THAT(Found(texts, "number1"), IsEmpty());
  EXPECT_THAT(Found(texts, "number5001"), ElementsAre("f/fact number5001"));
}

TEST(KnownTextsTest, WhatDoesNotTellItsLanguageIsInTheUsualOne) {
  FactState facts;
  facts.facts.emplace_back().text = "Bücher";
  const BlockStates states = StatesOf({std::make_shared<KnowingBlock>("f", BlockKnowledge{facts})});
  IndexOptions options;
  EXPECT_THAT(Found(KnownTexts(states, ByteTokenCounter(), options), "Buch"), IsEmpty());
  options.usual_language = Language::kGerman;
  EXPECT_THAT(Found(KnownTexts(states, ByteTokenCounter(), options), "Buch"),
              ElementsAre("f/Bücher"));
}

TEST(KnownTextsTest, TheyAreOfTheirStatesAndOptions) {
  BlockStates states = StatesOf({std::make_shared<KnowingBlock>("f", BlockKnowledge{Facts(1)})});
  const KnownTexts texts(states, ByteTokenCounter(), IndexOptions());
  EXPECT_TRUE(texts.IsOf(states, IndexOptions()));
  IndexOptions others;
  others.dates = false;
  EXPECT_FALSE(texts.IsOf(states, others));
  states.states[0] = std::make_shared<const BlockState>();
  EXPECT_FALSE(texts.IsOf(states, IndexOptions()));
}

}  // namespace
}  // namespace memoryd
