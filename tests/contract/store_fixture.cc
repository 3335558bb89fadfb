#include "tests/contract/store_fixture.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"
#include "tests/contract/scratch_store.h"

namespace memoryd {
namespace {

constexpr std::int64_t kMany = std::numeric_limits<std::int32_t>::max();

}  // namespace

std::vector<StoreCase> AllStores() {
  std::vector<StoreCase> cases = DurableStores();
  cases.push_back({"sqlite_memory", "sqlite", true});
  cases.push_back({"postgresql_pooled", "postgresql", false, Pooling::kNamed});
  return cases;
}

std::vector<StoreCase> DurableStores() {
  std::vector<StoreCase> cases;
  for (const StoreKind& kind : StoreKinds()) {
    const std::string scheme(kind.scheme);
    cases.push_back({scheme, scheme, false});
  }
  return cases;
}

void StoreTest::SetUp() {
  if (GetParam().in_memory) {
    scratch_ = MakeMemoryStore();
  } else {
    auto scratch = MakeScratchStore(GetParam().scheme);
    ASSERT_TRUE(scratch.ok()) << scratch.status();
    scratch_ = *std::move(scratch);
  }
  ASSERT_NO_FATAL_FAILURE(Open());
  const absl::Status migrated = store_->Migrate();
  ASSERT_TRUE(migrated.ok()) << migrated;
}

void StoreTest::Open() {
  StoreOptions options;
  options.url = scratch_->url();
  for (const StoreKind& kind : StoreKinds()) {
    if (kind.scheme != GetParam().scheme) continue;
    options.coherence = kind.default_coherence;
    // A loaded machine must not make a call fail.
    options.timeout_ms = 60'000;
    options.transaction_pooling = GetParam().pooling;
    auto store = kind.open(options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  ASSERT_NE(store_, nullptr);
}

void StoreTest::Reopen() {
  store_.reset();
  ASSERT_NO_FATAL_FAILURE(Open());
}

std::vector<CommitOutcome> StoreTest::CommitAll(const std::vector<SessionChange>& changes) {
  std::vector<CommitOutcome> outcomes;
  for (const CommitResult& result : store().Commit(changes)) {
    outcomes.push_back(result.outcome);
    const bool explained =
        result.outcome == CommitOutcome::kFailed || result.outcome == CommitOutcome::kUnknown;
    EXPECT_EQ(result.status.ok(), !explained) << result.status;
  }
  EXPECT_EQ(outcomes.size(), changes.size());
  return outcomes;
}

CommitOutcome StoreTest::CommitOne(const SessionChange& change) {
  const std::vector<CommitOutcome> outcomes = CommitAll({change});
  return outcomes.empty() ? CommitOutcome::kUnknown : outcomes.front();
}

void StoreTest::MustCommit(const SessionChange& change) {
  ASSERT_EQ(CommitOne(change), CommitOutcome::kCommitted);
}

std::optional<LoadedSession> StoreTest::Load(const SessionKey& key) {
  auto loaded = store().LoadSession(key, kAllActive);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return loaded.ok() ? *std::move(loaded) : std::nullopt;
}

std::vector<std::int64_t> StoreTest::Positions(const SessionKey& key, std::uint64_t generation) {
  const auto read = store().ReadRange(key, generation, {0, kMany}, kMany, kMany);
  EXPECT_TRUE(read.ok()) << read.status();
  std::vector<std::int64_t> positions;
  if (read.ok()) {
    for (const MessagePtr& message : *read) positions.push_back(message->position);
  }
  return positions;
}

void StoreTest::ExpectStored(const SessionChange& change) {
  const std::optional<LoadedSession> loaded = Load(change.key);
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->row, change.row);
  ExpectSameMessages(loaded->active, change.messages);
}

bool StoreTest::HasRequest(const SessionKey& key, const std::string& request_id) {
  const std::vector<std::string> ids = {request_id};
  const auto found = store().FindRequests(key, ids);
  EXPECT_TRUE(found.ok()) << found.status();
  return found.ok() && found->size() == 1 && found->front().has_value();
}

MessageDraft NewMessage(std::int64_t position, std::string message_id) {
  MessageDraft message;
  message.position = position;
  message.SetMessageId(std::move(message_id));
  message.role = Role::kUser;
  message.token_count = 10 + position;
  message.ingest_us = 1'700'000'000'000'000 + position;
  message.body = fmt::format("body {}", position);
  return message;
}

SessionChange NewSession(const SessionKey& key, int count, std::uint64_t generation) {
  SessionChange before;
  before.key = key;
  before.row.generation = generation;
  before.row.create_us = 1'700'000'000'000'000;
  SessionChange change = Following(before, count);
  change.write_config = true;
  change.row.config = "{}";
  return change;
}

SessionChange Following(const SessionChange& before, int count) {
  SessionChange change;
  change.key = before.key;
  change.expected_revision = before.row.revision;
  change.row = before.row;
  ++change.row.revision;
  change.row.update_us = change.row.create_us + change.row.revision;
  change.row.commit_tag = 0x9000'0000'0000'0000 + static_cast<std::uint64_t>(change.row.revision);
  for (int i = 0; i < count; ++i) {
    change.messages.push_back(NewMessage(change.row.next_position++));
    ++change.row.active_count;
    change.row.active_tokens += change.messages.back()->token_count;
  }
  return change;
}

SessionChange Deleting(const SessionChange& before, std::int64_t update_us) {
  SessionChange change = Following(before, 0);
  change.row.deleted = true;
  change.row.update_us = update_us;
  change.row.config = "";
  change.write_config = true;
  change.garbage = {{before.row.generation, 0, before.row.next_position}};
  return change;
}

void ExpectSameMessages(const std::vector<MessagePtr>& actual,
                        const std::vector<MessagePtr>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    SCOPED_TRACE(fmt::format("message {}", i));
    EXPECT_EQ(actual[i]->position, expected[i]->position);
    EXPECT_EQ(actual[i]->ids->message_id, expected[i]->ids->message_id);
    EXPECT_EQ(actual[i]->role, expected[i]->role);
    EXPECT_EQ(actual[i]->token_count, expected[i]->token_count);
    EXPECT_EQ(actual[i]->ingest_us, expected[i]->ingest_us);
    EXPECT_EQ(actual[i]->ids->calls, expected[i]->ids->calls);
    EXPECT_EQ(actual[i]->ids->results, expected[i]->ids->results);
    // Not EXPECT_EQ: a failure would print megabytes.
    EXPECT_TRUE(actual[i]->body == expected[i]->body) << "bodies differ";
  }
}

}  // namespace memoryd
