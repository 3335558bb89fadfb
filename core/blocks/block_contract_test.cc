// What holds for every kind of block, whatever it knows: a kind is tested by being in the table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/blocks/block.h"
#include "core/blocks/block_kinds.h"
#include "core/blocks/block_knowledge.h"
#include "core/blocks/block_traits.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/entity_block.h"
#include "core/blocks/entry_log.h"
#include "core/blocks/fact_changes.h"
#include "core/blocks/fact_state.h"
#include "core/blocks/worker_blocks.h"
#include "core/model/session_config.h"
#include "tests/support/block_fixture.h"
#include "tests/support/fake_clock.h"

namespace memoryd {
namespace {

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::int64_t kTtl = 60 * kSecond;

// A worker's block that remembers the ids of its messages and says them.
class RememberingWorker final : public WorkerBlocks {
 public:
  void Put(const WorkerBlockName& /*block*/, FeedRequest request, Done<FeedResult> done) override {
    FeedResult result;
    result.state = std::move(request.state.state);
    for (const BlockMessage& message : request.messages) result.state += message.id + " ";
    done(std::move(result));
  }
  void Get(const WorkerBlockName& /*block*/, RenderRequest request,
           Done<BlockContent> done) override {
    BlockContent content;
    if (request.state != nullptr && !request.state->state.empty()) {
      content.parts.emplace_back().text = request.state->state;
    }
    done(std::move(content));
  }
  void Truncate(const WorkerBlockName& /*block*/, const BlockSession& /*session*/,
                BlockContent /*content*/, std::int64_t /*tokens*/, BlockDeadline /*deadline*/,
                Done<BlockContent> done) override {
    done(BlockContent());
  }
};

class BlockContractTest : public testing::TestWithParam<std::tuple<std::string, Profile>>,
                          protected BlockFixture {
 protected:
  void SetUp() override {
    session.profile = std::get<Profile>(GetParam());
    settings_ = LeastSettings(std::get<std::string>(GetParam()), session.profile);
    Remake();
  }

  BlockSettings WithOption(const std::string& option) const {
    BlockSettings settings = settings_;
    std::string& json = settings.options_json;
    json = json.empty() ? "{" + option + "}" : json.substr(0, json.size() - 1) + "," + option + "}";
    return settings;
  }

  void Remake() {
    BlockEnvironment environment = Environment();
    environment.workers = &workers_;
    const auto made = MakeBlock(settings_, "config.blocks[0]", session.profile, environment);
    ASSERT_TRUE(made.ok()) << made.status();
    block = *made;
    traits_ = TraitsOf(settings_, session.profile);
  }

  // Feeds two jobs of a message each. The model says something that every kind can read.
  void FeedTwice() {
    for (const char* const name : {"Ann", "Bob"}) {
      const std::string line = std::string(name) + ": likes tea.";
      models.chat->replies.assign(
          3, "<facts><fact>" + line + "</fact></facts>\n<entities><entity name=\"" + name +
                 "\">likes tea</entity></entities>\n<summary>" + line + "</summary>");
      const absl::Status fed = Feed({Text("user", line)});
      ASSERT_TRUE(fed.ok()) << fed;
    }
  }
  BlockKnowledge Knowledge(const BlockState& of) {
    auto known = block->Known(of);
    EXPECT_TRUE(known.ok()) << known.status();
    return known.ok() ? *std::move(known) : BlockKnowledge();
  }
  std::vector<std::string> TextsOf(const BlockState& of, std::size_t most = 1000) {
    std::vector<std::string> texts;
    for (const BlockText& text : block->Texts(of, session, most)) {
      if (const auto* const plain = std::get_if<std::string>(&text)) texts.push_back(*plain);
      if (const auto* const fact = std::get_if<Fact>(&text)) texts.push_back(fact->text);
      if (const auto* const entity = std::get_if<Entity>(&text)) texts.push_back(entity->name);
    }
    return texts;
  }
  // The state after `gone`, the same when nothing follows.
  absl::StatusOr<BlockState> After(const BlockState& before, const GoneMessages& gone) {
    auto after = traits_->OnMessagesGone(before, gone);
    if (!after.ok()) return after.status();
    EXPECT_GE(after->retired_facts, 0);
    if (after->retired_facts > 0) {
      EXPECT_TRUE(after->state.has_value());
    }
    BlockState state_after = before;
    if (after->state.has_value()) state_after.state = *std::move(after->state);
    return state_after;
  }

  FakeRandom random_{[] { return std::uint64_t{4711}; }};
  RememberingWorker workers_;
  BlockSettings settings_;
  std::shared_ptr<const BlockTraits> traits_;
};

std::vector<std::string> KindNames() {
  std::vector<std::string> names;
  for (const BlockKind& kind : BlockKindTable()) names.emplace_back(kind.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Kinds, BlockContractTest,
                         testing::Combine(testing::ValuesIn(KindNames()),
                                          testing::Values(Profile::kDefault, Profile::kLlamaIndex)),
                         [](const auto& tested) {
                           std::string name = std::get<std::string>(tested.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name + (std::get<Profile>(tested.param) == Profile::kDefault
                                              ? ""
                                              : "_llama_index");
                         });

TEST_P(BlockContractTest, TheTableIsInAlphabeticalOrder) {
  const std::vector<std::string> names = KindNames();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
}

TEST_P(BlockContractTest, TraitsAreReadOnceAndShared) {
  std::vector<BlockSettings> settings = {settings_};
  ReadTraits(settings, session.profile);
  ASSERT_NE(settings[0].traits, nullptr);
  EXPECT_EQ(TraitsOf(settings[0], session.profile), settings[0].traits);
  EXPECT_EQ(settings[0], settings_);
  EXPECT_TRUE(traits_->status().ok());
  EXPECT_EQ(block->feeds(), traits_->feed() != BlockFeed::kNever);
  EXPECT_EQ(block->has_entries(), traits_->has_entries());
  EXPECT_FALSE(traits_->HasTexts(1));
}

TEST_P(BlockContractTest, MessagesAreKeptAwayByTheOption) {
  const BlockSettings deaf = WithOption(R"("accept_short_term_memory":false)");
  const auto traits = TraitsOf(deaf, session.profile);
  if (traits->status().ok()) {
    EXPECT_EQ(traits->feed(), BlockFeed::kNever);
  }
}

TEST_P(BlockContractTest, ATemplateIsAText) {
  const auto traits = TraitsOf(WithOption(R"("template":"Rules: {content}")"), session.profile);
  EXPECT_TRUE(traits->HasTexts(0));
}

TEST_P(BlockContractTest, WhatItKnowsIsInItsState) {
  FeedTwice();
  const BlockState copy = state;
  // As another server has it, and as a fork has it.
  Remake();
  EXPECT_EQ(Knowledge(copy).of_kind.index(), Knowledge(state).of_kind.index());
  EXPECT_EQ(TextsOf(copy), TextsOf(state));
  const std::string said = Said({Text("user", "Ann and Bob like tea.")});
  session.key.session = "fork";
  EXPECT_EQ(Said({Text("user", "Ann and Bob like tea.")}), said);
  // A job without messages learns nothing.
  models.chat->replies.clear();
  ASSERT_TRUE(Feed({}).ok());
  EXPECT_EQ(TextsOf(state), TextsOf(copy));
}

TEST_P(BlockContractTest, TheLatestTextsAreFoundWhereThereAreMany) {
  FeedTwice();
  const std::vector<std::string> all = TextsOf(state);
  for (std::size_t most = 0; most <= all.size(); ++most) {
    const std::vector<std::string> last(all.end() - static_cast<std::ptrdiff_t>(most), all.end());
    EXPECT_EQ(TextsOf(state, most), last);
  }
}

TEST_P(BlockContractTest, MessagesThatAreGoneAreTakenNoticeOfOnce) {
  FeedTwice();
  const std::vector<std::string> ids = {"m1"};
  const NumberRange range{1, 2};
  const GoneMessages gone{{&range, 1}, ids, /*changed=*/false, now_us, random_};
  const auto once = After(state, gone);
  ASSERT_TRUE(once.ok()) << once.status();
  Knowledge(*once);
  if (traits_->has_entries()) {
    const auto log = EmbeddingState::FromJson(once->state);
    ASSERT_TRUE(log.ok()) << log.status();
    EXPECT_TRUE(log->log.Hides(1, {{1, "m1"}}));
    EXPECT_FALSE(log->log.Hides(2, {{2, "m2"}}));
  }
  const auto twice = After(*once, gone);
  ASSERT_TRUE(twice.ok()) << twice.status();
  EXPECT_EQ(*twice, *once);
  const auto none = traits_->OnMessagesGone(state, {{}, {}, /*changed=*/false, now_us, random_});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_FALSE(none->state.has_value());
}

TEST_P(BlockContractTest, WhatExpiresGoesWhenItIsSaidTo) {
  BlockSettings timed = WithOption(R"("ttl":60)");
  if (!TraitsOf(timed, session.profile)->status().ok()) {
    // Then nothing expires, however late it is.
    FeedTwice();
    const auto late = traits_->OnTime(state.state, now_us + 1000 * kTtl);
    ASSERT_TRUE(late.ok()) << late.status();
    EXPECT_FALSE(late->state.has_value());
    EXPECT_EQ(late->next_us, 0);
    return;
  }
  settings_ = timed;
  Remake();
  FeedTwice();
  // A worker's options are its own.
  if (!traits_->expires()) return;
  EXPECT_EQ(traits_->ttl_us(), kTtl);
  const auto now = traits_->OnTime(state.state, now_us);
  ASSERT_TRUE(now.ok()) << now.status();
  EXPECT_FALSE(now->state.has_value());
  ASSERT_EQ(now->next_us, now_us + kTtl);
  const auto early = traits_->OnTime(state.state, now->next_us - 1);
  ASSERT_TRUE(early.ok()) << early.status();
  EXPECT_FALSE(early->state.has_value());
  const auto due = traits_->OnTime(state.state, now->next_us);
  ASSERT_TRUE(due.ok() && due->state.has_value()) << due.status();
  EXPECT_EQ(due->next_us, 0);
  state.state = *due->state;
  EXPECT_TRUE(TextsOf(state).empty());
  EXPECT_FALSE(traits_->OnTime(state.state, now->next_us + kTtl)->state.has_value());
}

TEST_P(BlockContractTest, AChangeIsUndoneOrThereIsNone) {
  FeedTwice();
  const auto undone = traits_->UndoChange(state.state, 1, {"", now_us});
  if (!undone.ok()) {
    EXPECT_THAT(ErrorReason(undone.status()),
                testing::AnyOf("BLOCK_KEEPS_NO_HISTORY", "CHANGE_NOT_FOUND"));
  }
  FactEdit edit;
  edit.text = "Cleo likes tea.";
  const auto edited = traits_->EditFact(state.state, edit, {"", now_us});
  EXPECT_EQ(ErrorReason(edited.status()) == "BLOCK_KEEPS_NO_HISTORY",
            ErrorReason(undone.status()) == "BLOCK_KEEPS_NO_HISTORY");
  if (!edited.ok()) return;
  state.state = edited->state;
  EXPECT_THAT(TextsOf(state), testing::Contains(edit.text));
}

TEST_P(BlockContractTest, WhatItSaysBecomesShorterOrGoes) {
  FeedTwice();
  const BlockContent content = Render({Text("user", "Ann and Bob like tea.")}).value();
  const auto words = [](const BlockContent& of) {
    std::int64_t count = 0;
    for (const BlockPart& part : of.parts) count += WordCounter().Count(part.text);
    return count;
  };
  for (std::int64_t tokens = 1; tokens <= words(content); ++tokens) {
    const BlockContent rest = Truncate(content, tokens);
    EXPECT_TRUE(rest.empty() || words(rest) <= words(content) - tokens) << tokens;
  }
  EXPECT_TRUE(Truncate({}, 5).empty());
}

TEST_P(BlockContractTest, AStateThatCannotBeReadIsAnErrorAndNoCrash) {
  state.state = "{";
  state.entry_generation = 7;
  state.next_entry = 2;
  const bool reads_state = !block->Known(state).ok();
  EXPECT_EQ(block->Known(state).status().code(),
            reads_state ? absl::StatusCode::kDataLoss : absl::StatusCode::kOk);
  if (reads_state) {
    EXPECT_TRUE(TextsOf(state).empty());
  }
  const std::vector<std::string> ids = {"m1"};
  const NumberRange range{1, 2};
  for (const absl::Status& status :
       {traits_->OnMessagesGone(state, {{&range, 1}, ids, false, now_us, random_}).status(),
        traits_->OnTime(state.state, now_us).status()}) {
    EXPECT_TRUE(status.ok() || absl::IsDataLoss(status)) << status;
  }
  if (reads_state) {
    EXPECT_FALSE(Feed({Text("user", "hi")}).ok());
  }
}

}  // namespace
}  // namespace memoryd
