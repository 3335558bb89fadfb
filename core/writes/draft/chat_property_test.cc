// Random chats: what a Get of profile `default` shows is what providers accept, within the limit,
// and what left by the limit was fed once (docs/POLICY.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/role.h"
#include "core/model/session_config.h"
#include "core/policy/active_view.h"
#include "core/policy/units.h"
#include "core/reads/compose.h"
#include "core/reads/context.h"
#include "core/writes/write.h"
#include "tests/support/session_draft_fixture.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

constexpr int kChats = 5'000;

bool Contains(const std::vector<std::string>& ids, const std::string& id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

bool IsHuman(const Message& message) {
  return message.role == Role::kUser && message.ids->results.empty();
}

class ChatPropertyTest : public SessionDraftTest, public ::testing::WithParamInterface<unsigned> {
 protected:
  struct Sent {
    std::string role;
    int words = 0;
    std::vector<std::string> calls;
    std::vector<std::string> results;
  };

  std::size_t Pick(std::size_t below) { return generator_() % below; }
  template <typename T, std::size_t kSize>
  const T& OneOf(const T (&values)[kSize]) {
    return values[Pick(kSize)];
  }

  SessionSettings RandomSettings() {
    SessionSettings settings = WordSettings();
    settings.token_limit = 10 + static_cast<std::int64_t>(Pick(120));
    settings.chat_history_token_ratio = 0.3 + 0.1 * static_cast<double>(Pick(8));
    settings.token_flush_size = 1 + static_cast<std::int64_t>(Pick(10));
    if (Pick(5) == 0) settings.user_roles = std::vector<std::string>{"Boss"};
    if (Pick(5) == 0) settings.policy = PolicyKind::kBuffer;
    if (Pick(2) == 0) {
      // What open jobs have to feed retention leaves: so blocks, or retention.
      settings.blocks.emplace(1);
      settings.blocks->front().name = settings.blocks->front().kind = "facts";
      return settings;
    }
    if (Pick(2) == 0) settings.retention.keep_messages = 1 + static_cast<std::int64_t>(Pick(12));
    if (Pick(4) == 0) settings.retention.keep_bytes = 1 + static_cast<std::int64_t>(Pick(300));
    if (Pick(4) == 0) settings.retention.message_ttl_us = 16'000'000;
    return settings;
  }

  // Calls that are `waiting` lose what is answered, mostly.
  Sent RandomResult(int words, std::vector<std::string>& waiting) {
    Sent result{Pick(3) == 0 ? "user" : "tool", words, {}, {}};
    const std::size_t at = Pick(4) == 0 ? Pick(waiting.size()) : 0;
    result.results.push_back(waiting[at]);
    if (Pick(20) != 0) waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(at));
    if (!waiting.empty() && Pick(4) == 0) {
      // Perhaps of another message: then neither stands whole.
      mixed_ = true;
      result.results.push_back(waiting.back());
      waiting.pop_back();
    }
    return result;
  }

  Sent RandomCalls(int words, int& next_call, std::vector<std::string>& waiting) {
    Sent call{"assistant", words, {}, {}};
    for (std::size_t calls = 1 + Pick(3); calls > 0; --calls) {
      call.calls.push_back("call-" + std::to_string(Pick(8) == 0 ? 0 : ++next_call));
      if (Pick(8) != 0) waiting.push_back(call.calls.back());
    }
    return call;
  }

  // Parallel calls, results that come late, twice, in another's message, or never.
  std::vector<Sent> RandomChat() {
    static constexpr const char* kHumans[] = {"user", "human", "Customer", "User"};
    static constexpr const char* kOthers[] = {"assistant", "gpt", "agent", "developer", "Boss"};
    mixed_ = false;
    const bool has_humans = Pick(5) != 0;
    const std::size_t large = Pick(4) == 0 ? 40 : 6;
    std::vector<Sent> chat;
    std::vector<std::string> waiting;
    if (Pick(3) == 0) chat.push_back({"system", 1 + static_cast<int>(Pick(5)), {}, {}});
    int next_call = 0;
    for (std::size_t size = Pick(30); chat.size() < size;) {
      const std::size_t kind = Pick(10);
      const int words = static_cast<int>(Pick(large));
      if (!waiting.empty() && kind < 5) {
        chat.push_back(RandomResult(words, waiting));
      } else if (kind < 3 && has_humans) {
        chat.push_back({OneOf(kHumans), words, {}, {}});
      } else if (kind < 6) {
        chat.push_back(RandomCalls(words, next_call, waiting));
      } else if (kind == 6 && Pick(10) == 0) {
        chat.push_back({"tool", words, {}, {"call-that-nobody-made"}});
      } else {
        chat.push_back({OneOf(kOthers), words, {}, {}});
      }
    }
    return chat;
  }

  WriteRequest PutOf(std::vector<Sent>::const_iterator begin,
                     std::vector<Sent>::const_iterator end) {
    std::vector<Line> lines;
    for (auto sent = begin; sent != end; ++sent) {
      std::string text;
      for (int word = 0; word < sent->words; ++word) text += "w ";
      lines.push_back({sent->role, text});
    }
    WriteRequest request = Plain(commands::Put(), std::move(lines));
    std::size_t i = 0;
    for (auto sent = begin; sent != end; ++sent, ++i) {
      MessageDraft& message = ItemsOf(request).messages[i].message;
      message.role = ParseRole(sent->role, session_.config->user_roles);
      if (!sent->calls.empty()) message.ids.value().calls = sent->calls;
      if (!sent->results.empty()) message.ids.value().results = sent->results;
    }
    return request;
  }

  // OpenAI: a message with calls is followed by the result of each, and a result follows its call.
  // The newest unit, which is the last that is shown, may wait for its results.
  static void ExpectOpenAiAccepts(const std::vector<MessagePtr>& shown) {
    std::set<std::string> open;
    for (std::size_t i = 0; i < shown.size(); ++i) {
      const MessageIds& ids = *shown[i]->ids;
      if (ids.results.empty()) {
        ASSERT_TRUE(open.empty()) << "message " << i << " stands between a call and its result";
      }
      for (const std::string& id : ids.results) {
        bool called = false;
        for (std::size_t before = i; before-- > 0 && !called;) {
          called = Contains(shown[before]->ids->calls, id);
          if (!called && shown[before]->ids->results.empty()) break;
        }
        ASSERT_TRUE(called) << "message " << i << " answers no call that stands before it";
        open.erase(id);
      }
      for (const std::string& id : ids.calls) open.insert(id);
    }
  }

  // Anthropic: the first message but for those of the system is the user's.
  void ExpectAnthropicAccepts(const std::vector<MessagePtr>& shown) const {
    const bool has_human = session_.opening ||
                           std::any_of(session_.active.begin(), session_.active.end(),
                                       [](const MessagePtr& message) { return IsHuman(*message); });
    if (!has_human || shown.size() == session_.pinned.size()) return;
    ASSERT_TRUE(IsHuman(*shown[session_.pinned.size()]));
  }

  // Where the newest unit begins among `shown`.
  static std::size_t NewestShown(const std::vector<MessagePtr>& shown) {
    std::size_t i = shown.size();
    while (i > 0 && !shown[i - 1]->ids->results.empty()) --i;
    return i == 0 ? 0 : i - 1;
  }

  void ExpectWithinTheLimit(const Context& context) const {
    std::int64_t tokens = 0;
    for (const MessagePtr& message : context.messages) tokens += message->token_count;
    ASSERT_EQ(context.token_count, tokens);
    ASSERT_EQ(context.over_limit_tokens, std::max<std::int64_t>(0, tokens - context.limit));
    if (context.over_limit_tokens == 0) return;
    ++over_;
    // Pinned messages, one that opens the turn, and the newest unit.
    const std::size_t first = session_.pinned.size();
    const std::size_t newest = NewestShown(context.messages);
    ASSERT_LE(newest, first + 1);
    ASSERT_TRUE(newest <= first || IsHuman(*context.messages[first]));
  }

  std::string Describe() const {
    std::string text = "\nrow: opening " + std::to_string(session_.row.opening) + ", floor " +
                       std::to_string(session_.row.floor) + ", watermark " +
                       std::to_string(session_.row.watermark) + ", config " +
                       std::string(session_.row.config);
    for (const MessagePtr& message : session_.active) {
      text += "\n" + std::to_string(message->position) + " role " +
              std::to_string(static_cast<int>(message->role)) + ", " +
              std::to_string(message->token_count) + " tokens, calls";
      for (const std::string& id : message->ids->calls) text += " " + id;
      text += ", results";
      for (const std::string& id : message->ids->results) text += " " + id;
    }
    return text;
  }

  // What is active is within the threshold, unless it is one unit.
  void ExpectFlushed() const {
    if (session_.config->policy == PolicyKind::kBuffer || session_.active.empty()) return;
    // Two units that a result ties together leave together, with the next Put if need be.
    if (mixed_) return;
    std::int64_t tokens = 0;
    for (const MessagePtr& message : session_.active) tokens += message->token_count;
    const bool opened = !IsHuman(*session_.active.front());
    if (opened && session_.opening) tokens += session_.opening->token_count;
    const double threshold = static_cast<double>(session_.config->token_limit) *
                             session_.config->chat_history_token_ratio;
    if (static_cast<double>(tokens) <= threshold) return;
    const ActiveView view(session_.active, 0, {});
    const Units units(view);
    for (std::size_t i = IsHuman(view.at(0)) ? 2 : 1; i < view.size(); ++i) {
      ASSERT_FALSE(units.BeginsUnit(i))
          << "what stands before message " << i << " could leave" << Describe();
    }
  }

  void ExpectFedOnce() {
    for (const Job& job : change_->jobs) {
      for (std::int64_t position = job.begin; position < job.end; ++position) {
        ASSERT_TRUE(fed_.insert(position).second) << position << " is fed twice";
        ASSERT_LT(position, session_.row.watermark);
      }
    }
    if (session_.config->blocks.empty()) return;
    std::int64_t archived = session_.row.archived_count;
    for (const std::int64_t position : fed_) archived -= position < session_.row.watermark ? 1 : 0;
    ASSERT_EQ(archived, 0) << "each that has left was fed";
  }

  void ExpectKept() {
    const Retention& retention = session_.config->retention;
    const SessionRow& row = session_.row;
    std::size_t newest = session_.active.size();
    while (newest > 0 && !session_.active[newest - 1]->ids->results.empty()) --newest;
    if (newest > 0) --newest;
    const auto spared = std::ssize(session_.pinned) + (session_.opening ? 1 : 0) +
                        std::ssize(session_.active) - static_cast<std::int64_t>(newest) +
                        (newest > 0 && IsHuman(*session_.active[newest - 1]) ? 1 : 0);
    const bool held = row.drop_us > 0 && row.drop_us <= now_us_ + 1'000'001;
    if (retention.keep_messages > 0 && !held) {
      ASSERT_LE(row.active_count + row.archived_count,
                std::max<std::int64_t>(retention.keep_messages, spared));
    }
    if (retention.message_ttl_us > 0 && row.archived_count == 0) {
      for (const MessagePtr& message : session_.active) {
        ASSERT_GT(message->ingest_us + retention.message_ttl_us, now_us_);
      }
    }
    if (session_.opening) {
      ASSERT_EQ(session_.opening->position, row.opening);
      ASSERT_TRUE(IsHuman(*session_.opening));
      cut_ += 1;
    }
  }

  mutable int over_ = 0;
  bool mixed_ = false;  // A message of the chat has results for calls of two messages.
  int cut_ = 0;
  std::set<std::int64_t> fed_;
  std::mt19937_64 generator_{GetParam()};
};

TEST_P(ChatPropertyTest, AGetIsWhatProvidersAcceptAndWhatLeftWasFedOnce) {
  for (int chat = 0; chat < kChats; ++chat) {
    SCOPED_TRACE(chat);
    session_ = Session::Absent();
    fed_.clear();
    MustStore(WithSettings(commands::CreateSession(), RandomSettings()));
    const std::vector<Sent> sent = RandomChat();
    for (auto next = sent.begin(); next != sent.end();) {
      const auto left = static_cast<std::size_t>(sent.end() - next);
      const auto end = next + static_cast<std::ptrdiff_t>(std::min(left, 1 + Pick(3)));
      now_us_ += static_cast<std::int64_t>(Pick(6'000'000));
      MustStore(PutOf(next, end));
      next = end;
      const Context context = Compose(session_);
      ExpectOpenAiAccepts(context.messages);
      ExpectAnthropicAccepts(context.messages);
      ExpectWithinTheLimit(context);
      ExpectFlushed();
      ExpectFedOnce();
      ExpectKept();
      if (HasFatalFailure()) return;
    }
  }
  // Else it would be easy.
  EXPECT_GT(over_, kChats / 10);
  EXPECT_GT(cut_, kChats / 10);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ChatPropertyTest, ::testing::Range(1U, 21U));

}  // namespace
}  // namespace memoryd
