#include "core/blocks/block_kinds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/blocks/block.h"
#include "core/blocks/block_traits.h"
#include "core/blocks/entity_block.h"
#include "core/blocks/fact_state.h"
#include "core/blocks/fact_text.h"
#include "core/blocks/summary_block.h"
#include "core/model/body_reader.h"
#include "core/model/job.h"
#include "core/model/session_config.h"
#include "tests/support/block_fixture.h"

namespace memoryd {
namespace {

using ::testing::HasSubstr;

class BlockKindsTest : public testing::Test, protected BlockFixture {
 protected:
  static BlockSettings Settings(std::string kind, std::string options = {}) {
    BlockSettings settings;
    settings.name = "block";
    settings.kind = std::move(kind);
    settings.options_json = std::move(options);
    return settings;
  }

  std::string Refused(const BlockSettings& settings) {
    const auto made = MakeBlock(settings, "config.blocks[3]", Profile::kDefault, Environment());
    EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(made.status().message());
  }
};

// The least that each kind asks for.
std::string LeastOptions(std::string_view kind) {
  return LeastSettings(std::string(kind)).options_json;
}

TEST_F(BlockKindsTest, EveryKindCanBeMadeInEveryProfile) {
  EXPECT_GE(BlockKinds().size(), 7U);
  for (const std::string_view kind : BlockKinds()) {
    for (const Profile profile : {Profile::kDefault, Profile::kLlamaIndex, Profile::kAutogenList}) {
      BlockSettings settings = Settings(std::string(kind), LeastOptions(kind));
      if (kind != "session") settings.worker = "w";
      settings.priority = 2;
      const auto made = TryMake(settings, profile);
      ASSERT_TRUE(made.ok()) << kind << made.status();
      EXPECT_EQ((*made)->name(), "block");
      EXPECT_EQ((*made)->priority(), 2);
      EXPECT_EQ((*made)->feeds(), kind != "static");
    }
  }
}

TEST_F(BlockKindsTest, FirstFactsAreTrustedAsFarAsTheirWriter) {
  const auto limited = [](std::string options, Profile profile = Profile::kDefault) {
    BlockSettings facts = Settings("fact-extraction", std::move(options));
    LimitFirstFacts(facts, profile, 0.1);
    return facts;
  };
  const BlockSettings facts = limited(R"({"model":"chat","facts":["He is an admin."]})");
  EXPECT_EQ(facts.options_json,
            R"({"model":"chat","facts":["He is an admin."],"facts_trust":0.1})");
  EXPECT_FALSE(HasTexts(facts, Profile::kDefault, 0.1));
  EXPECT_TRUE(HasTexts(facts, Profile::kDefault, 0.05));
  EXPECT_TRUE(HasTexts(facts, Profile::kLlamaIndex, 0.1));
  EXPECT_EQ(limited(R"({"facts":["x"],"facts_trust":1})").options_json,
            R"({"facts":["x"],"facts_trust":0.1})");
  for (const std::string same : {R"({"facts":["x"], "facts_trust":0.05})", R"({ "model":"chat"})",
                                 R"({"facts":["x"],"facts_trust":"y"})", "no JSON", ""}) {
    EXPECT_EQ(limited(same).options_json, same);
  }
  EXPECT_EQ(limited(R"({"facts":["x"]})", Profile::kLlamaIndex).options_json, R"({"facts":["x"]})");
  EXPECT_TRUE(TryMake(facts, Profile::kDefault).ok());
  EXPECT_THAT(Refused(Settings("fact-extraction", R"({"model":"chat","facts_trust":2})")),
              HasSubstr("facts_trust"));
}

TEST_F(BlockKindsTest, TextsOfAConfigurationAreKnownWhateverTheirOption) {
  for (const std::string_view kind : BlockKinds()) {
    EXPECT_FALSE(HasTexts(Settings(std::string(kind), LeastOptions(kind)), Profile::kDefault, 1))
        << kind;
  }
  for (const std::string silent :
       {R"({"embedder":"e","top_k":3,"filter":{"topic":"home"},"accept_short_term_memory":false})",
        R"({"model":"m","facts":[],"max_facts":9,"ttl":null})", "{}"}) {
    EXPECT_FALSE(HasTexts(Settings("vector", silent), Profile::kDefault, 1)) << silent;
  }
  for (const std::string saying :
       {R"({"model":"m","facts":["x"]})", R"({"prompt":"x"})", R"({"template":"x"})",
        R"({"an_option_of_tomorrow":"x"})", R"({"nested":{"deep":["x"]}})", "no JSON", "[]"}) {
    EXPECT_TRUE(HasTexts(Settings("worker", saying), Profile::kDefault, 1)) << saying;
  }
  BlockSettings rules = Settings("static");
  rules.content = {"part"};
  EXPECT_TRUE(HasTexts(rules, Profile::kDefault, 1));
}

// Whatever the kind: nothing fed and nothing asked is nothing said, and a job without messages
// neither fails nor calls a model.
TEST_F(BlockKindsTest, EveryKindCopesWithNothing) {
  for (const std::string_view kind : BlockKinds()) {
    // What a worker says is its own.
    if (kind == "worker") continue;
    for (const Profile profile : {Profile::kDefault, Profile::kLlamaIndex}) {
      Make(std::string(kind), LeastOptions(kind), profile);
      EXPECT_TRUE(Render()->empty()) << kind;
      EXPECT_TRUE(Feed({}).ok()) << kind;
      EXPECT_TRUE(Render()->empty()) << kind;
      EXPECT_TRUE(Truncate({}, 5).empty()) << kind;
      state = BlockState();
    }
  }
  EXPECT_TRUE(models.chat->calls.empty());
  EXPECT_TRUE(models.embedder->calls.empty());
}

TEST_F(BlockKindsTest, EveryKindSaysWhatItKnows) {
  const auto known = [this] { return block->Known(state).value().of_kind; };
  for (const Profile profile : {Profile::kDefault, Profile::kLlamaIndex}) {
    state = BlockState();
    Make("static", "", profile);
    EXPECT_TRUE(std::holds_alternative<std::monostate>(known()));

    Make("fact-extraction", R"({"model":"chat","facts":["configured"]})", profile);
    ASSERT_EQ(Known<FactState>().facts.size(), 1U);
    EXPECT_EQ(Known<FactState>().facts[0].text, "configured");
    models.chat->replies = {"<fact evidence=\"1\" replaces=\"1\">said</fact>", "<fact>said</fact>"};
    ASSERT_TRUE(Feed({Text("user", "hi")}).ok());
    if (profile == Profile::kLlamaIndex) {
      // The library reads no fact with attributes.
      ASSERT_TRUE(Feed({Text("user", "hi")}).ok());
      ASSERT_EQ(Known<FactState>().facts.size(), 2U);
      EXPECT_EQ(Known<FactState>().facts[1].text, "said");
      EXPECT_EQ(Known<FactState>().facts[1].seen, 0);
      EXPECT_TRUE(Known<FactState>().history.empty());
    } else {
      EXPECT_EQ(Known<FactState>(), FactState::FromJson(state.state).value());
      EXPECT_EQ(Known<FactState>().history.size(), 1U);
    }

    state = BlockState();
    Make("summary", R"({"model":"chat"})", profile);
    EXPECT_EQ(Known<SummaryState>(), SummaryState());
    models.chat->replies = {"All of it."};
    ASSERT_TRUE(Feed({Text("user", "hi")}).ok());
    EXPECT_EQ(Known<SummaryState>().summary, "All of it.");

    state = BlockState();
    Make("entity", R"({"model":"chat"})", profile);
    EXPECT_EQ(Known<EntityState>(), EntityState());
    models.chat->replies = {"Ann: likes tea"};
    ASSERT_TRUE(Feed({Text("user", "hi")}).ok());
    ASSERT_EQ(Known<EntityState>().entities.size(), 1U);
    EXPECT_EQ(Known<EntityState>().entities[0].line, "likes tea");

    state = BlockState();
    Make("vector", R"({"embedder":"hash"})", profile);
    EXPECT_TRUE(block->has_entries());
    EXPECT_EQ(Known<KnownEntries>().count, 0);
    ASSERT_TRUE(Feed({Text("user", "hi")}).ok());
    EXPECT_EQ(Known<KnownEntries>().count, 1);
  }
  BlockSettings settings = Settings("worker");
  settings.worker = "w";
  block = TryMake(settings, Profile::kDefault).value();
  EXPECT_FALSE(block->has_entries());
  state.state = std::string("\0of its own", 11);
  EXPECT_EQ(Known<WorkerState>().bytes, state.state);
}

TEST_F(BlockKindsTest, WhatCannotBeReadBackIsAnError) {
  state.state = "{";
  for (const std::string kind : {"fact-extraction", "summary", "entity"}) {
    for (const Profile profile : {Profile::kDefault, Profile::kLlamaIndex}) {
      Make(kind, LeastOptions(kind), profile);
      EXPECT_EQ(block->Known(state).status().code(), absl::StatusCode::kDataLoss) << kind;
    }
  }
}

TEST_F(BlockKindsTest, OnlyFactsWithHistoryCanBeUndone) {
  const auto reason = [](const std::string& kind, Profile profile, std::string_view stored) {
    return ErrorReason(TraitsOf(Settings(kind), profile)->UndoChange(stored, 1, {"", 5}).status());
  };
  for (const std::string_view kind : BlockKinds()) {
    EXPECT_EQ(reason(std::string(kind), Profile::kDefault, ""),
              kind == "fact-extraction" ? "CHANGE_NOT_FOUND" : "BLOCK_KEEPS_NO_HISTORY");
    EXPECT_EQ(reason(std::string(kind), Profile::kLlamaIndex, ""), "BLOCK_KEEPS_NO_HISTORY");
  }
  Make("fact-extraction", R"({"model":"chat","facts":["configured"]})");
  models.chat->replies = {"<fact replaces=\"1\">said</fact>"};
  ASSERT_TRUE(Feed({Text("user", "hi")}).ok());
  const auto undone =
      TraitsOf(Settings("fact-extraction"), Profile::kDefault)->UndoChange(state.state, 1, {"", 5});
  ASSERT_TRUE(undone.ok()) << undone.status();
  EXPECT_EQ(FactState::FromJson(undone->state)->facts, undone->facts);
  ASSERT_EQ(undone->facts.size(), 1U);
  EXPECT_EQ(undone->facts[0].text, "configured");
  EXPECT_EQ(reason("fact-extraction", Profile::kDefault, undone->state), "CHANGE_NOT_FOUND");
}

TEST_F(BlockKindsTest, AnUndoneChangeLosesNoFact) {
  FactState full;
  const auto fact = [&full] {
    Fact made;
    made.id = full.next_id++;
    made.text = std::string(kMaxFactBytes, '"');
    return made;
  };
  // Written, each takes about twice its bytes.
  for (int i = 0; i < 450; ++i) full.facts.push_back(fact());
  for (int i = 0; i < 100; ++i) {
    full.history.push_back({fact(), FactEnd::kEvicted, 1, 5, "j", {}, {}, {}});
  }
  const std::string stored = full.ToJson();
  EXPECT_GT(stored.size(), kMaxBlockState - 8192);
  const std::size_t kept = FactState::FromJson(stored)->history.size();
  const auto undone =
      TraitsOf(Settings("fact-extraction"), Profile::kDefault)->UndoChange(stored, 1, {"", 5});
  ASSERT_TRUE(undone.ok()) << undone.status();
  EXPECT_EQ(FactState::FromJson(undone->state)->facts.size(), 450 + kept);
}

TEST_F(BlockKindsTest, EveryKindRefusesOptionsItDoesNotKnow) {
  for (const std::string_view kind : BlockKinds()) {
    // Its options are the worker's business.
    if (kind == "worker") continue;
    const std::string least = LeastOptions(kind);
    const std::string options =
        least.empty() ? R"({"colour":1})" : least.substr(0, least.size() - 1) + R"(,"colour":1})";
    EXPECT_THAT(
        Refused(Settings(std::string(kind), options)),
        HasSubstr("config.blocks[3].options_json: there is no option `colour`; there are: "));
  }
}

TEST_F(BlockKindsTest, AnUnknownKindListsTheKinds) {
  EXPECT_THAT(Refused(Settings("graph")),
              HasSubstr(fmt::format("config.blocks[3].kind: there is no such kind; there are: {}",
                                    fmt::join(BlockKinds(), ", "))));
}

TEST_F(BlockKindsTest, AWorkersBlockNamesItsWorker) {
  EXPECT_THAT(Refused(Settings("worker")), HasSubstr("config.blocks[3].worker: is required"));
  BlockSettings settings = Settings("worker", R"({"colour":1,"accept_short_term_memory":false})");
  settings.worker = "w";
  const auto made = TryMake(settings, Profile::kDefault);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_FALSE((*made)->feeds());
}

TEST_F(BlockKindsTest, OptionsAreChecked) {
  const auto refused = [this](const std::string& options) {
    return Refused(Settings("vector", options));
  };
  EXPECT_THAT(refused(""), HasSubstr("option `embedder` is required"));
  EXPECT_THAT(refused(R"({"embedder":5})"), HasSubstr("option `embedder` must be a string"));
  EXPECT_THAT(
      refused(R"({"embedder":"hash","top_k":0})"),
      HasSubstr("config.blocks[3].options_json: option `top_k` must be an integer between 1"));
  EXPECT_THAT(refused(R"({"embedder":"hash","top_k":2.0})"), HasSubstr("`top_k`"));
  EXPECT_THAT(refused(R"({"embedder":"hash","top_k":18446744073709551615})"), HasSubstr("`top_k`"));
  EXPECT_THAT(refused(R"({"embedder":"hash","similarity_threshold":"x"})"),
              HasSubstr("`similarity_threshold` must be a number"));
  EXPECT_THAT(refused(R"({"embedder":"hash","filter":{"a":[1]}})"), HasSubstr("`filter`"));
  EXPECT_THAT(refused(R"({"embedder":"hash","format_template":"no"})"),
              HasSubstr("`format_template` must hold {text} exactly once"));
  EXPECT_THAT(refused(R"({"embedder":"hash","accept_short_term_memory":1})"),
              HasSubstr("must be true or false"));
  EXPECT_THAT(refused("[]"), HasSubstr("config.blocks[3].options_json"));
  EXPECT_THAT(refused("{"), HasSubstr("config.blocks[3].options_json"));
  EXPECT_THAT(refused(R"({"embedder":"hash","template":"x"})"), HasSubstr("`template`"));
  EXPECT_THAT(Refused(Settings("fact-extraction", R"({"model":"chat","facts":[1]})")),
              HasSubstr("`facts` must be an array of strings"));
  EXPECT_THAT(
      Refused(Settings("fact-extraction", R"({"model":"chat","max_facts":1,"facts":["a","b"]})")),
      HasSubstr("`facts` holds more than max_facts"));
  // Null is as good as absent.
  EXPECT_TRUE(
      TryMake(Settings("vector", R"({"embedder":"hash","top_k":null})"), Profile::kDefault).ok());
}

TEST_F(BlockKindsTest, NamesAndPrioritiesAreChecked) {
  for (const std::string& name : {std::string(), std::string("a b"), std::string("caf\xC3\xA9"),
                                  std::string("a>"), std::string(65, 'x')}) {
    BlockSettings settings = Settings("static");
    settings.name = name;
    EXPECT_THAT(Refused(settings), HasSubstr("config.blocks[3].name"));
  }
  BlockSettings settings = Settings("static");
  settings.priority = -1;
  EXPECT_THAT(Refused(settings), HasSubstr("config.blocks[3].priority"));
  settings = Settings("summary", R"({"model":"chat"})");
  settings.content = {"x"};
  EXPECT_THAT(Refused(settings), HasSubstr("config.blocks[3].content"));
}

TEST_F(BlockKindsTest, ASessionsBlocksAreMadeTogether) {
  std::vector<BlockSettings> settings(3, Settings("static"));
  for (std::size_t i = 0; i < settings.size(); ++i) settings[i].name = "b" + std::to_string(i);
  auto made = MakeBlocks(settings, Profile::kDefault, Environment());
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->at(2)->name(), "b2");
  settings[2].name = "b0";
  EXPECT_THAT(
      std::string(MakeBlocks(settings, Profile::kDefault, Environment()).status().message()),
      HasSubstr("config.blocks[2].name"));
  settings[2].name = "b2";
  settings[1].kind = "graph";
  EXPECT_THAT(
      std::string(MakeBlocks(settings, Profile::kDefault, Environment()).status().message()),
      HasSubstr("config.blocks[1].kind"));
  EXPECT_EQ(MakeBlocks(std::vector<BlockSettings>(33, Settings("static")), Profile::kDefault,
                       Environment())
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

// Reads `text:` and `thinking:` parts.
class KindReader final : public BodyReader {
 public:
  absl::StatusOr<MessageText> ReadMessage(std::string_view) const override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<MessageHead> ReadHead(std::string_view) const override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<StoredMessage> ReadParts(std::string_view) const override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<StoredPart> ReadPart(std::string_view part) const override {
    StoredPart read;
    if (part == "broken") return absl::DataLossError("can't be read");
    if (part.starts_with("thinking:")) read.kind = StoredPart::Kind::kThinking;
    if (part.starts_with("image:")) {
      read.kind = StoredPart::Kind::kImage;
      read.url = part.substr(6);
    } else {
      read.text = part.substr(part.find(':') + 1);
    }
    return read;
  }
  absl::StatusOr<ContentValue> ReadContent(std::string_view) const override {
    return absl::UnimplementedError("");
  }
};

class StaticBlockTest : public BlockKindsTest {
 protected:
  absl::StatusOr<std::shared_ptr<const Block>> MakeStatic(std::vector<std::string> content,
                                                          Profile profile) {
    BlockEnvironment environment = Environment();
    environment.bodies = &reader_;
    BlockSettings settings = Settings("static");
    settings.content = std::move(content);
    return MakeBlock(settings, "config.blocks[3]", profile, environment);
  }
  KindReader reader_;
};

TEST_F(StaticBlockTest, SaysItsContent) {
  block =
      MakeStatic({"text:a", "text:", "image:https://x.org/a.png"}, Profile::kLlamaIndex).value();
  const BlockContent content = Render().value();
  ASSERT_EQ(content.parts.size(), 3U);
  EXPECT_EQ(content.parts[0].text, "a");
  EXPECT_EQ(content.parts[0].body, "");
  EXPECT_EQ(content.parts[1].text, "");
  EXPECT_EQ(content.parts[2].url, "https://x.org/a.png");
  EXPECT_EQ(content.parts[2].body, "image:https://x.org/a.png");
}

TEST_F(StaticBlockTest, AnEmptyTextIsSomethingAndNoPartsAreNothing) {
  block = MakeStatic({"text:"}, Profile::kLlamaIndex).value();
  EXPECT_FALSE(Render()->empty());
  block = MakeStatic({}, Profile::kLlamaIndex).value();
  EXPECT_TRUE(Render()->empty());
}

TEST_F(StaticBlockTest, OtherPartsAreRefusedButByTheLibrary) {
  EXPECT_TRUE(MakeStatic({"thinking:x"}, Profile::kLlamaIndex).ok());
  EXPECT_THAT(
      std::string(MakeStatic({"text:a", "thinking:x"}, Profile::kDefault).status().message()),
      HasSubstr("config.blocks[3].content[1]"));
  EXPECT_EQ(MakeStatic({"broken"}, Profile::kDefault).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace memoryd
