// Random changes, against a list of messages that is counted anew after each of them.
#include "core/writes/draft/message_ledger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/model/message.h"
#include "core/policy/active_view.h"
#include "core/policy/policy.h"
#include "core/storage/store.h"
#include "core/writes/draft/sizes.h"

namespace memoryd {
namespace {

class MessageLedgerTest : public ::testing::TestWithParam<unsigned> {
 protected:
  enum class Place { kPinned, kActive, kArchived };
  struct Known {
    MessagePtr message;
    Place place;
  };

  // 0 to `below` - 1.
  std::size_t Pick(std::size_t below) { return generator_() % below; }

  void Append(MessageLedger& ledger) {
    for (std::size_t count = Pick(5); count > 0; --count) {
      MessageDraft draft;
      draft.position = row_.next_position++;
      draft.token_count = static_cast<std::int64_t>(Pick(9));
      draft.body = std::string(Pick(40), 'x');
      const MessagePtr message(draft);
      const bool pin = Pick(2) == 0 && ledger.MayPin(row_, *message, 100'000);
      ledger.Append(row_, message, pin);
      known_.push_back({message, pin ? Place::kPinned : Place::kActive});
    }
  }

  void Archive(MessageLedger& ledger) {
    const ActiveView view = ledger.View();
    if (view.size() == 0) return;
    std::size_t leaving = 1 + Pick(view.size());
    ledger.Archive(row_, view, leaving);
    for (Known& known : known_) {
      if (leaving == 0 || known.place != Place::kActive) continue;
      known.place = Place::kArchived;
      --leaving;
    }
  }

  void TakeOut(MessageLedger& ledger) {
    if (known_.empty()) return;
    const auto at = known_.begin() + static_cast<std::ptrdiff_t>(Pick(known_.size()));
    ledger.BeginTakingOut({at->message});
    ledger.TakeOut(row_, *at->message, at->place != Place::kArchived);
    known_.erase(at);
  }

  void Replace(MessageLedger& ledger) {
    if (known_.empty()) return;
    Known& known = known_[Pick(known_.size())];
    MessageDraft draft(*known.message);
    draft.body = std::string(Pick(40), 'y');
    draft.token_count = static_cast<std::int64_t>(Pick(9));
    const MessagePtr message(draft);
    ledger.Replace(row_, message, *known.message, known.place != Place::kArchived);
    known.message = message;
  }

  void Change() {
    MessageLedger ledger(session_);
    switch (Pick(9)) {
      case 0:
        TakeOut(ledger);
        break;
      case 1:
        Replace(ledger);
        break;
      case 2:
        ledger.RemoveActive(row_);
        std::erase_if(known_, [](const Known& one) { return one.place != Place::kArchived; });
        break;
      case 3:
        ledger.RemoveArchived(row_);
        std::erase_if(known_, [](const Known& one) { return one.place == Place::kArchived; });
        break;
      case 4:
        ledger.RemoveAll(row_, row_.generation + 1);
        known_.clear();
        break;
      default:
        Append(ledger);
        if (Pick(2) == 0) Archive(ledger);
        Append(ledger);
        if (Pick(2) == 0) Archive(ledger);
    }
    SessionChange change;
    ledger.TakeChange(change);
    ledger.ApplyTo(session_);
    session_.row = row_;
  }

  void ExpectCounted() const {
    std::int64_t active = 0;
    std::int64_t tokens = 0;
    std::int64_t bytes = 0;
    std::int64_t active_bytes = 0;
    std::size_t content_bytes = 0;
    std::vector<MessagePtr> pinned;
    std::vector<MessagePtr> unpinned;
    for (const auto& [message, place] : known_) {
      bytes += BodyBytes(*message);
      if (place == Place::kArchived) continue;
      ++active;
      tokens += message->token_count;
      active_bytes += ActiveSize(*message);
      content_bytes += message->ByteSize();
      (place == Place::kPinned ? pinned : unpinned).push_back(message);
    }
    EXPECT_EQ(row_.active_count, active);
    EXPECT_EQ(row_.archived_count, static_cast<std::int64_t>(known_.size()) - active);
    EXPECT_EQ(row_.active_tokens, tokens);
    EXPECT_EQ(row_.message_bytes, bytes);
    EXPECT_EQ(session_.active_bytes, active_bytes);
    EXPECT_EQ(session_.content_bytes, content_bytes);
    EXPECT_TRUE(std::ranges::equal(session_.pinned, pinned));
    EXPECT_TRUE(std::ranges::equal(session_.active, unpinned));
  }

  std::mt19937 generator_{GetParam()};
  Session session_ = Session::Absent();
  SessionRow row_ = session_.row;
  std::vector<Known> known_;  // By position.
};

TEST_P(MessageLedgerTest, CountsWhatIsThereAfterEachChange) {
  for (int step = 0; step < 400 && !HasFailure(); ++step) {
    Change();
    ExpectCounted();
  }
}

INSTANTIATE_TEST_SUITE_P(Ledgers, MessageLedgerTest, ::testing::Range(0U, 10U));

}  // namespace
}  // namespace memoryd
