// What the tests of the store contract share: a store of each kind, and changes made from parts.
#ifndef MEMORYD_TESTS_CONTRACT_STORE_FIXTURE_H_
#define MEMORYD_TESTS_CONTRACT_STORE_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "core/storage/store.h"
#include "core/storage/stores.h"
#include "tests/contract/scratch_store.h"

namespace memoryd {

struct StoreCase {
  std::string name;
  std::string scheme;
  bool in_memory = false;
  Pooling pooling = Pooling::kNone;
};

// Every registered kind, SQLite in memory, and PostgreSQL as behind a pooler.
std::vector<StoreCase> AllStores();
// Those whose data outlives the store.
std::vector<StoreCase> DurableStores();

inline void PrintTo(const StoreCase& store, std::ostream* out) { *out << store.name; }
inline std::string StoreCaseName(const ::testing::TestParamInfo<StoreCase>& info) {
  return info.param.name;
}

// An open, migrated, empty store.
class StoreTest : public ::testing::TestWithParam<StoreCase> {
 protected:
  void SetUp() override;

  Store& store() { return *store_; }
  // Closes the store and opens it again.
  void Reopen();

  // Commits one change alone.
  CommitOutcome CommitOne(const SessionChange& change);
  // Commits and expects success.
  void MustCommit(const SessionChange& change);
  std::vector<CommitOutcome> CommitAll(const std::vector<SessionChange>& changes);

  // What is stored, nullopt for no row; an error fails the test.
  std::optional<LoadedSession> Load(const SessionKey& key);
  // The positions stored for a generation.
  std::vector<std::int64_t> Positions(const SessionKey& key, std::uint64_t generation);
  // The row and the messages of `change`, nothing else.
  void ExpectStored(const SessionChange& change);
  bool HasRequest(const SessionKey& key, const std::string& request_id);

 private:
  void Open();

  std::unique_ptr<ScratchStore> scratch_;
  std::unique_ptr<Store> store_;
};

// A message with a body of its own; the id, if any, is given.
MessageDraft NewMessage(std::int64_t position, std::string message_id = "");

// A change that creates the session with `count` messages, all active, at revision 1.
SessionChange NewSession(const SessionKey& key, int count = 1, std::uint64_t generation = 1);

// The change that follows `before` and appends `count` messages.
SessionChange Following(const SessionChange& before, int count = 1);

// The change that follows `before` and leaves a tombstone.
SessionChange Deleting(const SessionChange& before, std::int64_t update_us);

// The same messages in all their fields.
void ExpectSameMessages(const std::vector<MessagePtr>& actual,
                        const std::vector<MessagePtr>& expected);

}  // namespace memoryd

#endif  // MEMORYD_TESTS_CONTRACT_STORE_FIXTURE_H_
