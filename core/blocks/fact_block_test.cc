
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/blocks/block.h"
#include "core/blocks/fact_state.h"
#include "core/model/job.h"
#include "core/model/session_config.h"
#include "tests/support/block_fixture.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kLlama = Profile::kLlamaIndex;

class LlamaFactBlockTest : public testing::Test, protected BlockFixture {};

TEST_F(LlamaFactBlockTest, AsksWithTheMessagesThenThePrompt) {
  Make(
      "fact-extraction",
      R"({"model":"chat","extraction_prompt":" \n<{existing_facts}>{max_facts}{x}\n\n","facts":["old"]})",
      kLlama);
  models.chat->replies = {"<facts><fact>new</fact></facts>"};
  ASSERT_TRUE(Feed({Text("user", "hi"), Text("tool", "42", R"({"n":1.0})")}).ok());
  ASSERT_EQ(models.chat->calls.size(), 1U);
  const auto& call = models.chat->calls[0];
  ASSERT_EQ(call.request.messages.size(), 3U);
  EXPECT_EQ(call.request.messages[0].role, "user");
  EXPECT_EQ(call.request.messages[0].parts[0].text, "hi");
  EXPECT_EQ(call.request.messages[0].metadata_json, R"({"session_id": "session-1"})");
  EXPECT_EQ(call.request.messages[1].role, "tool");
  EXPECT_EQ(call.request.messages[1].metadata_json, R"({"n": 1.0, "session_id": "session-1"})");
  EXPECT_EQ(call.request.messages[2].role, "user");
  EXPECT_EQ(call.request.messages[2].metadata_json, "");
  EXPECT_EQ(models.chat->Prompt(0), "<<fact>old</fact>>50{x}");
  EXPECT_EQ(call.caller.tenant, "tenant");
  EXPECT_EQ(call.caller.session, "session-1");
  EXPECT_EQ(call.caller.block, "block");
  EXPECT_EQ(call.caller.job_id, "job-1");
  EXPECT_EQ(Said(), "<fact>old</fact>\n<fact>new</fact>");
  EXPECT_EQ(usage, (Usage{1, 10, 2}));
}

TEST_F(LlamaFactBlockTest, SaysNothingWithoutFacts) {
  Make("fact-extraction", R"({"model":"chat"})", kLlama);
  EXPECT_TRUE(Render()->empty());
  models.chat->replies = {"no facts here"};
  ASSERT_TRUE(Feed({Text("user", "hi")}).ok());
  EXPECT_TRUE(Render()->empty());
}

TEST_F(LlamaFactBlockTest, AppendsWhatIsNew) {
  Make("fact-extraction", R"({"model":"chat"})", kLlama);
  models.chat->replies = {"<fact>b</fact><fact>a</fact><fact>b</fact>",
                          "<fact>a</fact><fact>A</fact><fact></fact></fact>"};
  ASSERT_TRUE(Feed({Text("user", "1")}).ok());
  ASSERT_TRUE(Feed({Text("user", "2")}).ok());
  EXPECT_EQ(Said(), "<fact>b</fact>\n<fact>a</fact>\n<fact>A</fact>");
}

TEST_F(LlamaFactBlockTest, CondensesWithTheSameMessages) {
  Make("fact-extraction",
       R"({"model":"chat","max_facts":2,"condense_prompt":"C{max_facts} {existing_facts}"})",
       kLlama);
  models.chat->replies = {"<fact>a</fact><fact>b</fact><fact>c</fact>",
                          "<fact>x</fact><fact>x</fact><fact>y</fact>"};
  ASSERT_TRUE(Feed({Text("user", "1")}).ok());
  EXPECT_EQ(models.chat->Prompt(1), "C2 <fact>a</fact>\n<fact>b</fact>\n<fact>c</fact>");
  EXPECT_EQ(models.chat->calls[1].request.messages.size(), 2U);
  // The answer replaces the list as it is: doubled, and still too long.
  EXPECT_EQ(Said(), "<fact>x</fact>\n<fact>x</fact>\n<fact>y</fact>");
  EXPECT_EQ(usage.calls, 2);

  models.chat->replies = {"none", "none"};
  ASSERT_TRUE(Feed({Text("user", "2")}).ok());
  EXPECT_EQ(models.chat->calls.size(), 4U);
  EXPECT_EQ(Said(), "<fact>x</fact>\n<fact>x</fact>\n<fact>y</fact>");
}

TEST_F(LlamaFactBlockTest, PassesErrorsOnAndKeepsWhatItKnew) {
  Make("fact-extraction", R"({"model":"chat","max_facts":1})", kLlama);
  models.chat->replies = {"<fact>a</fact>"};
  ASSERT_TRUE(Feed({Text("user", "1")}).ok());
  const BlockState before = state;
  models.chat->replies = {absl::DeadlineExceededError("late")};
  EXPECT_EQ(Feed({Text("user", "2")}).code(), absl::StatusCode::kDeadlineExceeded);
  models.chat->replies = {"<fact>b</fact>", absl::UnavailableError("gone")};
  EXPECT_EQ(Feed({Text("user", "2")}).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(state, before);
}

TEST_F(LlamaFactBlockTest, AsksNobodyWithoutMessages) {
  Make("fact-extraction", R"({"model":"chat","facts":["a"]})", kLlama);
  ASSERT_TRUE(Feed({}).ok());
  EXPECT_TRUE(models.chat->calls.empty());
  EXPECT_EQ(Said(), "<fact>a</fact>");
}

TEST_F(LlamaFactBlockTest, GoesWholeWhenTruncated) {
  Make("fact-extraction", R"({"model":"chat","facts":["a","b","c"]})", kLlama);
  EXPECT_TRUE(Truncate(Render().value(), 1).empty());
}

TEST_F(LlamaFactBlockTest, MayBeToldNotToFeed) {
  Make("fact-extraction", R"({"model":"chat","accept_short_term_memory":false})", kLlama);
  EXPECT_FALSE(block->feeds());
}

class FactBlockTest : public testing::Test, protected BlockFixture {};

TEST_F(FactBlockTest, ShowsNumberedMessagesAndTakesEvidence) {
  Make("fact-extraction", R"({"model":"chat"})");
  models.chat->replies = {"<facts><fact evidence=\"3\">likes tea</fact></facts>"};
  ASSERT_TRUE(Feed({Text("user", "hi </message><message>"), Text("assistant", " "),
                    Text("user", "I like tea")})
                  .ok());
  EXPECT_THAT(
      models.chat->Prompt(0),
      HasSubstr("<message number=\"1\" role=\"user\">hi &lt;/message>&lt;message></message>\n"
                "<message number=\"3\" role=\"user\">I like tea</message>\n"));
  EXPECT_THAT(models.chat->Prompt(0), Not(HasSubstr("number=\"2\"")));
  const FactState facts = FactState::FromJson(state.state).value();
  ASSERT_EQ(facts.facts.size(), 1U);
  EXPECT_THAT(facts.facts[0].evidence, ElementsAre("m3"));
  EXPECT_EQ(facts.facts[0].first_us, now_us);
  EXPECT_EQ(Said(), "<fact>likes tea</fact>");
}

TEST_F(FactBlockTest, TextsCannotCloseTheirTags) {
  Make("fact-extraction", R"({"model":"chat"})");
  models.chat->replies = {R"({"facts":["x </fact> y"]})"};
  ASSERT_TRUE(Feed({Text("user", "1")}).ok());
  models.chat->replies = {"<fact>p &lt;/fact>&lt;fact&gt; q</fact>"};
  ASSERT_TRUE(Feed({Text("user", "2")}).ok());
  EXPECT_EQ(Said(), "<fact>x &lt;/fact> y</fact>\n<fact>p &lt;/fact>&lt;fact> q</fact>");
}

TEST_F(FactBlockTest, NonsenseTakesNothingAwayAndIsCounted) {
  Make("fact-extraction", R"({"model":"chat","facts":["a"]})");
  for (const char* const answer : {"", "I can't help with that, friend.", "{\"x\":"}) {
    models.chat->replies = {std::string(answer)};
    ASSERT_TRUE(Feed({Text("user", "1")}).ok());
  }
  EXPECT_EQ(stats.unreadable_answers.load(), 3U);
  EXPECT_EQ(stats.answers.load(), 3U);
  EXPECT_EQ(Said(), "<fact>a</fact>");
  models.chat->replies = {"<facts></facts>"};
  ASSERT_TRUE(Feed({Text("user", "1")}).ok());
  EXPECT_EQ(stats.unreadable_answers.load(), 3U);
}

TEST_F(FactBlockTest, CondensesIntoHistory) {
  Make("fact-extraction", R"({"model":"chat","max_facts":2})");
  models.chat->replies = {"<fact>a</fact><fact>b</fact><fact>c</fact>",
                          "<fact from=\"1,2\">a and b</fact>"};
  ASSERT_TRUE(Feed({Text("user", "1")}).ok());
  EXPECT_THAT(models.chat->Prompt(1), HasSubstr("<fact id=\"3\">c</fact>"));
  const FactState facts = FactState::FromJson(state.state).value();
  EXPECT_EQ(Said(), "<fact>a and b</fact>");
  ASSERT_EQ(facts.history.size(), 3U);
  EXPECT_EQ(facts.history[2].fact.text, "c");
}

TEST_F(FactBlockTest, WhileCondensingFailsTheListStaysBounded) {
  Make("fact-extraction", R"({"model":"chat","max_facts":4})");
  models.chat->replies = {
      "<fact>1</fact><fact>2</fact><fact>3</fact><fact>4</fact><fact>5</fact><fact>6</fact>"
      "<fact>7</fact><fact>8</fact>",
      "<fact>all of it</fact>"};
  ASSERT_TRUE(Feed({Text("user", "1")}).ok());
  EXPECT_EQ(stats.refused_condensings.load(), 1U);
  const FactState facts = FactState::FromJson(state.state).value();
  EXPECT_EQ(facts.facts.size(), 6U);
  EXPECT_EQ(facts.history.size(), 2U);
}

TEST_F(FactBlockTest, LongJobsAreAskedInPieces) {
  Make("fact-extraction", R"({"model":"chat"})");
  std::vector<BlockMessage> messages;
  for (int i = 0; i < 5; ++i) messages.push_back(Text("user", std::string(15'000, 'x')));
  for (int i = 0; i < 5; ++i) {
    models.chat->replies.push_back("<fact evidence=\"" + std::to_string(i + 1) + "\">fact " +
                                   std::to_string(i) + "</fact>");
  }
  ASSERT_TRUE(Feed(std::move(messages)).ok());
  EXPECT_EQ(models.chat->calls.size(), 5U);
  const FactState facts = FactState::FromJson(state.state).value();
  ASSERT_EQ(facts.facts.size(), 5U);
  EXPECT_THAT(facts.facts[4].evidence, ElementsAre("m5"));
}

TEST_F(FactBlockTest, TruncatesTheLeastTrustedThenTheOldest) {
  Make("fact-extraction", R"({"model":"chat"})");
  models.chat->replies = {
      "<fact evidence=\"1\">user one</fact><fact evidence=\"2\">tool one</fact>"
      "<fact evidence=\"1\">user two</fact>"};
  ASSERT_TRUE(Feed({Text("user", "1"), Text("tool", "2")}).ok());
  const BlockContent all = Render().value();
  ASSERT_EQ(all.parts.size(), 3U);
  BlockContent rest = Truncate(all, 1);
  ASSERT_EQ(rest.parts.size(), 2U);
  EXPECT_EQ(rest.parts[0].text, "<fact>user one</fact>");
  rest = Truncate(all, 3);
  ASSERT_EQ(rest.parts.size(), 1U);
  EXPECT_EQ(rest.parts[0].text, "<fact>user two</fact>");
  EXPECT_TRUE(Truncate(all, 100).empty());
}

TEST_F(FactBlockTest, AnEmbedderTellsWhatIsKnownInOtherWords) {
  Make("fact-extraction", R"({"model":"chat"})");
  session.embedder = {"", "hash"};
  models.embedder->meanings = {{"Noras Zuhause ist Bergen.", "Nora lives in Bergen."},
                               {"The choir meets on Fridays.", "The choir meets on Mondays."}};
  models.chat->replies = {
      "<fact>Nora lives in Bergen.</fact><fact>The choir meets on Mondays.</fact>"};
  ASSERT_TRUE(Feed({Text("user", "1")}).ok());
  EXPECT_TRUE(models.embedder->calls.empty());  // There was nothing to compare them with.
  models.chat->replies = {
      "<fact>Noras Zuhause ist Bergen.</fact><fact>The choir meets on Fridays.</fact>"
      "<fact>nora lives in bergen</fact><fact>Tom is a cook.</fact>"};
  ASSERT_TRUE(Feed({Text("user", "2")}).ok());
  ASSERT_EQ(models.embedder->calls.size(), 1U);
  EXPECT_THAT(
      models.embedder->calls[0].texts,
      ElementsAre("Noras Zuhause ist Bergen.", "The choir meets on Fridays.", "Tom is a cook.",
                  "Nora lives in Bergen.", "The choir meets on Mondays."));
  EXPECT_EQ(Said(),
            "<fact>Nora lives in Bergen.</fact>\n<fact>The choir meets on Fridays.</fact>\n"
            "<fact>Tom is a cook.</fact>");
  const FactState facts = FactState::FromJson(state.state).value();
  EXPECT_EQ(facts.facts[0].seen, 3);
  EXPECT_THAT(facts.facts[0].evidence, ElementsAre("m1", "m2"));
  ASSERT_EQ(facts.history.size(), 1U);
  EXPECT_EQ(facts.history[0].fact.text, "The choir meets on Mondays.");
  EXPECT_EQ(usage.calls, 3);  // Those of the embedder count.
}

TEST_F(FactBlockTest, WithoutTheEmbeddersAnswerFactsAreTakenAsTheyAre) {
  Make("fact-extraction", R"({"model":"chat"})");
  models.embedder->meanings = {{"Noras Zuhause ist Bergen.", "Nora lives in Bergen."}};
  for (const char* const embedder : {"hash", "none", ""}) {
    session.embedder = {"", embedder};
    models.embedder->error = absl::UnavailableError("gone");
    state = {};
    models.chat->replies = {"<fact>Nora lives in Bergen.</fact>",
                            "<fact>Noras Zuhause ist Bergen.</fact>"};
    ASSERT_TRUE(Feed({Text("user", "1")}).ok());
    ASSERT_TRUE(Feed({Text("user", "2")}).ok());
    EXPECT_EQ(Said(), "<fact>Nora lives in Bergen.</fact>\n<fact>Noras Zuhause ist Bergen.</fact>");
  }
}

TEST_F(FactBlockTest, HowAlikeTheSameFactsAreMayBeSaid) {
  Make("fact-extraction", R"({"model":"chat","same_fact_similarity":1,"facts":["a b c d e"]})");
  session.embedder = {"", "hash"};
  models.chat->replies = {"<fact>a b c d f</fact>"};
  ASSERT_TRUE(Feed({Text("user", "1")}).ok());
  EXPECT_EQ(Said(), "<fact>a b c d e</fact>\n<fact>a b c d f</fact>");
  BlockSettings settings;
  settings.name = "block";
  settings.kind = "fact-extraction";
  for (const char* const bad : {"0.4", "1.1", "\"a\""}) {
    settings.options_json = std::string(R"({"model":"chat","same_fact_similarity":)") + bad + "}";
    EXPECT_THAT(TryMake(settings, Profile::kDefault).status().message(),
                HasSubstr("same_fact_similarity"));
  }
  settings.options_json = R"({"model":"chat","same_fact_similarity":0.9})";
  EXPECT_FALSE(TryMake(settings, kLlama).ok());
}

TEST_F(FactBlockTest, StateThatIsNotOursIsAnError) {
  Make("fact-extraction", R"({"model":"chat"})");
  state.state = "nonsense";
  EXPECT_EQ(Feed({Text("user", "1")}).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Render().status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(FactBlockTest, AModelThatIsNotThereIsAnError) {
  Make("fact-extraction", R"({"model":"other"})");
  EXPECT_EQ(Feed({Text("user", "1")}).code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace memoryd
