// What SQLite reads to answer: the rows of the session that is asked for, and no other's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/items/namespace_path.h"
#include "core/model/session.h"
#include "core/storage/item_batch.h"
#include "core/storage/item_store.h"
#include "core/storage/sqlite/sqlite_store.h"
#include "core/storage/sqlite/temporary_folder.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"

namespace memoryd::sqlite {
namespace {

using ::testing::AnyOf;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::Not;

const SessionKey kKey{"t", "s"};

// Every statement that any connection runs while this lives.
class Recorder {
 public:
  Recorder() {
    statements().clear();
    sqlite3_auto_extension(reinterpret_cast<void (*)()>(&Recorder::Attach));
  }
  ~Recorder() { sqlite3_cancel_auto_extension(reinterpret_cast<void (*)()>(&Recorder::Attach)); }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  static std::set<std::string>& statements() {
    static auto* const kStatements = new std::set<std::string>();
    return *kStatements;
  }

 private:
  static int Attach(sqlite3* db, const char** /*error*/, const sqlite3_api_routines* /*api*/) {
    const auto note = [](unsigned /*event*/, void* /*context*/, void* statement, void* /*sql*/) {
      statements().insert(sqlite3_sql(static_cast<sqlite3_stmt*>(statement)));
      return 0;
    };
    return sqlite3_trace_v2(db, SQLITE_TRACE_STMT, note, nullptr);
  }
};

// The lines of a statement's plan.
std::vector<std::string> PlanOf(sqlite3* db, const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  const std::string explain = "EXPLAIN QUERY PLAN " + sql;
  EXPECT_EQ(sqlite3_prepare_v2(db, explain.c_str(), -1, &statement, nullptr), SQLITE_OK) << sql;
  std::vector<std::string> lines;
  while (sqlite3_step(statement) == SQLITE_ROW) {
    lines.emplace_back(reinterpret_cast<const char*>(sqlite3_column_text(statement, 3)));
  }
  sqlite3_finalize(statement);
  return lines;
}

// How far a read may look.
enum class Reach {
  kSession,  // Rows of the session.
  kTenant,   // By design, of all sessions of the tenant.
  kLatest,   // By design, of all sessions of a subject, which are sorted.
  kDue,      // By design, of all tenants: what is due, by the index of its time or state.
};

struct Read {
  std::string name;
  Reach reach;
  std::function<absl::Status(Store& store)> call;
};

std::vector<Read> AllReads() {
  const PositionRange range{1, 9};
  return {
      {"LoadSession", Reach::kSession,
       [](Store& s) { return s.LoadSession(kKey, kAllActive).status(); }},
      {"LoadSession that sums up its bytes", Reach::kSession,
       [](Store& s) { return s.LoadSession(kKey, -1).status(); }},
      {"ReadRange", Reach::kSession,
       [=](Store& s) { return s.ReadRange(kKey, 1, range, 5, 100).status(); }},
      {"ReadNewest", Reach::kSession,
       [=](Store& s) { return s.ReadNewest(kKey, 1, range, 5, 100).status(); }},
      {"ReadPositions", Reach::kSession,
       [](Store& s) { return s.ReadPositions(kKey, 1, std::vector<std::int64_t>{1}, 9).status(); }},
      {"FindPositions", Reach::kSession,
       [](Store& s) { return s.FindPositions(kKey, 1, std::vector<std::string>{"id"}).status(); }},
      {"ReadSizes", Reach::kSession,
       [=](Store& s) { return s.ReadSizes(kKey, 1, range, 5).status(); }},
      {"Revisions", Reach::kSession,
       [](Store& s) { return s.Revisions(std::vector<SessionKey>{kKey}).status(); }},
      {"FindRequests", Reach::kSession,
       [](Store& s) { return s.FindRequests(kKey, std::vector<std::string>{"r"}).status(); }},
      {"CountRequests", Reach::kSession, [](Store& s) { return s.CountRequests(kKey).status(); }},
      {"ListJobs", Reach::kSession,
       [](Store& s) {
         JobFilter filter;
         filter.generation = 1;
         filter.max_jobs = 5;
         return s.ListJobs(kKey, filter).status();
       }},
      {"FindJob", Reach::kSession,
       [](Store& s) {
         return s.FindJob({kKey, 1, "block", 1}).status();
       }},
      {"ListSessions", Reach::kTenant,
       [](Store& s) { return s.ListSessions("t", "", {.max_sessions = 5}).status(); }},
      {"ListSubject", Reach::kTenant,
       [](Store& s) { return s.ListSubject("t", "u", "", {.max_sessions = 5}, false).status(); }},
      {"ListLatest", Reach::kLatest,
       [](Store& s) { return s.ListLatest("t", "u", {}, {.max_sessions = 5}).status(); }},
      {"ReadUsage", Reach::kTenant, [](Store& s) { return s.ReadUsage("t").status(); }},
      {"ListGarbage", Reach::kTenant, [](Store& s) { return s.ListGarbage("t", "", 5).status(); }},
      {"ListDueSessions", Reach::kDue, [](Store& s) { return s.ListDueSessions(1, 5).status(); }},
      {"ClaimJobs", Reach::kDue,
       [](Store& s) {
         ClaimRequest request;
         request.lease = 1;
         request.max_jobs = 5;
         return s.ClaimJobs(request).status();
       }},
      {"CountJobs", Reach::kDue, [](Store& s) { return s.CountJobs().status(); }},
  };
}

// Matches a line of a plan that searches or scans.
testing::Matcher<std::string> ReachesNoFurtherThan(Reach reach) {
  switch (reach) {
    case Reach::kSession:
      return HasSubstr("(tenant=? AND session=?");
    case Reach::kLatest:
      return AnyOf(HasSubstr("(tenant=?"), Eq("SCAN k"));
    case Reach::kTenant:
      return HasSubstr("(tenant=?");
    case Reach::kDue:
      break;
  }
  return AnyOf(HasSubstr(" INDEX "), HasSubstr(" PRIMARY KEY "));
}

TEST(SqlitePlansTest, EveryReadSearchesByItsSession) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "store").string();
  const Recorder recorder;
  StoreOptions options;
  options.url = "sqlite:" + path;
  auto store = OpenSqliteStore(options);
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE((*store)->Migrate().ok());
  SessionChange change;
  change.key = kKey;
  change.row.generation = change.row.block_generation = 1;
  change.row.revision = 1;
  change.row.next_position = 3;
  change.row.watermark = 2;
  change.row.pinned = {1};
  ASSERT_EQ((*store)->Commit({&change, 1}).front().outcome, CommitOutcome::kCommitted);
  sqlite3* db = nullptr;
  for (const Read& read : AllReads()) {
    SCOPED_TRACE(read.name);
    Recorder::statements().clear();
    const absl::Status status = read.call(**store);
    ASSERT_TRUE(status.ok()) << status;
    const std::set<std::string> statements = Recorder::statements();
    if (db == nullptr) {
      ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
    }
    bool any = false;
    for (const std::string& sql : statements) {
      SCOPED_TRACE(sql);
      for (const std::string& line : PlanOf(db, sql)) {
        if (read.reach != Reach::kLatest) {
          EXPECT_THAT(line, Not(HasSubstr("TEMP B-TREE"))) << "all of them would be sorted";
        }
        const bool scans = line.starts_with("SCAN ") && line != "SCAN CONSTANT ROW";
        const bool searches = line.starts_with("SEARCH ");
        if (!scans && !searches) continue;
        any = true;
        // A large value of a row that was found.
        if (line == "SEARCH memoryd_values USING INTEGER PRIMARY KEY (rowid=?)") continue;
        EXPECT_THAT(line, ReachesNoFurtherThan(read.reach));
      }
    }
    EXPECT_TRUE(any) << "no statement was seen";
  }
  sqlite3_close(db);
}

struct ItemRead {
  std::string name;
  std::function<absl::Status(ItemStore& items, const NamespaceKey& key)> call;
};

std::vector<ItemRead> AllItemReads() {
  std::vector<ItemRead> reads = {
      {"ReadItems",
       [](ItemStore& items, const NamespaceKey& key) {
         return items.ReadItems(std::vector<ItemKey>{{key, "k"}}, 1, true, 9).status();
       }},
      {"FindNamespaces",
       [](ItemStore& items, const NamespaceKey& key) {
         return items.FindNamespaces({&key, 1}).status();
       }},
      {"ListNamespaces",
       [](ItemStore& items, const NamespaceKey& key) {
         return items.ListNamespaces(key.tenant, key.path, "", "", 5).status();
       }},
      {"ListNamespaces of a subject",
       [](ItemStore& items, const NamespaceKey& key) {
         return items.ListNamespaces(key.tenant, key.path, "", "u", 5).status();
       }},
      {"FindItemRequests",
       [](ItemStore& items, const NamespaceKey& key) {
         return items.FindItemRequests(key, std::vector<std::string>{"r"}).status();
       }},
      {"ReadItemUsage",
       [](ItemStore& items, const NamespaceKey& key) {
         return items.ReadItemUsage(key.tenant).status();
       }},
  };
  for (const ItemListOrder order : {ItemListOrder::kKey, ItemListOrder::kKeyDescending,
                                    ItemListOrder::kOldestFirst, ItemListOrder::kNewestFirst}) {
    reads.push_back({"ListItems", [order](ItemStore& items, const NamespaceKey& key) {
                       return items.ListItems(key, 0, {.order = order, .max_items = 5}, 1).status();
                     }});
  }
  return reads;
}

TEST(SqlitePlansTest, EveryReadOfItemsSearchesByItsNamespaceAndSortsNothing) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "store").string();
  const Recorder recorder;
  StoreOptions options;
  options.url = "sqlite:" + path;
  auto store = OpenSqliteStore(options);
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE((*store)->Migrate().ok());
  ItemStore& items = (*store)->Items();
  const std::vector<std::string> names = {"n"};
  ItemBatch batch{.key = {"t", *NamespacePath::Make(FieldPath(), "namespace", names)}};
  batch.writes.push_back({.key = "k", .content = ItemContent()});
  ASSERT_EQ(items.WriteItems({&batch, 1}, 1).front().outcome, ItemBatchOutcome::kWritten);
  sqlite3* db = nullptr;
  for (const ItemRead& read : AllItemReads()) {
    SCOPED_TRACE(read.name);
    Recorder::statements().clear();
    const absl::Status status = read.call(items, batch.key);
    ASSERT_TRUE(status.ok()) << status;
    const std::set<std::string> statements = Recorder::statements();
    if (db == nullptr) {
      ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
    }
    bool any = false;
    for (const std::string& sql : statements) {
      SCOPED_TRACE(sql);
      for (const std::string& line : PlanOf(db, sql)) {
        EXPECT_THAT(line, Not(HasSubstr("TEMP B-TREE"))) << "all of them would be sorted";
        EXPECT_THAT(line, Not(HasSubstr("SCAN memoryd")));
        if (!line.starts_with("SEARCH ")) continue;
        any = true;
        // A large value of a row that was found.
        if (line == "SEARCH v USING INTEGER PRIMARY KEY (rowid=?)") continue;
        EXPECT_THAT(line,
                    AnyOf(HasSubstr("(tenant=? AND generation=?"), HasSubstr("(tenant=? AND path"),
                          HasSubstr("(tenant=? AND subject=?"), HasSubstr("(tenant=?)")));
        if (!line.ends_with("(tenant=?)")) continue;
        EXPECT_EQ(read.name, "ReadItemUsage");
      }
    }
    EXPECT_TRUE(any) << "no statement was seen";
  }
  sqlite3_close(db);
}

}  // namespace
}  // namespace memoryd::sqlite
