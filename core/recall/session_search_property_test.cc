// Random histories: an index that has grown with its session, and one that is made for each search
// because there is no room for any, answer as one made at the end.
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/model/session_config.h"
#include "core/recall/session_search.h"
#include "core/writes/command.h"
#include "core/writes/commands/put_set_reset.h"
#include "core/writes/write.h"
#include "tests/support/search_fixture.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

class SearchHistoryTest : public SearchFixture, public ::testing::WithParamInterface<unsigned> {
 protected:
  std::uint64_t Pick(std::uint64_t below) { return generator_() % below; }

  std::string RandomText() {
    static constexpr const char* kWords[] = {"red", "green", "blue", "house", "river", "stone"};
    std::string text;
    for (std::uint64_t left = 1 + Pick(4); left > 0; --left) {
      text += fmt::format("{} ", kWords[Pick(std::size(kWords))]);
    }
    return text + std::to_string(++count_);
  }

  WriteRequest RandomPut(WriteCommand command) {
    static constexpr const char* kRoles[] = {"user", "user", "assistant", "system"};
    std::vector<Line> lines(Pick(4));
    for (Line& line : lines) line = {kRoles[Pick(std::size(kRoles))], RandomText()};
    std::vector<Note> notes(Pick(3));
    for (Note& note : notes) note = {RandomText()};
    return WithContents(Plain(std::move(command), std::move(lines)), std::move(notes));
  }

  void Step() {
    static constexpr ResetScope kScopes[] = {ResetScope::kActive, ResetScope::kArchived,
                                             ResetScope::kMessages, ResetScope::kEverything};
    if (!session_.exists()) {
      Create(Pick(2) == 0 ? Profile::kDefault : Profile::kLlamaIndex);
      return;
    }
    const std::uint64_t choice = Pick(24);
    if (choice == 0) {
      Commit(Plain(commands::DeleteSession()));
    } else if (choice == 1) {
      Commit(RandomPut(commands::Set()));
    } else if (choice < 5) {
      Commit(Reset(kScopes[Pick(std::size(kScopes))]));
    } else {
      Commit(RandomPut(commands::Put()));
    }
    if (Pick(3) == 0) Sweep();
  }

  // Scores as well, so that index statistics are the same.
  std::vector<std::string> Answer(SessionSearch& search, const std::string& query) {
    const auto found = FindIn(search, kKey, session_.row, AskFor(query, 5), 1);
    EXPECT_TRUE(found.ok()) << found.status();
    if (!found.ok()) return {};
    std::vector<std::string> answer = Texts(*found);
    for (std::size_t i = 0; i < answer.size(); ++i) {
      answer[i] += fmt::format(" {} {}", found->items[i].score,
                               fmt::join(Bodies(found->items[i].neighbours), "|"));
    }
    return answer;
  }

  std::mt19937_64 generator_{GetParam()};
  int count_ = 0;
};

TEST_P(SearchHistoryTest, EveryIndexAnswersAsANewOne) {
  SessionSearch grown(store_.get(), &bodies_, kRoomy, &budget_);
  SessionSearch cramped(store_.get(), &bodies_, 1, &budget_);
  std::size_t found = 0;
  for (int step = 0; step < 150 && !HasFailure(); ++step) {
    SCOPED_TRACE(step);
    ASSERT_NO_FATAL_FAILURE(Step());
    // Not every state is searched, so that several changes come at once.
    if (!session_.exists() || Pick(2) == 0) continue;
    for (const char* query : {"red", "river stone", "blue house 7"}) {
      SessionSearch fresh(real_.get(), &bodies_, kRoomy, &budget_);
      const std::vector<std::string> expected = Answer(fresh, query);
      EXPECT_EQ(Answer(grown, query), expected) << query;
      EXPECT_EQ(Answer(cramped, query), expected) << query;
      EXPECT_EQ(cramped.ByteSize(), 0U);
      found += expected.size();
    }
  }
  EXPECT_GT(found, 50U) << "the history is worth little when there is nothing to find";
}

INSTANTIATE_TEST_SUITE_P(Seeds, SearchHistoryTest, ::testing::Range(1U, 13U));

}  // namespace
}  // namespace memoryd
