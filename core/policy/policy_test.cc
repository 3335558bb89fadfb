#include "core/policy/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/model/message.h"
#include "core/model/session.h"
#include "core/policy/active_view.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Log = std::vector<MessageDraft>;

MessageDraft Make(Role role, std::int64_t tokens, std::vector<std::string> calls = {},
                  std::vector<std::string> results = {}) {
  MessageDraft message;
  message.role = role;
  message.token_count = tokens;
  message.ids.value().calls = std::move(calls);
  message.ids.value().results = std::move(results);
  return message;
}

MessageDraft User(std::int64_t tokens) { return Make(Role::kUser, tokens); }
MessageDraft Assistant(std::int64_t tokens) { return Make(Role::kAssistant, tokens); }
MessageDraft Call(std::string id, std::int64_t tokens = 1) {
  return Make(Role::kAssistant, tokens, {std::move(id)});
}
MessageDraft Result(std::string id, std::int64_t tokens = 1) {
  return Make(Role::kTool, tokens, {}, {std::move(id)});
}

std::int64_t Tokens(const Log& log, std::size_t begin = 0) {
  std::int64_t tokens = 0;
  for (std::size_t i = begin; i < log.size(); ++i) tokens += log[i].token_count;
  return tokens;
}

// A log laid out as the engine holds it: some messages already dropped, some just appended.
class Layout {
 public:
  Layout(const Log& log, std::size_t dropped, std::size_t appended) : dropped_(dropped) {
    for (std::size_t i = 0; i < dropped; ++i) {
      base_.push_back(User(1'000'000));
    }
    for (std::size_t i = 0; i < log.size(); ++i) {
      MessageDraft message(log[i]);
      if (i + appended < log.size()) {
        base_.push_back(message);
      } else {
        appended_.push_back(message);
      }
    }
  }
  ActiveView view() const { return ActiveView(base_, dropped_, appended_); }

 private:
  std::size_t dropped_;
  std::deque<MessagePtr> base_;
  std::vector<MessagePtr> appended_;
};

std::vector<std::size_t> LlamaIndex(const Log& log, const FlushLimits& limits) {
  const Layout layout(log, 0, log.empty() ? 0 : 1);
  return LlamaIndexFlush(layout.view(), Tokens(log), limits);
}

std::vector<std::size_t> Default(const Log& log, const FlushLimits& limits) {
  const Layout layout(log, 0, log.empty() ? 0 : 1);
  return DefaultFlush(layout.view(), nullptr, Tokens(log), limits);
}

Window DefaultGet(const Log& log, std::int64_t pinned, std::int64_t limit) {
  const Layout layout(log, 0, log.empty() ? 0 : 1);
  return DefaultWindow(layout.view(), nullptr, pinned, limit);
}

// The queue becomes what was flushed from the last user message on.
void KeepFromLastUser(Log& flush, std::deque<MessageDraft>& queue) {
  const auto last_user =
      std::find_if(flush.rbegin(), flush.rend(),
                   [](const MessageDraft& message) { return message.role == Role::kUser; });
  if (last_user == flush.rend()) return;
  const auto index = flush.rend() - last_user - 1;
  queue.assign(flush.begin() + index, flush.end());
  flush.resize(static_cast<std::size_t>(index));
}

// The rules of llama-index-core's manage_queue as they read there: lists, sums, copies.
std::vector<std::size_t> NaiveLlamaIndexFlush(const Log& log, const FlushLimits& limits) {
  std::vector<std::size_t> rounds;
  if (log.empty()) return rounds;
  const double threshold = static_cast<double>(limits.token_limit) * limits.ratio;
  if (!(static_cast<double>(Tokens(log)) > threshold)) return rounds;
  std::deque<MessageDraft> queue(log.begin(), log.end());
  double excess = static_cast<double>(Tokens(log)) - threshold;
  while (excess > 0) {
    if (queue.size() <= 1) break;
    Log flush;
    const auto pop = [&] {
      flush.push_back(queue.front());
      queue.pop_front();
    };
    while (Tokens(flush) < limits.flush_size && queue.size() > 1) pop();
    while (!queue.empty() && queue.front().role != Role::kUser && queue.size() > 1) pop();
    if ((queue.empty() || (queue.size() == 1 && queue.front().role != Role::kUser)) &&
        !flush.empty()) {
      if (queue.size() == 1) pop();
      KeepFromLastUser(flush, queue);
    }
    if (!flush.empty()) rounds.push_back(flush.size());
    excess = static_cast<double>(Tokens(Log(queue.begin(), queue.end()))) - threshold;
    if (flush.empty()) break;
  }
  return rounds;
}

class RandomLogs {
 public:
  explicit RandomLogs(std::uint64_t seed) : random_(seed) {}

  std::int64_t Below(std::int64_t n) {
    return std::uniform_int_distribution<std::int64_t>(0, n - 1)(random_);
  }

  // Roles weighted so that whole turns, tool rounds and logs without a user message all come up.
  // Tool ids repeat, results may come late, twice or never.
  Log Next() {
    Log log;
    const std::int64_t size = Below(24);
    const bool users = Below(8) != 0;
    const std::int64_t largest = Below(4) == 0 ? 60 : 12;
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t kind = Below(10);
      const std::int64_t tokens = Below(largest);
      const std::string id = std::to_string(Below(4));
      if (kind < 3) {
        log.push_back(users ? User(tokens) : Assistant(tokens));
      } else if (kind < 5) {
        log.push_back(Call(id, tokens));
        if (Below(3) == 0) log.back().ids.value().calls.push_back(std::to_string(4 + Below(3)));
      } else if (kind < 7) {
        log.push_back(Result(id, tokens));
        if (Below(3) == 0) log.back().role = Role::kUser;
        if (Below(4) == 0) log.back().ids.value().results.push_back(std::to_string(4 + Below(3)));
      } else if (kind == 7) {
        log.push_back(Make(Role::kSystem, tokens));
      } else {
        log.push_back(Assistant(tokens));
      }
    }
    return log;
  }

  FlushLimits Limits() {
    constexpr std::array kRatios = {0.7, 0.5, 1.0, 0.1, 0.0, 1.5};
    return {.token_limit = 1 + Below(80),
            .ratio = kRatios[static_cast<std::size_t>(Below(kRatios.size()))],
            .flush_size = Below(3) == 0 ? 0 : Below(40)};
  }

 private:
  std::mt19937_64 random_;
};

TEST(LlamaIndexFlushTest, EqualsTheRulesAsWrittenOnRandomLogs) {
  RandomLogs random(1);
  int flushed = 0;
  int several_rounds = 0;
  int emptied = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Log log = random.Next();
    const FlushLimits limits = random.Limits();
    const std::vector<std::size_t> expected = NaiveLlamaIndexFlush(log, limits);
    const auto size = static_cast<std::int64_t>(log.size());
    const Layout layout(log, static_cast<std::size_t>(random.Below(3)),
                        static_cast<std::size_t>(random.Below(size + 1)));
    ASSERT_EQ(LlamaIndexFlush(layout.view(), Tokens(log), limits), expected) << "log " << i;
    flushed += expected.empty() ? 0 : 1;
    several_rounds += expected.size() > 1 ? 1 : 0;
    std::size_t left = log.size();
    for (const std::size_t round : expected) left -= round;
    emptied += !log.empty() && left == 0 ? 1 : 0;
  }
  EXPECT_GT(flushed, 4'000);
  EXPECT_GT(several_rounds, 400);
  EXPECT_GT(emptied, 40);
}

TEST(LlamaIndexFlushTest, StaysAtExactlyTheThreshold) {
  const FlushLimits limits = {.token_limit = 10, .ratio = 0.5, .flush_size = 1};
  EXPECT_THAT(LlamaIndex({User(2), User(3)}, limits), IsEmpty());
  EXPECT_THAT(LlamaIndex({User(2), User(4)}, limits), ElementsAre(1));
}

// The threshold is 7.7: rounded to 8 or to 7 it would give another answer to one of the two.
TEST(LlamaIndexFlushTest, ComparesWithTheUnroundedProduct) {
  EXPECT_THAT(LlamaIndex({User(4), User(4)}, {.token_limit = 11, .ratio = 0.7, .flush_size = 1}),
              ElementsAre(1));
  EXPECT_THAT(LlamaIndex({User(4), User(3)}, {.token_limit = 11, .ratio = 0.7, .flush_size = 1}),
              IsEmpty());
}

TEST(LlamaIndexFlushTest, NeverFlushesALoneMessage) {
  EXPECT_THAT(LlamaIndex({User(1000)}, {.token_limit = 10, .ratio = 0.7, .flush_size = 5}),
              IsEmpty());
  EXPECT_THAT(LlamaIndex({}, {.token_limit = 10, .ratio = 0.7, .flush_size = 5}), IsEmpty());
}

TEST(LlamaIndexFlushTest, FlushSizeZeroOnlyClearsTheWayToAUserMessage) {
  const FlushLimits limits = {.token_limit = 5, .ratio = 0.7, .flush_size = 0};
  EXPECT_THAT(LlamaIndex({User(9), Assistant(9), User(9)}, limits), IsEmpty());
  EXPECT_THAT(LlamaIndex({Assistant(9), Assistant(9), User(9)}, limits), ElementsAre(2));
}

TEST(LlamaIndexFlushTest, ArchivesAllOfALogWithoutAUserMessage) {
  const FlushLimits limits = {.token_limit = 10, .ratio = 0.7, .flush_size = 5};
  EXPECT_THAT(LlamaIndex({Assistant(4), Make(Role::kTool, 4), Assistant(4)}, limits),
              ElementsAre(3));
}

TEST(LlamaIndexFlushTest, FlushesALeadingSystemPromptLikeAnyOther) {
  const FlushLimits limits = {.token_limit = 20, .ratio = 0.5, .flush_size = 1};
  EXPECT_THAT(LlamaIndex({Make(Role::kSystem, 8), User(3), Assistant(3)}, limits), ElementsAre(1));
}

TEST(LlamaIndexFlushTest, KeepsTheLastWholeTurnHoweverLarge) {
  const FlushLimits limits = {.token_limit = 20, .ratio = 0.5, .flush_size = 100};
  EXPECT_THAT(LlamaIndex({User(5), Assistant(5), User(50), Assistant(50)}, limits), ElementsAre(2));
  EXPECT_THAT(LlamaIndex({User(50), Assistant(50)}, limits), IsEmpty());
}

TEST(LlamaIndexFlushTest, TakesSeveralRoundsInOneCall) {
  const FlushLimits limits = {.token_limit = 10, .ratio = 1.0, .flush_size = 5};
  EXPECT_THAT(LlamaIndex({User(6), User(6), User(6), User(6)}, limits), ElementsAre(1, 1, 1));
}

std::string Describe(const Log& log) {
  std::string text;
  for (const MessageDraft& message : log) {
    text += "\n" + std::to_string(static_cast<int>(message.role)) + " " +
            std::to_string(message.token_count) + " calls";
    for (const std::string& id : message.ids->calls) text += " " + id;
    text += " results";
    for (const std::string& id : message.ids->results) text += " " + id;
  }
  return text;
}

// Written apart from the code under test: who belongs to whom is looked for anew at every step.
class Model {
 public:
  explicit Model(const Log& log) : log_(log) {
    for (std::size_t i = 0; i < log.size(); ++i) unit_.push_back(i);
    for (std::size_t i = 0; i < log.size(); ++i) {
      for (const std::string& id : log[i].ids->results) {
        const auto call = CallOf(i, id);
        if (!call.has_value()) continue;
        const std::size_t a = std::min(unit_[*call], unit_[i]);
        const std::size_t b = std::max(unit_[*call], unit_[i]);
        for (std::size_t& unit : unit_) {
          if (unit == b) unit = a;
        }
      }
    }
  }

  bool IsHuman(std::size_t i) const {
    return log_[i].role == Role::kUser && log_[i].ids->results.empty();
  }
  bool IsOrphan(std::size_t i) const {
    const auto& results = log_[i].ids->results;
    return !results.empty() && std::none_of(results.begin(), results.end(), [&](const auto& id) {
      return CallOf(i, id).has_value();
    });
  }
  bool BeginsUnit(std::size_t i) const { return unit_[i] == i && !IsOrphan(i); }

  // Units that stand whole, as lists of messages: what a Get may show.
  std::vector<std::vector<std::size_t>> Whole() const {
    std::vector<std::vector<std::size_t>> units;
    for (std::size_t i = 0; i < log_.size(); ++i) {
      if (!BeginsUnit(i)) continue;
      std::vector<std::size_t> unit;
      bool waits = false;
      bool torn = false;
      for (std::size_t j = i; j < log_.size(); ++j) {
        if (unit_[j] != i || IsOrphan(j)) continue;
        unit.push_back(j);
        std::optional<std::size_t> answered;
        for (const auto& id : log_[j].ids->results) {
          const auto call = CallOf(j, id);
          torn |= !call.has_value() || answered.value_or(*call) != *call;
          answered = call;
        }
        for (const auto& id : log_[j].ids->calls) waits |= !IsAnswered(j, id);
      }
      const bool newest = std::none_of(unit_.begin(), unit_.end(), [&](const std::size_t& other) {
        const auto j = static_cast<std::size_t>(&other - unit_.data());
        return j > i && BeginsUnit(j);
      });
      if (!torn && (!waits || newest)) units.push_back(unit);
    }
    return units;
  }

 private:
  std::optional<std::size_t> CallOf(std::size_t result, const std::string& id) const {
    for (std::size_t call = result; call-- > 0;) {
      const auto& calls = log_[call].ids->calls;
      if (std::find(calls.begin(), calls.end(), id) != calls.end()) return call;
    }
    return std::nullopt;
  }
  bool IsAnswered(std::size_t call, const std::string& id) const {
    for (std::size_t result = call + 1; result < log_.size(); ++result) {
      const auto& results = log_[result].ids->results;
      if (std::find(results.begin(), results.end(), id) != results.end() &&
          CallOf(result, id) == call) {
        return true;
      }
    }
    return false;
  }

  const Log& log_;
  std::vector<std::size_t> unit_;
};

struct ModelCut {
  std::size_t first = 0;  // That stays.
  bool in_turn = false;
};

// What DefaultFlush cuts off; a message of `before` tokens has opened the first turn, if it is not
// 0.
ModelCut CutOf(const Log& log, const Model& model, std::int64_t before, const FlushLimits& limits) {
  const double threshold = static_cast<double>(limits.token_limit) * limits.ratio;
  const auto left_by = [&](std::size_t cut) { return before + Tokens(log) - Tokens(log, cut); };
  const auto is_above = [&](std::int64_t left) {
    return static_cast<double>(before + Tokens(log) - left) > threshold;
  };
  const auto enough = [&](std::int64_t left) {
    return left >= limits.flush_size && !is_above(left);
  };
  if (!is_above(0)) return {};
  std::size_t turn = 0;
  std::int64_t left = 0;
  for (std::size_t next = 1; next < log.size() && !(turn > 0 && enough(left)); ++next) {
    if (!model.IsHuman(next)) continue;
    turn = next;
    left = left_by(turn);
  }
  if (!is_above(left)) return {turn, false};
  const bool own = !log.empty() && model.IsHuman(turn);
  const std::int64_t kept = own ? log[turn].token_count : turn == 0 ? before : 0;
  std::size_t first = turn;
  for (std::size_t cut = turn + 1; cut < log.size(); ++cut) {
    // The message that opens the turn leaves never alone.
    if (!model.BeginsUnit(cut) || (own && cut == turn + 1)) continue;
    first = cut;
    if (enough(left_by(cut) - kept)) break;
  }
  return {first, first > turn};
}

TEST(DefaultFlushTest, EqualsTheModelOnRandomLogs) {
  RandomLogs random(2);
  int flushed = 0;
  int cut_turns = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Log log = random.Next();
    const FlushLimits limits = random.Limits();
    const Model model(log);
    const MessagePtr opening(User(random.Below(20)));
    const bool opened = random.Below(2) == 0 && !(!log.empty() && model.IsHuman(0));
    const std::int64_t before = opened ? opening->token_count : 0;
    const ModelCut cut = CutOf(log, model, before, limits);
    const Layout layout(log, 1, log.empty() ? 0 : 1);
    const auto rounds =
        DefaultFlush(layout.view(), opened ? opening.get() : nullptr, before + Tokens(log), limits);
    ASSERT_EQ(rounds, cut.first == 0 ? std::vector<std::size_t>{} : std::vector{cut.first})
        << "log " << i << Describe(log);
    cut_turns += cut.in_turn ? 1 : 0;
    flushed += rounds.empty() ? 0 : 1;
  }
  EXPECT_GT(flushed, 4'000);
  EXPECT_GT(cut_turns, 1'000);
}

TEST(DefaultFlushTest, StaysAtExactlyTheThreshold) {
  const FlushLimits limits = {.token_limit = 10, .ratio = 0.5, .flush_size = 1};
  EXPECT_THAT(Default({User(2), User(3)}, limits), IsEmpty());
  EXPECT_THAT(Default({User(2), User(4)}, limits), ElementsAre(1));
}

TEST(DefaultFlushTest, LetsAtLeastFlushSizeTokensLeaveInOneRound) {
  const Log log = {User(2), Assistant(2), User(2), Assistant(2), User(2), Assistant(2), User(2)};
  EXPECT_THAT(Default(log, {.token_limit = 13, .ratio = 1.0, .flush_size = 1}), ElementsAre(2));
  EXPECT_THAT(Default(log, {.token_limit = 13, .ratio = 1.0, .flush_size = 5}), ElementsAre(4));
  EXPECT_THAT(Default(log, {.token_limit = 13, .ratio = 1.0, .flush_size = 99}), ElementsAre(6));
}

TEST(DefaultFlushTest, ATurnThatIsAloneTooLargeKeepsWhatOpensItAndItsNewestUnit) {
  const FlushLimits limits = {.token_limit = 10, .ratio = 0.7, .flush_size = 1};
  EXPECT_THAT(Default({User(5), Assistant(5), User(50), Assistant(50)}, limits), ElementsAre(2));
  EXPECT_THAT(Default({User(50), Assistant(50)}, limits), IsEmpty());
  EXPECT_THAT(Default({User(1), Assistant(5), Assistant(5)}, limits), ElementsAre(2));
  EXPECT_THAT(
      Default({User(1), Call("a", 5), Result("a", 5), Call("b", 5), Result("b", 5)}, limits),
      ElementsAre(3));
}

TEST(DefaultFlushTest, AChatWithoutAHumansMessageIsOneTurn) {
  const FlushLimits limits = {.token_limit = 10, .ratio = 0.7, .flush_size = 1};
  EXPECT_THAT(Default({Assistant(50), Assistant(50)}, limits), ElementsAre(1));
  EXPECT_THAT(
      Default({Make(Role::kOther, 3), Make(Role::kOther, 3), Make(Role::kOther, 3)}, limits),
      ElementsAre(1));
}

TEST(DefaultFlushTest, ALateResultHoldsNothing) {
  const FlushLimits limits = {.token_limit = 10, .ratio = 0.5, .flush_size = 1};
  EXPECT_THAT(Default({User(9), Call("a"), User(1), Result("a"), User(1)}, limits), ElementsAre(2));
}

TEST(DefaultFlushTest, ACallWithoutResultHoldsNothing) {
  const FlushLimits limits = {.token_limit = 10, .ratio = 0.5, .flush_size = 1};
  EXPECT_THAT(Default({User(9), Call("lost"), User(1)}, limits), ElementsAre(2));
}

TEST(DefaultFlushTest, AReusedCallIdTiesOnlyTheLatestCall) {
  const FlushLimits limits = {.token_limit = 10, .ratio = 0.5, .flush_size = 1};
  EXPECT_THAT(Default({User(9), Call("0"), Result("0"), User(1), Call("0"), Result("0")}, limits),
              ElementsAre(3));
}

TEST(OpeningTest, IsTheLatestThatOpenedATurnWhereTheCutIsWithinOne) {
  const Log log = {Assistant(1), User(2), Assistant(3), User(4), Assistant(5), Assistant(6)};
  const Layout layout(log, 0, 2);
  const MessagePtr before(User(7));
  EXPECT_EQ(OpeningAfter(layout.view(), 0, before), before);
  EXPECT_EQ(OpeningAfter(layout.view(), 1, before), nullptr);
  EXPECT_EQ(OpeningAfter(layout.view(), 2, before)->token_count, 2);
  EXPECT_EQ(OpeningAfter(layout.view(), 3, before), nullptr);
  EXPECT_EQ(OpeningAfter(layout.view(), 5, before)->token_count, 4);
  EXPECT_EQ(OpeningAfter(layout.view(), 6, before)->token_count, 4);
  EXPECT_EQ(OpeningOf(layout.view(), before.get()), before.get());
  const Log turn = {User(1)};
  EXPECT_EQ(OpeningOf(Layout(turn, 0, 0).view(), before.get()), nullptr);
}

// What DefaultWindow shows.
class ModelWindow {
 public:
  // A message that opened the first turn has `opening` tokens.
  ModelWindow(const Log& log, const Model& model, std::optional<std::int64_t> opening,
              std::int64_t pinned)
      : log_(log), model_(model), opening_(opening), pinned_(pinned), units_(model.Whole()) {
    const auto human = NextTurn(0);
    if (!opening.has_value() && human != units_.end()) units_.erase(units_.begin(), human);
  }

  void CutTo(std::int64_t limit) {
    // Whole turns.
    while (tokens() > limit) {
      const auto next = NextTurn(opening_.has_value() || units_.empty() ? 0 : 1);
      if (next == units_.end()) break;
      units_.erase(units_.begin(), next);
      opening_.reset();
    }
    // Units of the newest one.
    while (tokens() > limit) {
      const bool own = !opening_.has_value() && !units_.empty() && IsHuman(units_.front());
      const std::ptrdiff_t first = own ? 1 : 0;
      if (std::ssize(units_) < first + 2) break;
      units_.erase(units_.begin() + first);
    }
  }

  bool shows_opening() const { return opening_.has_value(); }
  std::vector<std::size_t> messages() const {
    std::vector<std::size_t> all;
    for (const Unit& unit : units_) all.insert(all.end(), unit.begin(), unit.end());
    return all;
  }
  std::int64_t tokens() const {
    std::int64_t total = pinned_ + opening_.value_or(0);
    for (const std::size_t message : messages()) total += log_[message].token_count;
    return total;
  }

 private:
  using Unit = std::vector<std::size_t>;

  bool IsHuman(const Unit& unit) const { return model_.IsHuman(unit.front()); }
  std::vector<Unit>::const_iterator NextTurn(std::ptrdiff_t from) const {
    return std::find_if(units_.begin() + from, units_.end(),
                        [this](const Unit& unit) { return IsHuman(unit); });
  }

  const Log& log_;
  const Model& model_;
  std::optional<std::int64_t> opening_;
  const std::int64_t pinned_;
  std::vector<Unit> units_;
};

TEST(DefaultWindowTest, EqualsTheModelOnRandomLogs) {
  RandomLogs random(3);
  int shortened = 0;
  int over = 0;
  int hidden = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Log log = random.Next();
    const std::int64_t pinned = random.Below(20);
    const std::int64_t limit = 1 + random.Below(120);
    const Model model(log);
    const MessagePtr opening(User(random.Below(20)));
    const bool opened = random.Below(2) == 0 && !(!log.empty() && model.IsHuman(0));
    const Layout layout(log, 0, log.empty() ? 0 : 1);
    const Window window =
        DefaultWindow(layout.view(), opened ? opening.get() : nullptr, pinned, limit);

    ModelWindow expected(log, model, opened ? std::optional(opening->token_count) : std::nullopt,
                         pinned);
    const std::size_t all = expected.messages().size();
    expected.CutTo(limit);
    ASSERT_EQ(window.messages, expected.messages()) << "log " << i;
    ASSERT_EQ(window.opening, expected.shows_opening());
    ASSERT_EQ(window.tokens, expected.tokens());
    ASSERT_EQ(window.over_limit_tokens, std::max<std::int64_t>(0, expected.tokens() - limit));
    shortened += expected.messages().size() < all ? 1 : 0;
    hidden += all < log.size() ? 1 : 0;
    over += window.over_limit_tokens > 0 ? 1 : 0;
  }
  EXPECT_GT(shortened, 2'000);
  EXPECT_GT(hidden, 2'000);
  EXPECT_GT(over, 400);
}

TEST(DefaultWindowTest, ReturnsAllWithinTheLimitAndSaysByHowMuchTheRestIsOver) {
  const Window all = DefaultGet({User(4), User(4)}, 2, 10);
  EXPECT_THAT(all.messages, ElementsAre(0, 1));
  EXPECT_EQ(all.tokens, 10);
  EXPECT_EQ(all.over_limit_tokens, 0);

  const Window alone = DefaultGet({User(4), User(12)}, 2, 10);
  EXPECT_THAT(alone.messages, ElementsAre(1));
  EXPECT_EQ(alone.tokens, 14);
  EXPECT_EQ(alone.over_limit_tokens, 4);

  const Window cut = DefaultGet({User(4), Assistant(4), Assistant(4), Assistant(4)}, 0, 10);
  EXPECT_THAT(cut.messages, ElementsAre(0, 3));
  EXPECT_EQ(cut.tokens, 8);
}

TEST(DefaultWindowTest, AResultStandsBehindItsCall) {
  EXPECT_THAT(DefaultGet({User(1), Call("a"), User(1), Result("a")}, 0, 100).messages,
              ElementsAre(0, 1, 3, 2));
  EXPECT_THAT(DefaultGet({User(1), Result("gone"), User(1)}, 0, 100).messages, ElementsAre(0, 2));
}

TEST(DefaultWindowTest, OnlyTheNewestUnitMayWaitForAResult) {
  EXPECT_THAT(DefaultGet({User(1), Call("a")}, 0, 100).messages, ElementsAre(0, 1));
  EXPECT_THAT(DefaultGet({User(1), Call("a"), User(1)}, 0, 100).messages, ElementsAre(0, 2));
}

TEST(DefaultWindowTest, BeginsWithAHumansMessageWhereThereIsOne) {
  EXPECT_THAT(DefaultGet({Assistant(1), User(1)}, 0, 100).messages, ElementsAre(1));
  EXPECT_THAT(DefaultGet({Assistant(1), Assistant(1)}, 0, 100).messages, ElementsAre(0, 1));
}

std::vector<std::size_t> Bytes(const Log& log, std::int64_t surplus, bool more = false) {
  const Layout layout(log, 0, log.empty() ? 0 : 1);
  return ByteFlush(layout.view(), surplus, more);
}

// Its size among active messages.
MessageDraft Sized(MessageDraft message, std::int64_t size) {
  message.body = std::string(static_cast<std::size_t>(size - kActiveMessageBytes), 'b');
  return message;
}

TEST(ByteFlushTest, NothingLeavesThatNeedNot) {
  EXPECT_THAT(Bytes({}, 100), IsEmpty());
  const Log log = {Sized(User(1), 1000), Sized(User(1), 1000)};
  EXPECT_THAT(Bytes(log, 0), IsEmpty());
  EXPECT_THAT(Bytes(log, -5), IsEmpty());
  EXPECT_THAT(Bytes({Sized(User(1), 1000)}, 500), IsEmpty());
}

TEST(ByteFlushTest, WholeTurnsLeaveUntilItIsEnough) {
  const Log log = {Sized(User(1), 1000), Sized(Assistant(1), 1000), Sized(User(1), 1000),
                   Sized(Assistant(1), 1000), Sized(User(1), 1000)};
  EXPECT_THAT(Bytes(log, 1), ElementsAre(2));
  EXPECT_THAT(Bytes(log, 2000), ElementsAre(2));
  EXPECT_THAT(Bytes(log, 2001), ElementsAre(4));
  EXPECT_THAT(Bytes(log, 4000), ElementsAre(4));
  // The newest message stays, however much it is.
  EXPECT_THAT(Bytes(log, 4001), ElementsAre(4));
}

TEST(ByteFlushTest, TheNewestTurnIsCutWhereItAloneIsTooMuch) {
  const Log log = {Sized(User(1), 1000), Sized(User(1), 1000), Sized(Assistant(1), 1000),
                   Sized(Assistant(1), 1000), Sized(Assistant(1), 1000)};
  EXPECT_THAT(Bytes(log, 1000), ElementsAre(1));
  EXPECT_THAT(Bytes(log, 1001), ElementsAre(3));
  EXPECT_THAT(Bytes(log, 3500), ElementsAre(4));
  EXPECT_THAT(Bytes(log, 9000), ElementsAre(4));
}

TEST(ByteFlushTest, ACallLeavesWithItsResultIfThatCanBe) {
  const Log log = {Sized(User(1), 1000), Sized(Call("a"), 1000), Sized(Result("a"), 1000),
                   Sized(Assistant(1), 1000)};
  EXPECT_THAT(Bytes(log, 1500), ElementsAre(3));
  const Log last = {Sized(User(1), 1000), Sized(Call("a"), 1000), Sized(Result("a"), 1000)};
  EXPECT_THAT(Bytes(last, 500), ElementsAre(1));
  // Nothing else would be enough.
  EXPECT_THAT(Bytes(last, 1500), ElementsAre(2));
}

TEST(ByteFlushTest, OfTheOldestPartAllMayLeave) {
  const Log turns = {Sized(User(1), 1000), Sized(Assistant(1), 1000), Sized(User(1), 1000)};
  // The second turn may go on behind what is shown.
  EXPECT_THAT(Bytes(turns, 9000, /*more=*/true), ElementsAre(2));
  EXPECT_THAT(Bytes(turns, 500, /*more=*/true), ElementsAre(2));
  const Log turn = {Sized(User(1), 1000), Sized(Assistant(1), 1000), Sized(Assistant(1), 1000)};
  EXPECT_THAT(Bytes(turn, 9000, /*more=*/true), ElementsAre(3));
  EXPECT_THAT(Bytes(turn, 1500, /*more=*/true), ElementsAre(2));
  EXPECT_THAT(Bytes({Sized(User(1), 1000)}, 1, /*more=*/true), ElementsAre(1));
}

TEST(ByteFlushTest, ARoundIsNoMoreThanAJobMayHold) {
  constexpr std::int64_t kMib = std::int64_t{1} << 20;
  Log log;
  for (int i = 0; i < 6; ++i) log.push_back(Sized(User(1), 6 * kMib));
  log.push_back(Sized(User(1), 20 * kMib));
  log.push_back(Sized(User(1), kMib));
  log.push_back(Sized(User(1), kMib));
  EXPECT_THAT(Bytes(log, 57 * kMib), ElementsAre(2, 2, 2, 1, 1));
}

}  // namespace
}  // namespace memoryd
