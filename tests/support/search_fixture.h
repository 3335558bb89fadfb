// A session that is written by drafts and searched in a real store, whose faults a test controls.
#ifndef MEMORYD_TESTS_SUPPORT_SEARCH_FIXTURE_H_
#define MEMORYD_TESTS_SUPPORT_SEARCH_FIXTURE_H_

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/recall/session_search.h"
#include "tests/support/faulty_store.h"
#include "tests/support/memory_store.h"
#include "tests/support/plain_body_reader.h"
#include "tests/support/session_draft_fixture.h"

namespace memoryd {

inline constexpr std::size_t kRoomy = std::size_t{64} << 20;

inline SearchRequest AskFor(std::string_view query, std::size_t top_k = 100) {
  SearchRequest request;
  request.query = query;
  request.top_k = top_k;
  request.ranking = WordsAlone();
  return request;
}

// What was found as "message 3: its body" or "content 1: its body", the best first.
inline std::vector<std::string> Texts(const Found& found) {
  std::vector<std::string> texts;
  for (const FoundItem& item : found.items) {
    const Message& row = item.message != nullptr ? *item.message : *item.content;
    texts.push_back(fmt::format("{} {}: {}", item.message != nullptr ? "message" : "content",
                                row.position, row.body));
  }
  return texts;
}

// What a search does: its index brought up to `row` in steps, and asked. An index that has rows
// which a Reset took is made anew at the second try.
inline absl::StatusOr<Found> FindIn(SessionSearch& search, const SessionKey& key,
                                    const SessionRow& row, const SearchRequest& request,
                                    std::size_t neighbours = 0, bool accept_missing = false) {
  const SessionSearch::Index index = search.Open(key);
  absl::StatusOr<bool> done = false;
  for (int tries_left = 1; !done.ok() || !*done;) {
    done = search.CatchUp(index, row, request.ranking, accept_missing);
    if (!done.ok() && (!absl::IsAborted(done.status()) || tries_left-- == 0)) return done.status();
  }
  return search.Find(index, request, {}, {neighbours, std::nullopt, false}, accept_missing);
}

class SearchFixture : public SessionDraftTest {
 protected:
  void SetUp() override {
    auto store = OpenMemoryStore();
    ASSERT_TRUE(store.ok()) << store.status();
    real_ = *std::move(store);
    store_ = std::make_unique<FaultyStore>(real_.get());
  }

  // The write in a draft of its own, and in the store.
  void Commit(WriteRequest request) {
    const SessionDraft::Decision decision = Apply(std::move(request));
    ASSERT_EQ(decision.kind, DecisionKind::kStore) << decision.status;
    const std::vector<CommitResult> results = store_->Commit({&*change_, 1});
    ASSERT_EQ(results.front().outcome, CommitOutcome::kCommitted) << results.front().status;
  }
  void CommitNotes(std::vector<Note> notes, std::vector<Line> lines = {}) {
    Commit(WithContents(Plain(commands::Put(), std::move(lines)), std::move(notes)));
  }
  // What the sweeper does.
  void Sweep() { ASSERT_TRUE(real_->Purge({0, std::int64_t{1} << 60, 1'000'000}).ok()); }
  // Threshold 10 tokens: two messages of one word stay active.
  void Create(Profile profile = Profile::kDefault) {
    SessionSettings settings = WordSettings(profile);
    settings.token_limit = 20;
    settings.chat_history_token_ratio = 0.5;
    settings.token_flush_size = 1;
    Commit(WithSettings(commands::CreateSession(), settings));
  }

  MemoryBudget budget_{0};
  PlainBodyReader bodies_;
  std::unique_ptr<Store> real_;
  std::unique_ptr<FaultyStore> store_;
};

}  // namespace memoryd

#endif  // MEMORYD_TESTS_SUPPORT_SEARCH_FIXTURE_H_
