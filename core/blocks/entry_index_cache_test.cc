#include "core/blocks/entry_index_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "core/base/mutex.h"
#include "core/blocks/entry_search.h"
#include "core/blocks/vector_entry.h"
#include "core/model/message.h"
#include "core/model/session.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Entries in memory, as a store would keep them.
class Rows {
 public:
  std::int64_t Add(std::vector<float> vector, std::string metadata = {}) {
    VectorEntry entry;
    entry.vector = std::move(vector);
    entry.text = "text " + std::to_string(next);
    entry.metadata_json = std::move(metadata);
    return AddBody(EncodeVectorEntry(entry));
  }

  std::int64_t AddBody(std::string body) {
    MessageDraft row;
    row.position = next++;
    row.body = std::move(body);
    rows.push_back(row);
    return next - 1;
  }

  EntryIndexCache::ReadRange Reader() {
    return [this](const SessionKey& key, std::uint64_t generation, std::int64_t begin,
                  std::int64_t end, std::int64_t max_rows,
                  std::int64_t) -> absl::StatusOr<std::vector<MessagePtr>> {
      MutexLock lock(mutex);
      reads.emplace_back(begin, end);
      if (!error.ok()) return error;
      std::vector<MessagePtr> found;
      if (key.session != "s" || generation != 1) return found;
      for (const MessagePtr& row : rows) {
        if (row->position >= begin && row->position < end &&
            static_cast<std::int64_t>(found.size()) < max_rows) {
          found.push_back(row);
        }
      }
      return found;
    };
  }

  EntryQuery Query(const std::vector<float>& vector, std::size_t top_k) const {
    EntryQuery query;
    query.key = {"t", "s"};
    query.generation = 1;
    query.next_entry = next;
    query.vector = vector;
    query.top_k = top_k;
    return query;
  }

  MemoryBudget budget{0};
  Mutex mutex;
  std::vector<MessagePtr> rows;
  std::vector<std::pair<std::int64_t, std::int64_t>> reads;
  std::int64_t next = 1;
  absl::Status error;
};

std::vector<std::int64_t> Positions(const absl::StatusOr<std::vector<EntryHit>>& hits) {
  std::vector<std::int64_t> positions;
  for (const EntryHit& hit : hits.value()) positions.push_back(hit.position);
  return positions;
}

TEST(EntryIndexCacheTest, FindsTheMostSimilar) {
  Rows rows;
  rows.Add({1, 0});
  rows.Add({3, 3});
  rows.Add({0, 2});
  rows.Add({-1, 0});
  EntryIndexCache cache(rows.Reader(), 1 << 20, &rows.budget);
  const std::vector<float> query = {0, 7};
  const auto hits = cache.Nearest(rows.Query(query, 2)).value();
  ASSERT_EQ(hits.size(), 2U);
  EXPECT_EQ(hits[0].position, 3);
  EXPECT_EQ(hits[0].similarity, 1);
  EXPECT_EQ(hits[0].entry->text, "text 3");
  EXPECT_EQ(hits[1].position, 2);
  EXPECT_DOUBLE_EQ(hits[1].similarity, std::sqrt(0.5));
  EXPECT_THAT(Positions(cache.Nearest(rows.Query(query, 9))), ElementsAre(3, 2, 1, 4));
}

TEST(EntryIndexCacheTest, WhatIsHiddenIsNotFound) {
  Rows rows;
  for (std::int64_t i = 1; i <= 4; ++i) {
    VectorEntry entry;
    entry.vector = {1, 0};
    entry.sources = {{i, "m"}, {10 + i, "m"}};
    rows.AddBody(EncodeVectorEntry(entry));
  }
  MessageDraft timed(*rows.rows.back());
  timed.ids.value().expire_us = 50;
  rows.rows.back() = timed;
  EntryIndexCache cache(rows.Reader(), 1 << 20, &rows.budget);
  const std::vector<float> vector = {1, 0};
  EntryQuery query = rows.Query(vector, 9);
  query.now_us = 49;
  EXPECT_EQ(cache.Nearest(query).value().size(), 4U);
  query.now_us = 50;
  EXPECT_EQ(cache.Nearest(query).value().size(), 3U);
  query.log.NoteMark({12, 13, 9, true});
  query.log.NoteMark({3, 4, 3, false});
  auto positions = Positions(cache.Nearest(query));
  std::sort(positions.begin(), positions.end());
  EXPECT_THAT(positions, ElementsAre(1, 3));
  query.log.NoteMark({3, 4, 4, false});
  EXPECT_THAT(Positions(cache.Nearest(query)), ElementsAre(1));
}

TEST(EntryIndexCacheTest, WhatIsTooOldIsNotFound) {
  Rows rows;
  for (std::int64_t i = 1; i <= 3; ++i) {
    rows.Add({1, 0});
    MessageDraft row(*rows.rows.back());
    row.ingest_us = 100 * i;
    rows.rows.back() = row;
  }
  EntryIndexCache cache(rows.Reader(), 1 << 20, &rows.budget);
  const std::vector<float> vector = {1, 0};
  EntryQuery query = rows.Query(vector, 9);
  query.now_us = 250;
  EXPECT_EQ(cache.Nearest(query).value().size(), 3U);
  query.ttl_us = 50;
  EXPECT_THAT(Positions(cache.Nearest(query)), ElementsAre(3));
  query.ttl_us = 51;
  EXPECT_EQ(cache.Nearest(query).value().size(), 2U);
}

TEST(EntryIndexCacheTest, WhatWasTakenOutIsForgottenWithoutReadingTheOthers) {
  Rows rows;
  for (int i = 0; i < 8; ++i) rows.Add({1, static_cast<float>(i)});
  EntryIndexCache cache(rows.Reader(), 1 << 20, &rows.budget);
  const std::vector<float> vector = {0, 1};
  EntryQuery query = rows.Query(vector, 9);
  query.log.Open(rows.next, 1);
  EXPECT_THAT(Positions(cache.Nearest(query)), ElementsAre(8, 7, 6, 5, 4, 3, 2, 1));
  const std::size_t reads = rows.reads.size();
  const std::size_t bytes = cache.ByteSize();
  // By another server, twice since.
  const auto removed = [&](std::int64_t begin, std::int64_t end) {
    std::erase_if(rows.rows, [=](const MessagePtr& row) {
      return row->position >= begin && row->position < end;
    });
    query.log.NoteRemoved({{begin, end}}, end - begin);
  };
  removed(2, 4);
  removed(7, 8);
  EXPECT_THAT(Positions(cache.Nearest(query)), ElementsAre(8, 6, 5, 4, 1));
  EXPECT_EQ(rows.reads.size(), reads);
  EXPECT_LT(cache.ByteSize(), bytes);
  // A search that began before them.
  EntryQuery earlier = rows.Query(vector, 9);
  earlier.log.Open(9, 1);
  EXPECT_THAT(Positions(cache.Nearest(earlier)), ElementsAre(8, 6, 5, 4, 1));
  rows.Add({0, 1});
  query.next_entry = rows.next;
  EXPECT_THAT(Positions(cache.Nearest(query)), ElementsAre(9, 8, 6, 5, 4, 1));
  // More than the log names: all are read again.
  for (int i = 0; i < 100; ++i) removed(1, 2);
  EXPECT_THAT(Positions(cache.Nearest(query)), ElementsAre(9, 8, 6, 5, 4));
  EXPECT_EQ(rows.reads.back(), std::pair(std::int64_t{1}, rows.next));
  // So they are when the log was begun anew, by whoever did not know it.
  EntryQuery anew = rows.Query(vector, 9);
  anew.log.Open(rows.next, 2);
  std::erase_if(rows.rows, [](const MessagePtr& row) { return row->position == 9; });
  EXPECT_THAT(Positions(cache.Nearest(anew)), ElementsAre(8, 6, 5, 4));
}

TEST(EntryIndexCacheTest, NothingIsFoundInNothing) {
  Rows rows;
  EntryIndexCache cache(rows.Reader(), 1 << 20, &rows.budget);
  const std::vector<float> query = {1};
  EXPECT_THAT(Positions(cache.Nearest(rows.Query(query, 2))), IsEmpty());
  EntryQuery never_fed = rows.Query(query, 2);
  never_fed.generation = 0;
  EXPECT_THAT(Positions(cache.Nearest(never_fed)), IsEmpty());
  EXPECT_THAT(rows.reads, IsEmpty());
}

TEST(EntryIndexCacheTest, ReadsOnlyWhatIsNew) {
  Rows rows;
  rows.Add({1, 0});
  rows.Add({1, 1});
  EntryIndexCache cache(rows.Reader(), 1 << 20, &rows.budget);
  const std::vector<float> query = {1, 0};
  EXPECT_THAT(Positions(cache.Nearest(rows.Query(query, 9))), ElementsAre(1, 2));
  EXPECT_THAT(Positions(cache.Nearest(rows.Query(query, 9))), ElementsAre(1, 2));
  rows.Add({2, 0.5F});
  EXPECT_THAT(Positions(cache.Nearest(rows.Query(query, 9))), ElementsAre(1, 3, 2));
  EXPECT_THAT(rows.reads, ElementsAre(std::pair(1, 3), std::pair(3, 4)));
}

// A Get sees the entries of the state that it composes of, and no later ones.
TEST(EntryIndexCacheTest, EarlierStatesStayWhatTheyWere) {
  Rows rows;
  rows.Add({1, 1});
  rows.Add({1, 0});
  EntryIndexCache cache(rows.Reader(), 1 << 20, &rows.budget);
  const std::vector<float> query = {1, 0};
  EXPECT_THAT(Positions(cache.Nearest(rows.Query(query, 1))), ElementsAre(2));
  EntryQuery earlier = rows.Query(query, 1);
  earlier.next_entry = 2;
  EXPECT_THAT(Positions(cache.Nearest(earlier)), ElementsAre(1));
}

TEST(EntryIndexCacheTest, FiltersByMetadata) {
  Rows rows;
  rows.Add({1, 0}, R"({"a":1,"b":"x"})");
  rows.Add({1, 1}, R"({"a":1.0})");
  rows.Add({1, 2}, R"({"a":null})");
  rows.Add({1, 3});
  EntryIndexCache cache(rows.Reader(), 1 << 20, &rows.budget);
  const std::vector<float> vector = {1, 0};
  EntryQuery query = rows.Query(vector, 9);
  query.filter = {{"a", 1}};
  EXPECT_THAT(Positions(cache.Nearest(query)), ElementsAre(1, 2));
  query.filter = {{"a", 1}, {"b", "x"}};
  EXPECT_THAT(Positions(cache.Nearest(query)), ElementsAre(1));
  query.filter = {{"a", nullptr}};
  EXPECT_THAT(Positions(cache.Nearest(query)), IsEmpty());
}

TEST(EntryIndexCacheTest, OtherSizesAreNotFound) {
  Rows rows;
  rows.Add({1, 0});
  EntryIndexCache cache(rows.Reader(), 1 << 20, &rows.budget);
  const std::vector<float> query = {1, 0, 0};
  const auto hits = cache.Nearest(rows.Query(query, 2));
  EXPECT_EQ(hits.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(hits.status()), "EMBEDDING_SIZE");
  rows.Add({0, 1, 1});
  EXPECT_THAT(Positions(cache.Nearest(rows.Query(query, 2))), ElementsAre(2));
}

TEST(EntryIndexCacheTest, ZerosAndWhatCannotBeReadAreNotFound) {
  Rows rows;
  rows.Add({0, 0});
  rows.AddBody("nonsense");
  rows.Add({0, 1});
  EntryIndexCache cache(rows.Reader(), 1 << 20, &rows.budget);
  const std::vector<float> query = {1, 1};
  EXPECT_THAT(Positions(cache.Nearest(rows.Query(query, 9))), ElementsAre(3));
  const std::vector<float> zeros = {0, 0};
  EXPECT_THAT(Positions(cache.Nearest(rows.Query(zeros, 9))), IsEmpty());
}

TEST(EntryIndexCacheTest, ErrorsPassAndTheNextSearchGoesOn) {
  Rows rows;
  rows.Add({1});
  rows.error = absl::UnavailableError("gone");
  EntryIndexCache cache(rows.Reader(), 1 << 20, &rows.budget);
  const std::vector<float> query = {1};
  EXPECT_EQ(cache.Nearest(rows.Query(query, 1)).status().code(), absl::StatusCode::kUnavailable);
  rows.error = absl::OkStatus();
  EXPECT_THAT(Positions(cache.Nearest(rows.Query(query, 1))), ElementsAre(1));
}

TEST(EntryIndexCacheTest, RowsThatAreGoneAreLeftOut) {
  Rows rows;
  rows.Add({1});
  rows.Add({1});
  rows.rows.clear();
  EntryIndexCache cache(rows.Reader(), 1 << 20, &rows.budget);
  const std::vector<float> query = {1};
  EXPECT_THAT(Positions(cache.Nearest(rows.Query(query, 1))), IsEmpty());
  EXPECT_EQ(rows.reads.size(), 1U);
}

TEST(EntryIndexCacheTest, StaysWithinItsBytes) {
  Rows rows;
  for (int i = 0; i < 100; ++i) rows.Add(std::vector<float>(50, 1.0F));
  const std::vector<float> query(50, 1.0F);
  EntryIndexCache small(rows.Reader(), 1000, &rows.budget);
  EXPECT_EQ(small.Nearest(rows.Query(query, 2))->size(), 2U);
  EXPECT_EQ(small.ByteSize(), 0U);

  EntryIndexCache large(rows.Reader(), 100'000, &rows.budget);
  EXPECT_EQ(large.Nearest(rows.Query(query, 2))->size(), 2U);
  const std::size_t one = large.ByteSize();
  EXPECT_GT(one, 100U * 50 * sizeof(float));
  for (std::uint64_t generation = 2; generation < 500; ++generation) {
    EntryQuery other = rows.Query(query, 2);
    other.generation = generation;
    EXPECT_THAT(Positions(large.Nearest(other)), IsEmpty());
    EXPECT_LE(large.ByteSize(), 100'000U);
  }
}

// What Python's heapq and sorted() make of similarities, said in the plainest way.
std::vector<std::int64_t> PythonRanking(const std::vector<double>& similarities,
                                        std::size_t top_k) {
  using Item = std::pair<double, std::int64_t>;
  std::vector<Item> heap;
  const auto sift_down = [&heap](std::size_t position) {
    const Item item = heap[position];
    while (position > 0) {
      const std::size_t parent = (position - 1) >> 1;
      if (!(item < heap[parent])) break;
      heap[position] = heap[parent];
      position = parent;
    }
    heap[position] = item;
  };
  for (std::size_t i = 0; i < similarities.size(); ++i) {
    heap.emplace_back(similarities[i], static_cast<std::int64_t>(i + 1));
    sift_down(heap.size() - 1);
    if (heap.size() <= top_k) continue;
    const Item last = heap.back();
    heap.pop_back();
    if (heap.empty()) continue;
    std::size_t position = 0, child = 1;
    while (child < heap.size()) {
      if (child + 1 < heap.size() && !(heap[child] < heap[child + 1])) ++child;
      heap[position] = heap[child];
      position = child;
      child = 2 * position + 1;
    }
    heap[position] = last;
    sift_down(position);
  }
  std::stable_sort(heap.begin(), heap.end(),
                   [](const Item& a, const Item& b) { return a.first > b.first; });
  std::vector<std::int64_t> ids;
  for (const Item& item : heap) ids.push_back(item.second);
  return ids;
}

TEST(EntryIndexCacheTest, OfEqualsTheOldestLeavesAndTheRestAreInOrder) {
  Rows rows;
  for (int i = 0; i < 4; ++i) rows.Add({1, 1});
  EntryIndexCache cache(rows.Reader(), 1 << 20, &rows.budget);
  const std::vector<float> query = {1, 1};
  EXPECT_THAT(Positions(cache.Nearest(rows.Query(query, 1))), ElementsAre(4));
  EXPECT_THAT(Positions(cache.Nearest(rows.Query(query, 2))), ElementsAre(3, 4));
}

TEST(EntryIndexCachePropertyTest, RanksAsSimpleVectorStoreDoes) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    Rows rows;
    EntryIndexCache cache(rows.Reader(), 1 << 20, &rows.budget);
    const std::vector<float> query = {1, 0};
    std::vector<double> similarities;
    const std::size_t count = 1 + random() % 12;
    for (std::size_t i = 0; i < count; ++i) {
      // Few directions, so that many are equally similar.
      const std::vector<float> vector = {static_cast<float>(1 + random() % 2),
                                         static_cast<float>(random() % 3)};
      rows.Add(vector);
      const double x = static_cast<double>(vector[0]);
      const double y = static_cast<double>(vector[1]);
      similarities.push_back(x / (std::sqrt(x * x + y * y) * 1.0));
    }
    for (std::size_t top_k = 1; top_k <= count + 1; ++top_k) {
      EXPECT_EQ(Positions(cache.Nearest(rows.Query(query, top_k))),
                PythonRanking(similarities, top_k));
    }
  }
}

TEST(EntryIndexCacheTest, TheBudgetEvictsTheEntriesOfATenant) {
  Rows rows;
  for (int i = 0; i < 100; ++i) rows.Add({1, 0});
  MemoryBudget budget(0);
  {
    EntryIndexCache cache(rows.Reader(), 1 << 20, &budget);
    const std::vector<float> vector = {1, 0};
    ASSERT_TRUE(cache.Nearest(rows.Query(vector, 1)).ok());
    EXPECT_EQ(budget.held(), static_cast<std::int64_t>(cache.ByteSize()));
    EXPECT_EQ(budget.Tenants().front().tenant, "t");
    budget.Shrink();
    EXPECT_EQ(cache.ByteSize(), 0U);
    EXPECT_EQ(budget.held(), 0);
    EXPECT_GT(budget.evicted_bytes(MemoryUse::kVectors), 0U);
    ASSERT_TRUE(cache.Nearest(rows.Query(vector, 1)).ok()) << "they are read again";
  }
  EXPECT_EQ(budget.held(), 0);
}

TEST(EntryIndexCacheTest, EntriesThatTheBudgetHasNoRoomForAreNotRead) {
  Rows rows;
  for (int i = 0; i < 5000; ++i) rows.Add({1, 0});
  MemoryBudget budget(500'000);
  EntryIndexCache cache(rows.Reader(), 1 << 30, &budget);
  const std::vector<float> vector = {1, 0};
  EXPECT_EQ(ErrorReason(cache.Nearest(rows.Query(vector, 1)).status()), "MEMORY_SHORT");
  EXPECT_LT(rows.reads.size(), 5U) << "it stops before it has read all";
  EXPECT_LT(budget.held(), 1000);
  EntryQuery few = rows.Query(vector, 1);
  few.next_entry = 100;
  EXPECT_TRUE(cache.Nearest(few).ok());
}

TEST(EntryIndexCacheTest, ThreadsMayShareIt) {
  Rows rows;
  for (int i = 0; i < 50; ++i) rows.Add({static_cast<float>(i), 1});
  EntryIndexCache cache(rows.Reader(), 20'000, &rows.budget);
  const std::vector<float> vector = {1, 0};
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 1; i <= 50; ++i) {
        EntryQuery query = rows.Query(vector, 1);
        query.next_entry = 1 + (t % 2 == 0 ? i : 51 - i);
        const auto hits = cache.Nearest(query);
        if (!hits.ok() || hits->size() != 1 || (*hits)[0].position != query.next_entry - 1) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace memoryd
