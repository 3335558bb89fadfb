// A kind of block that no other file knows: its line of the table is all that it takes to be fed,
// shown, found, expired and described.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/blocks/block.h"
#include "core/blocks/block_kinds.h"
#include "core/blocks/block_knowledge.h"
#include "core/blocks/block_options.h"
#include "core/blocks/block_text.h"
#include "core/blocks/block_traits.h"
#include "core/blocks/fact_state.h"
#include "core/blocks/memory_text.h"
#include "core/blocks/static_block.h"
#include "core/model/job.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/reads/block_view.h"
#include "core/recall/recall.h"
#include "core/recall/session_search.h"
#include "core/writes/commands/facts.h"
#include "core/writes/commands/messages.h"
#include "core/writes/write.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/swept_engine_fixture.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::int64_t kSecond = 1'000'000;
const SessionKey kKey{"tenant", "session"};

// ---- the kind ----

// What was said, word for word. A state has a line for each, with the time and the message's id.
struct Remark {
  std::int64_t time_us = 0;
  std::string message_id;
  std::string text;
};

std::vector<Remark> ReadNotes(std::string_view state) {
  std::vector<Remark> notes;
  while (!state.empty()) {
    const std::size_t end = state.find('\n');
    const std::string_view line = state.substr(0, end);
    const std::size_t id = line.find(' ');
    const std::size_t text = line.find(' ', id + 1);
    Remark& note = notes.emplace_back();
    std::from_chars(line.data(), line.data() + id, note.time_us);
    note.message_id = line.substr(id + 1, text - id - 1);
    note.text = line.substr(text + 1);
    state.remove_prefix(end + 1);
  }
  return notes;
}

std::string WriteNotes(const std::vector<Remark>& notes) {
  std::string state;
  for (const Remark& note : notes) {
    state += fmt::format("{} {} {}\n", note.time_us, note.message_id, note.text);
  }
  return state;
}

class NotesBlock final : public Block {
 public:
  using Block::Block;

  bool stable() const override { return true; }

  void Feed(FeedRequest request, Done<FeedResult> done) const override {
    std::vector<Remark> notes = ReadNotes(request.state.state);
    for (const BlockMessage& message : request.messages) {
      notes.push_back({request.now_us, message.id, JoinedText(message.parts)});
    }
    FeedResult result;
    result.state = WriteNotes(notes);
    done(std::move(result));
  }

  void Render(RenderRequest request, Done<BlockContent> done) const override {
    BlockContent content;
    if (request.state != nullptr) {
      for (Remark& note : ReadNotes(request.state->state)) {
        content.parts.emplace_back().text = std::move(note.text);
      }
    }
    done(std::move(content));
  }

  // In the form of facts.
  absl::StatusOr<BlockKnowledge> Known(const BlockState& state) const override {
    FactState known;
    for (Remark& note : ReadNotes(state.state)) {
      Fact& fact = known.facts.emplace_back();
      fact.id = known.next_id++;
      fact.text = std::move(note.text);
      fact.evidence = {std::move(note.message_id)};
      fact.first_us = fact.last_us = note.time_us;
    }
    return BlockKnowledge{std::move(known)};
  }
};

class NotesTraits final : public BlockTraits {
 public:
  using BlockTraits::BlockTraits;

  absl::StatusOr<StateWithout> OnMessagesGone(const BlockState& state,
                                              const GoneMessages& gone) const override {
    std::vector<Remark> notes = ReadNotes(state.state);
    StateWithout after;
    after.retired_facts =
        static_cast<std::int64_t>(std::erase_if(notes, [&gone](const Remark& note) {
          return std::find(gone.ids.begin(), gone.ids.end(), note.message_id) != gone.ids.end();
        }));
    if (after.retired_facts > 0) after.state = WriteNotes(notes);
    return after;
  }

  absl::StatusOr<StateInTime> OnTime(std::string_view state, std::int64_t now_us) const override {
    StateInTime after;
    if (!expires()) return after;
    std::vector<Remark> notes = ReadNotes(state);
    const std::int64_t last_us = now_us - ttl_us();
    if (std::erase_if(notes, [last_us](const Remark& note) { return note.time_us <= last_us; }) >
        0) {
      after.state = WriteNotes(notes);
    }
    if (!notes.empty()) after.next_us = notes.front().time_us + ttl_us();
    return after;
  }

  absl::StatusOr<std::shared_ptr<const memoryd::Block>> Make(
      const BlockSettings& settings, const std::string& /*field*/,
      const BlockEnvironment& /*environment*/) const override {
    return std::make_shared<const NotesBlock>(settings, shared_from_this());
  }
};

std::shared_ptr<const BlockTraits> ReadNotesTraits(const BlockSettings& settings,
                                                   const std::string& field, Profile /*profile*/) {
  BlockOptions options(OptionsField(field), settings.options_json);
  BlockTraits::Values values = ValuesOf(settings, options);
  values.feed = FeedOption(options, BlockFeed::kArchived);
  values.ttl_us = TtlOption(options);
  values.section = SectionOption(options);
  values.status = options.Finish();
  return std::make_shared<const NotesTraits>(std::move(values));
}

}  // namespace

// In place of kind_table.cc.
std::span<const BlockKind> BlockKindTable() {
  static constexpr BlockKind kKinds[] = {{"notes", ReadNotesTraits}, {"static", ReadStaticTraits}};
  return kKinds;
}

namespace {

// ---- what the engine does with it ----

class OwnKindTest : public SweptEngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    StartSwept(Options());
  }

  // Each message but the last is archived, and fed to the block.
  void Create(std::string options) {
    WriteRequest create = NewWrite(commands::CreateSession(), kKey);
    SessionSettings& settings = SettingsOf(create).emplace(WordSettings());
    settings.token_limit = 1000;
    settings.token_flush_size = 1;
    settings.chat_history_token_ratio = 0;
    BlockSettings block;
    block.name = "said";
    block.kind = "notes";
    block.options_json = std::move(options);
    settings.blocks = {block};
    MustDo(std::move(create));
  }
  // Returns when what has left is fed.
  void Put(std::string text, std::string message_id = {}) {
    WriteRequest put =
        NewWrite(commands::Put(), kKey, {{"user", std::move(text), std::move(message_id)}});
    put.wait_until = Far();
    put.with_open_jobs = [](std::string reply, const std::vector<OpenJob>& open, const Usage&) {
      return open.empty() ? reply : "open";
    };
    const WriteOutcome outcome = Do(std::move(put));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    ASSERT_NE(outcome.reply, "open");
  }

  template <typename T>
  absl::StatusOr<T> Call(auto start) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<T>>>();
    auto future = promise->get_future();
    start([promise](absl::StatusOr<T> result) { promise->set_value(Detached(std::move(result))); });
    return Await(std::move(future));
  }
  std::vector<std::string> Described() {
    auto view =
        Call<BlockView>([&](auto done) { engine_->reads().GetBlock(kKey, "said", Far(), done); });
    EXPECT_TRUE(view.ok()) << view.status();
    std::vector<std::string> texts;
    if (!view.ok()) return texts;
    for (const Fact& fact : std::get<FactState>(view->knowledge.of_kind).facts) {
      texts.push_back(fact.text);
    }
    return texts;
  }
  std::vector<std::string> Found(std::string query) {
    QueryRequest request;
    request.key = kKey;
    request.query = std::move(query);
    request.top_k = 100;
    auto found =
        Call<memoryd::Found>([&](auto done) { engine_->Query(std::move(request), Far(), done); });
    EXPECT_TRUE(found.ok()) << found.status();
    std::vector<std::string> texts;
    if (!found.ok()) return texts;
    for (const FoundItem& item : found->items) {
      if (item.known != nullptr) texts.push_back(item.known->block + ": " + item.known->text());
    }
    return texts;
  }
  std::string Shown() {
    const auto context = Get(*engine_, kKey);
    EXPECT_TRUE(context.ok()) << context.status();
    std::string text;
    if (!context.ok()) return text;
    EXPECT_THAT(context->missing_blocks, IsEmpty());
    for (const BlockPart& part : context->memory) text += part.text;
    return text;
  }
};

TEST_F(OwnKindTest, IsFedShownFoundAndDescribed) {
  Create("");
  Put("apples are red");
  Put("pears are green");
  EXPECT_THAT(Described(), ElementsAre("apples are red"));
  EXPECT_THAT(Found("apples"), ElementsAre("said: apples are red"));
  EXPECT_THAT(Shown(), HasSubstr("apples are red"));
  Put("plums are blue");
  EXPECT_THAT(Described(), ElementsAre("apples are red", "pears are green"));
  EXPECT_THAT(Found("green pears"), Contains("said: pears are green"));
}

TEST_F(OwnKindTest, WhatItKnowsExpires) {
  Create(R"({"ttl":60})");
  Put("apples are red");
  Put("pears are green");
  now_us_ += 40 * kSecond;
  Put("plums are blue");
  now_us_ += 30 * kSecond;
  expiry_->Sweep();
  EXPECT_THAT(Described(), ElementsAre("pears are green"));
  EXPECT_THAT(Found("apples"), Not(Contains("said: apples are red")));
  EXPECT_THAT(Shown(), Not(HasSubstr("apples")));
  // The sweeper comes back for the next one by itself.
  now_us_ += 60 * kSecond;
  expiry_->Sweep();
  EXPECT_THAT(Described(), IsEmpty());
}

TEST_F(OwnKindTest, LearnsThatMessagesWereDeleted) {
  Create("");
  Put("apples are red", "a");
  Put("pears are green", "b");
  Put("plums are blue", "c");
  MustDo(NewWrite(commands::DeleteMessage{"a"}, kKey));
  EXPECT_THAT(Described(), ElementsAre("pears are green"));
  EXPECT_THAT(Found("apples"), Not(Contains("said: apples are red")));
}

TEST_F(OwnKindTest, ItsOptionsAndItsWordsAreChecked) {
  WriteRequest create = NewWrite(commands::CreateSession(), kKey);
  BlockSettings block;
  block.name = "said";
  block.kind = "notes";
  block.options_json = R"({"ttl":0})";
  SettingsOf(create).emplace(WordSettings()).blocks = {block};
  EXPECT_THAT(std::string(Do(std::move(create)).status.message()), HasSubstr("option `ttl` must"));
  Create("");
  const WriteOutcome undo = Do(NewWrite(commands::UndoBlockChange{"said", 1, {}}, kKey));
  EXPECT_EQ(ErrorReason(undo.status), "BLOCK_KEEPS_NO_HISTORY");
}

}  // namespace
}  // namespace memoryd
