// Entries of blocks do not outlive the messages that they were made of.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <future>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/blocks/block.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/entry_log.h"
#include "core/blocks/vector_entry.h"
#include "core/engine/engine.h"
#include "core/llm/model.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/reads/block_view.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"
#include "core/writes/command.h"
#include "core/writes/commands/messages.h"
#include "core/writes/found_messages.h"
#include "core/writes/incoming.h"
#include "core/writes/write.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/fake_models.h"
#include "tests/support/swept_engine_fixture.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

const SessionKey kKey{"tenant", "session"};
constexpr std::int64_t kSecond = 1'000'000;

// Embedders that many threads may ask; `other` is of another model.
class SharedModels final : public ModelDirectory {
 public:
  absl::StatusOr<std::shared_ptr<ChatModel>> FindChatModel(std::string_view /*tenant*/,
                                                           std::string_view /*worker*/,
                                                           std::string_view /*model*/) override {
    return absl::NotFoundError("there is none");
  }
  absl::StatusOr<std::shared_ptr<Embedder>> FindEmbedder(std::string_view /*tenant*/,
                                                         std::string_view /*worker*/,
                                                         std::string_view name) override {
    auto embedder = std::make_shared<HashEmbedder>();
    if (name == "other") embedder->model = HashEmbedder::kReversed;
    return embedder;
  }
};

class EngineEntriesTest : public SweptEngineTest, public testing::WithParamInterface<Coherence> {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    Restart();
  }
  void TearDown() override {
    expiry_.reset();
    engine_.reset();
  }

  void Restart() { StartSwept(Quiet()); }
  EngineOptions Quiet() {
    EngineOptions options = Options(GetParam());
    options.models = &models_;
    return options;
  }
  void Sweep() {
    now_us_ += 3 * kSecond;
    expiry_->Sweep();
  }

  // Everything but the latest message leaves short-term memory with each Put; in `llama-index`,
  // about ten at a time.
  void Create(Profile profile = Profile::kDefault, RetentionSettings retention = {},
              std::int64_t ttl = 0) {
    WriteRequest create = NewWrite(commands::CreateSession(), kKey);
    SettingsOf(create) = WordSettings(profile);
    const bool is_llama = profile == Profile::kLlamaIndex;
    SettingsOf(create)->token_limit = is_llama ? 40 : 1000;
    SettingsOf(create)->token_flush_size = is_llama ? 20 : 1;
    SettingsOf(create)->chat_history_token_ratio = is_llama ? 0.5 : 0;
    SettingsOf(create)->retention = retention;
    SettingsOf(create)->blocks = {Block(ttl)};
    settings_ = *SettingsOf(create);
    MustDo(std::move(create));
  }
  void ChangeEmbedder(const std::string& embedder) {
    WriteRequest update = NewWrite(commands::UpdateSession(), kKey);
    settings_.blocks = {Block(0, embedder)};
    SettingsOf(update) = settings_;
    MustDo(std::move(update));
  }
  static BlockSettings Block(std::int64_t ttl, std::string_view embedder = "hash") {
    BlockSettings block;
    block.name = "vectors";
    block.kind = "vector";
    block.options_json =
        fmt::format(R"({{"embedder":"{}","top_k":100,"retrieval_context_window":1{}}})", embedder,
                    ttl == 0 ? "" : fmt::format(R"(,"ttl":{})", ttl));
    return block;
  }
  // Ends when the jobs it makes have, and all before them.
  void Put(const std::string& text, std::int64_t expire_us = 0) {
    const std::string id = "m" + std::to_string(++put_);
    WriteRequest put = WithTimes(NewWrite(commands::Put(), kKey, {{"user", text, id}}), expire_us);
    put.wait_until = Far();
    put.with_open_jobs = [](std::string reply, const std::vector<OpenJob>& open, const Usage&) {
      return open.empty() ? reply : "open";
    };
    const WriteOutcome outcome = Do(std::move(put));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    ASSERT_NE(outcome.reply, "open");
  }
  void PutWords(int count) {
    for (int i = 0; i < count; ++i) Put("word" + std::to_string(put_ + 1) + " x");
  }
  static std::string Word(std::int64_t position) { return "word" + std::to_string(position) + " "; }
  void Delete(std::int64_t position) {
    MustDo(NewWrite(commands::DeleteMessage{"m" + std::to_string(position)}, kKey));
  }
  void Update(std::int64_t position, const std::string& text) {
    commands::UpdateMessage command;
    command.message_id = "m" + std::to_string(position);
    command.edit = [text](const FoundMessages& /*found*/, IncomingItems& items) {
      items = ItemsOf(NewWrite(commands::Put(), kKey, {{"user", text}}).command);
      return absl::OkStatus();
    };
    MustDo(NewWrite(std::move(command), kKey));
  }

  std::vector<Entry> Entries() {
    EntryPageRequest request;
    request.key = kKey;
    request.block = "vectors";
    request.max_entries = 1000;
    auto promise = std::make_shared<std::promise<absl::StatusOr<EntryPage>>>();
    auto future = promise->get_future();
    engine_->reads().ListBlockEntries(request, Far(), [promise](absl::StatusOr<EntryPage> page) {
      promise->set_value(Detached(std::move(page)));
    });
    auto page = Await(std::move(future));
    EXPECT_TRUE(page.ok()) << page.status();
    return page.ok() ? page->entries : std::vector<Entry>();
  }
  std::string Listed() {
    std::string text;
    for (const Entry& entry : Entries()) text += entry.entry.text + "\n";
    return text;
  }
  // What a Get says.
  static std::string Said(Engine& engine) {
    auto context = Get(engine, kKey);
    EXPECT_TRUE(context.ok()) << context.status();
    std::string text;
    if (!context.ok()) return text;
    EXPECT_THAT(context->missing_blocks, IsEmpty());
    for (const BlockPart& part : context->memory) text += part.text;
    return text;
  }
  std::string Said() { return Said(*engine_); }
  BlockState State() {
    auto session = real_->LoadSession(kKey, kAllActive);
    EXPECT_TRUE(session.ok() && session->has_value());
    for (const BlockState& block : (*session)->blocks) {
      if (block.name == "vectors") return block;
    }
    return {};
  }
  EntryLog Log() { return EmbeddingState::FromJson(State().state).value().log; }
  // What the store has, shown or not.
  std::vector<std::string> Stored() {
    const BlockState state = State();
    const auto rows = real_->ReadRange(kKey, state.entry_generation, {0, state.next_entry}, 100'000,
                                       std::int64_t{1} << 30);
    EXPECT_TRUE(rows.ok()) << rows.status();
    std::vector<std::string> texts;
    for (const MessagePtr& row : *rows) texts.push_back(DecodeVectorEntry(row->body)->text);
    return texts;
  }
  // All entries have a vector of the embedder's, which serves.
  void ExpectEmbeddedBy(std::string_view embedder) {
    const BlockState block = State();
    const EmbeddingState state = EmbeddingState::FromJson(block.state).value();
    EXPECT_EQ(state.source.embedder, embedder);
    EXPECT_FALSE(state.next.has_value());
    EXPECT_EQ(state.look_again, 0);
    const auto rows = real_->ReadRange(kKey, block.entry_generation, {0, block.next_entry}, 100'000,
                                       std::int64_t{1} << 30);
    ASSERT_TRUE(rows.ok()) << rows.status();
    for (const MessagePtr& row : *rows) {
      const VectorEntry entry = DecodeVectorEntry(row->body).value();
      std::vector<float> vector = HashEmbedding(entry.text);
      if (embedder == "other") std::reverse(vector.begin(), vector.end());
      EXPECT_EQ(entry.vector, vector) << row->position;
    }
  }
  // Each message of `positions` is told of once, and none of the others.
  void ExpectTold(const std::set<std::int64_t>& positions) {
    const std::string listed = Listed();
    const std::string said = Said();
    for (std::int64_t position = 1; position <= put_; ++position) {
      std::size_t count = 0;
      for (auto at = listed.find(Word(position)); at != std::string::npos;
           at = listed.find(Word(position), at + 1)) {
        ++count;
      }
      EXPECT_EQ(count, positions.contains(position) ? 1U : 0U) << position << " in\n" << listed;
      EXPECT_EQ(said.find(Word(position)) != std::string::npos, positions.contains(position))
          << position << " in\n"
          << said;
    }
    EXPECT_EQ(CountEntries(State()), std::ssize(Stored()));
  }

  SharedModels models_;
  SessionSettings settings_;
  std::int64_t put_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Coherences, EngineEntriesTest,
                         testing::Values(Coherence::kExclusive, Coherence::kShared));

TEST_P(EngineEntriesTest, AnEntryIsHiddenAtOnceAndMadeAnewWithoutTheMessage) {
  Create(Profile::kLlamaIndex);
  PutWords(40);
  const std::vector<Entry> before = Entries();
  ASSERT_GE(before.size(), 2U);
  const std::vector<EntrySource> sources = before[0].entry.sources;
  ASSERT_GE(sources.size(), 3U);
  const std::int64_t gone = sources[1].position;
  const std::int64_t other = sources[2].position;
  EXPECT_THAT(Said(), HasSubstr(Word(gone)));
  Delete(gone);
  EXPECT_THAT(Said(), Not(HasSubstr(Word(gone))));
  EXPECT_THAT(Listed(), Not(HasSubstr(Word(gone))));
  EXPECT_EQ(Entries().size(), before.size() - 1);
  Sweep();
  PutWords(20);
  EXPECT_THAT(Stored(), Not(Contains(HasSubstr(Word(gone)))));
  EXPECT_THAT(Said(), HasSubstr(Word(other)));
  EXPECT_THAT(Said(), Not(HasSubstr(Word(gone))));
  EXPECT_FALSE(Log().HasMarks());
  EXPECT_EQ(Log().removals, 1);
  std::set<std::int64_t> told;
  for (const Entry& entry : Entries()) {
    for (const EntrySource& source : entry.entry.sources) told.insert(source.position);
  }
  EXPECT_FALSE(told.contains(gone));
  ExpectTold(told);
  for (const EntrySource& source : sources) {
    EXPECT_EQ(told.contains(source.position), source.position != gone);
  }
}

TEST_P(EngineEntriesTest, NoServerSaysWhatIsGone) {
  Create();
  PutWords(6);
  ExpectTold({1, 2, 3, 4, 5});
  std::unique_ptr<Engine> other;
  if (GetParam() == Coherence::kShared) {
    other = std::make_unique<Engine>(store_.get(), Quiet());
    EXPECT_THAT(Said(*other), HasSubstr(Word(2)));
  }
  Delete(2);
  ExpectTold({1, 3, 4, 5});
  if (other != nullptr) {
    EXPECT_THAT(Said(*other), Not(HasSubstr(Word(2))));
  }
  Delete(3);
  // The other one does not look before all of it is over.
  Sweep();
  EXPECT_FALSE(Log().HasMarks());
  EXPECT_THAT(Stored(), SizeIs(3));
  if (other != nullptr) {
    EXPECT_THAT(Said(*other), Not(HasSubstr(Word(2))));
    EXPECT_THAT(Said(*other), Not(HasSubstr(Word(3))));
    EXPECT_THAT(Said(*other), HasSubstr(Word(5)));
    other.reset();
  }
  Restart();
  ExpectTold({1, 4, 5});
  PutWords(1);
  ExpectTold({1, 4, 5, 6});
}

TEST_P(EngineEntriesTest, WhatAMessageWasIsNotSaidOfIt) {
  Create();
  PutWords(5);
  Update(2, "changed x");
  ExpectTold({1, 3, 4});
  EXPECT_THAT(Listed(), Not(HasSubstr("changed")));
  Sweep();
  PutWords(1);
  ExpectTold({1, 3, 4, 5});
  EXPECT_THAT(Listed(), HasSubstr("changed"));
  EXPECT_THAT(Said(), HasSubstr("changed"));
  Update(2, "again x");
  EXPECT_THAT(Said(), Not(HasSubstr("changed")));
  Sweep();
  PutWords(1);
  EXPECT_THAT(Said(), HasSubstr("again"));
  // One in short-term memory is in no entry yet.
  Update(put_, "active x");
  EXPECT_FALSE(Log().HasMarks());
}

TEST_P(EngineEntriesTest, EveryPieceOfALongMessageGoes) {
  Create();
  Put("first x");
  std::string text;
  for (int i = 0; i < 900; ++i) text += "secret" + std::to_string(i) + " ";
  Put(text);
  Put("last x");
  Put("active x");
  const std::size_t all = Entries().size();
  ASSERT_GT(all, 5U);
  Delete(2);
  EXPECT_THAT(Listed(), Not(HasSubstr("secret")));
  EXPECT_THAT(Said(), Not(HasSubstr("secret")));
  Sweep();
  EXPECT_THAT(Stored(), ElementsAre("user: first x", "user: last x"));
  EXPECT_EQ(Log().removals, 1);
}

TEST_P(EngineEntriesTest, RetentionTakesEntriesWithTheirMessages) {
  RetentionSettings retention;
  retention.keep_messages = 4;
  Create(Profile::kDefault, retention);
  PutWords(6);
  const auto told = [this] {
    const std::string listed = Listed();
    const std::string said = Said();
    std::vector<std::int64_t> positions;
    for (std::int64_t position = 1; position <= put_; ++position) {
      const bool shown = listed.find(Word(position)) != std::string::npos;
      EXPECT_EQ(shown, said.find(Word(position)) != std::string::npos);
      if (shown) positions.push_back(position);
    }
    return positions;
  };
  const auto kept = [this] {
    std::vector<std::int64_t> positions;
    for (std::int64_t position = put_ - 3; position < put_; ++position) {
      positions.push_back(position);
    }
    return positions;
  };
  for (int round = 0; round < 5; ++round) {
    Sweep();
    EXPECT_EQ(told(), kept());
    EXPECT_THAT(Stored(), SizeIs(3));
    PutWords(3);
  }
}

TEST_P(EngineEntriesTest, WhatHoldsAMessageWhoseTimeIsOverIsHiddenAtOnce) {
  Create();
  PutWords(1);
  Put("timed x", now_us_ + 100 * kSecond);
  PutWords(2);
  EXPECT_THAT(Listed(), HasSubstr("timed"));
  EXPECT_THAT(Said(), HasSubstr("timed"));
  now_us_ += 101 * kSecond;
  EXPECT_THAT(Listed(), Not(HasSubstr("timed")));
  EXPECT_THAT(Said(), Not(HasSubstr("timed")));
  EXPECT_THAT(Stored(), Contains(HasSubstr("timed")));
  for (int i = 0; i < 3; ++i) Sweep();
  EXPECT_THAT(Stored(), Not(Contains(HasSubstr("timed"))));
  ExpectTold({1, 3});
}

TEST_P(EngineEntriesTest, WhatIsTooOldIsHiddenAtOnceAndTakenOutBehind) {
  Create(Profile::kDefault, {}, /*ttl=*/100);
  PutWords(3);
  now_us_ += 60 * kSecond;
  PutWords(3);
  ExpectTold({1, 2, 3, 4, 5});
  Sweep();
  EXPECT_THAT(Stored(), SizeIs(5));
  now_us_ += 45 * kSecond;
  ExpectTold({3, 4, 5});
  EXPECT_THAT(Stored(), SizeIs(5));
  Sweep();
  EXPECT_THAT(Stored(), SizeIs(3));
  ExpectTold({3, 4, 5});
  // What is made anew is no younger for that.
  Update(4, "word4 changed");
  Sweep();
  PutWords(1);
  ExpectTold({3, 4, 5, 6});
  now_us_ += 60 * kSecond;
  ExpectTold({6});
  now_us_ += 45 * kSecond;
  ExpectTold({});
  Sweep();
  EXPECT_THAT(Stored(), IsEmpty());
  // Then there is nothing to look for.
  for (int i = 0; i < 3; ++i) Sweep();
  EXPECT_EQ(real_->LoadSession(kKey, kAllActive).value()->row.drop_us, 0);
  PutWords(2);
  ExpectTold({7, 8});
  WriteRequest update = NewWrite(commands::UpdateSession(), kKey);
  SettingsOf(update).emplace().blocks = {Block(0)};
  MustDo(std::move(update));
  now_us_ += 1000 * kSecond;
  ExpectTold({7, 8});
  for (int i = 0; i < 3; ++i) Sweep();
  ExpectTold({7, 8});
  EXPECT_EQ(real_->LoadSession(kKey, kAllActive).value()->row.drop_us, 0);
}

TEST_P(EngineEntriesTest, EntriesOfAnEarlierVersionAreLookedThrough) {
  Create();
  PutWords(6);
  // As it has written the state: without a log.
  auto session = real_->LoadSession(kKey, kAllActive);
  ASSERT_TRUE(session.ok() && session->has_value());
  SessionChange change;
  change.key = kKey;
  change.expected_revision = (*session)->row.revision;
  change.row = (*session)->row;
  ++change.row.revision;
  BlockState block = State();
  EmbeddingState state = EmbeddingState::FromJson(block.state).value();
  state.log = EntryLog();
  block.state = state.ToJson();
  change.blocks = {block};
  ASSERT_EQ(real_->Commit({&change, 1}).front().outcome, CommitOutcome::kCommitted);
  Restart();
  ExpectTold({1, 2, 3, 4, 5});
  Delete(2);
  ExpectTold({1, 3, 4, 5});
  PutWords(2);
  Sweep();
  ExpectTold({1, 3, 4, 5, 6, 7});
  EXPECT_FALSE(Log().HasMarks());
}

TEST_P(EngineEntriesTest, ManyGoInSeveralWrites) {
  Create();
  constexpr int kCount = 600;
  for (int i = 0; i < kCount; ++i) Put("x" + std::to_string(i));
  for (int i = 1; i < kCount; ++i) {
    if (i % 100 != 0) Delete(i);
  }
  EXPECT_THAT(Entries(), SizeIs(5));
  for (int i = 0; i < 5; ++i) Sweep();
  EXPECT_THAT(Stored(), SizeIs(5));
  EXPECT_EQ(CountEntries(State()), 5);
}

TEST_P(EngineEntriesTest, AnotherEmbedderMakesEntriesAnewUnderTheirNumbers) {
  Create();
  // More than one job embeds.
  PutWords(301);
  ExpectEmbeddedBy("hash");
  const std::vector<Entry> before = Entries();
  ASSERT_THAT(before, SizeIs(300));
  Delete(7);
  Sweep();
  ChangeEmbedder("other");
  PutWords(4);
  ExpectEmbeddedBy("other");
  const std::vector<Entry> after = Entries();
  ASSERT_THAT(after, SizeIs(303));
  for (std::size_t i = 0; i < 299; ++i) {
    const Entry& old = before[i < 6 ? i : i + 1];
    EXPECT_EQ(after[i].position, old.position);
    EXPECT_EQ(after[i].entry.text, old.entry.text);
    EXPECT_EQ(after[i].entry.sources, old.entry.sources);
  }
  EXPECT_THAT(Said(), HasSubstr(Word(put_ - 1)));
  Restart();
  PutWords(1);
  ExpectEmbeddedBy("other");
  // And back: nothing of what came meanwhile is without a vector.
  ChangeEmbedder("hash");
  PutWords(4);
  ExpectEmbeddedBy("hash");
  EXPECT_THAT(Entries(), SizeIs(308));
}

TEST_P(EngineEntriesTest, WhatStandsBetweenManyThatAreGoneIsToldAgain) {
  Create();
  PutWords(901);
  std::set<std::int64_t> left;
  for (std::int64_t position = 1; position <= 900; ++position) {
    if (position % 3 == 0) {
      Delete(position);
      continue;
    }
    if (position % 3 == 2) Update(position, "word" + std::to_string(position) + " changed");
    left.insert(position);
  }
  for (int i = 0; i < 8; ++i) Sweep();
  PutWords(1);
  left.insert(901);
  const std::string listed = Listed();
  for (std::int64_t position = 1; position <= 901; ++position) {
    ASSERT_EQ(listed.find(Word(position)) != std::string::npos, left.contains(position))
        << position;
  }
  EXPECT_THAT(Entries(), SizeIs(left.size()));
  EXPECT_FALSE(Log().HasMarks());
  EXPECT_EQ(CountEntries(State()), std::ssize(left));
}

// Feeds, deletes, sweeps and changes of the embedder in any order.
class RandomEntriesTest : public EngineEntriesTest {
 protected:
  void Check(Profile profile) {
    std::mt19937 random(11);
    Create(profile);
    std::set<std::int64_t> here;
    std::set<std::int64_t> deleted;
    std::string embedder = "hash";
    for (int step = 0; step < 150; ++step) {
      const auto choice = random() % 10;
      if (choice < 5 || here.size() < 4) {
        PutWords(1);
        here.insert(put_);
      } else if (choice == 9) {
        embedder = embedder == "hash" ? "other" : "hash";
        ChangeEmbedder(embedder);
      } else if (choice < 8) {
        const auto victim =
            std::next(here.begin(), static_cast<std::ptrdiff_t>(random() % here.size()));
        Delete(*victim);
        deleted.insert(*victim);
        here.erase(victim);
      } else {
        Sweep();
      }
      const std::string listed = Listed();
      const std::string said = Said();
      for (const std::int64_t position : deleted) {
        ASSERT_THAT(listed, Not(HasSubstr(Word(position))));
        ASSERT_THAT(said, Not(HasSubstr(Word(position))));
      }
    }
    Sweep();
    PutWords(30);
    for (std::int64_t position = put_ - 29; position <= put_; ++position) here.insert(position);
    // All that has left short-term memory is told, whatever went beside it.
    const std::int64_t watermark = real_->LoadSession(kKey, kAllActive).value()->row.watermark;
    std::erase_if(here, [watermark](std::int64_t position) { return position >= watermark; });
    ExpectTold(here);
    ExpectEmbeddedBy(embedder);
    for (const std::string& text : Stored()) {
      for (const std::int64_t position : deleted) {
        EXPECT_THAT(text, Not(HasSubstr(Word(position))));
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Coherences, RandomEntriesTest,
                         testing::Values(Coherence::kExclusive, Coherence::kShared));

TEST_P(RandomEntriesTest, OfTurns) { Check(Profile::kDefault); }

TEST_P(RandomEntriesTest, OfFlushes) { Check(Profile::kLlamaIndex); }

}  // namespace
}  // namespace memoryd
