#include "core/blocks/entry_index_cache.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "core/blocks/entry_log.h"
#include "core/blocks/entry_search.h"
#include "core/blocks/vector_entry.h"
#include "core/model/message.h"

namespace memoryd {
namespace {

// Of one read.
constexpr std::int64_t kReadRows = 1000;
constexpr std::int64_t kReadBytes = std::int64_t{8} << 20;

// Four sums, so that one addition need not wait for the one before it.
double Dot(const float* a, const float* b, std::size_t size) {
  double sums[4] = {0, 0, 0, 0};
  std::size_t i = 0;
  for (; i + 4 <= size; i += 4) {
    for (std::size_t j = 0; j < 4; ++j) {
      sums[j] += static_cast<double>(a[i + j]) * static_cast<double>(b[i + j]);
    }
  }
  for (; i < size; ++i) sums[0] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

bool Matches(const nlohmann::json& metadata, const nlohmann::json& filter) {
  for (const auto& [name, wanted] : filter.items()) {
    const auto found = metadata.find(name);
    if (found == metadata.end() || found->is_null() || *found != wanted) return false;
  }
  return true;
}

struct Candidate {
  double similarity = 0;
  std::size_t item = 0;
};

bool Less(const Candidate& a, const Candidate& b) {
  return a.similarity != b.similarity ? a.similarity < b.similarity : a.item < b.item;
}

// About what an entry takes beside its vector.
std::size_t TextBytes(const VectorEntry& entry) {
  std::size_t bytes = sizeof(VectorEntry) + entry.text.size() + 4 * entry.metadata_json.size();
  for (const EntrySource& source : entry.sources) {
    bytes += sizeof(EntrySource) + source.message_id.size();
  }
  return bytes;
}

// A heap whose places are those of Python's heapq, which decide the order of equally similar
// entries.
class Heap {
 public:
  void Push(Candidate candidate) {
    heap_.push_back(candidate);
    Rise(heap_.size() - 1);
  }

  void PopLeast() {
    const Candidate last = heap_.back();
    heap_.pop_back();
    if (heap_.empty()) return;
    std::size_t place = 0;
    for (std::size_t child = 1; child < heap_.size(); child = 2 * place + 1) {
      if (child + 1 < heap_.size() && !Less(heap_[child], heap_[child + 1])) ++child;
      heap_[place] = heap_[child];
      place = child;
    }
    heap_[place] = last;
    Rise(place);
  }

  std::size_t size() const { return heap_.size(); }
  std::vector<Candidate> Take() && { return std::move(heap_); }

 private:
  void Rise(std::size_t place) {
    const Candidate candidate = heap_[place];
    while (place > 0) {
      const std::size_t parent = (place - 1) / 2;
      if (!Less(candidate, heap_[parent])) break;
      heap_[place] = heap_[parent];
      place = parent;
    }
    heap_[place] = candidate;
  }

  std::vector<Candidate> heap_;
};

}  // namespace

EntryIndexCache::EntryIndexCache(ReadRange read_range, std::size_t max_bytes, MemoryBudget* budget)
    : read_range_(std::move(read_range)), max_bytes_(max_bytes), budget_(*budget) {
  budget_.AddCache(MemoryUse::kVectors, [this](const std::string& tenant, std::int64_t bytes) {
    EvictTenant(tenant, bytes);
  });
}

EntryIndexCache::~EntryIndexCache() { budget_.RemoveCache(MemoryUse::kVectors); }

absl::StatusOr<std::vector<EntryHit>> EntryIndexCache::Nearest(const EntryQuery& query) {
  if (query.generation == 0 || query.next_entry <= 1 || query.top_k == 0) {
    return std::vector<EntryHit>();
  }
  const std::shared_ptr<Index> index = Open(Key(query.key, query.generation));
  absl::StatusOr<std::vector<EntryHit>> hits;
  std::size_t bytes = 0;
  {
    MutexLock lock(index->mutex);
    const absl::Status caught_up = CatchUp(*index, query);
    hits = caught_up.ok() ? Scan(*index, query) : caught_up;
    bytes = ByteSizeOf(*index);
  }
  Recharge(index, bytes);
  return hits;
}

std::size_t EntryIndexCache::ByteSizeOf(const Index& index) {
  return sizeof(Index) + index.key.first.tenant.size() + index.key.first.session.size() +
         index.numbers.capacity() * sizeof(float) + index.items.capacity() * sizeof(Item) +
         index.text_bytes;
}

absl::Status EntryIndexCache::Charge(Index& index) {
  const auto bytes = static_cast<std::int64_t>(ByteSizeOf(index));
  const std::int64_t more = bytes - index.memory.bytes();
  if (more <= 0) {
    index.memory.Resize(bytes);
    return absl::OkStatus();
  }
  absl::Status status = index.memory.Grow(more);
  if (!status.ok()) {
    index.numbers = std::vector<float>();
    index.items = std::vector<Item>();
    index.text_bytes = 0;
    index.next_entry = 1;
    index.memory.Resize(static_cast<std::int64_t>(ByteSizeOf(index)));
  }
  return status;
}

void EntryIndexCache::TakeOut(Index& index, const EntryLog& log) {
  const bool same = std::exchange(index.log_id, log.id) == log.id;
  // A search that began earlier may look later.
  if (same && log.removals <= index.removals) return;
  const std::int64_t before = std::exchange(index.removals, log.removals);
  if (before < 0) return;
  std::optional<std::vector<NumberRange>> removed;
  if (same) removed = log.RemovedSince(before);
  if (!removed.has_value()) {
    // Too much has happened, or nobody knows what: they are all read once more.
    removed = {{0, index.next_entry}};
    index.next_entry = 1;
  }
  std::vector<Item> items;
  std::vector<float> numbers;
  items.reserve(index.items.size());
  numbers.reserve(index.numbers.size());
  for (Item& item : index.items) {
    if (HasNumber(*removed, item.position)) {
      index.text_bytes -= TextBytes(*item.entry);
      continue;
    }
    const auto vector = index.numbers.begin() + static_cast<std::ptrdiff_t>(item.offset);
    item.offset = numbers.size();
    numbers.insert(numbers.end(), vector, vector + static_cast<std::ptrdiff_t>(item.size));
    items.push_back(std::move(item));
  }
  index.items = std::move(items);
  index.numbers = std::move(numbers);
}

absl::Status EntryIndexCache::CatchUp(Index& index, const EntryQuery& query) {
  TakeOut(index, query.log);
  while (index.next_entry < query.next_entry) {
    MEMORYD_ASSIGN_OR_RETURN(const std::vector<MessagePtr> rows,
                             read_range_(index.key.first, index.key.second, index.next_entry,
                                         query.next_entry, kReadRows, kReadBytes));
    // What is not there any more won't come back.
    if (rows.empty()) {
      index.next_entry = query.next_entry;
      break;
    }
    for (const MessagePtr& row : rows) Add(index, *row);
    index.next_entry = rows.back()->position + 1;
    MEMORYD_RETURN_IF_ERROR(Charge(index));
  }
  return Charge(index);
}

void EntryIndexCache::Add(Index& index, const Message& row) {
  absl::StatusOr<VectorEntry> entry = DecodeVectorEntry(row.body);
  // One that can't be read must not end all searches.
  if (!entry.ok()) return;
  Item item;
  item.position = row.position;
  item.offset = index.numbers.size();
  item.size = entry->vector.size();
  item.norm = std::sqrt(Dot(entry->vector.data(), entry->vector.data(), item.size));
  index.numbers.insert(index.numbers.end(), entry->vector.begin(), entry->vector.end());
  entry->vector = {};
  if (!entry->metadata_json.empty()) {
    item.metadata = nlohmann::json::parse(entry->metadata_json, nullptr, false);
  }
  if (!item.metadata.is_object()) item.metadata = nlohmann::json::object();
  item.ingest_us = row.ingest_us;
  item.expire_us = row.ids->expire_us;
  index.text_bytes += TextBytes(*entry);
  item.entry = std::make_shared<const VectorEntry>(*std::move(entry));
  index.items.push_back(std::move(item));
}

absl::StatusOr<std::vector<EntryHit>> EntryIndexCache::Scan(const Index& index,
                                                            const EntryQuery& query) {
  const double norm = std::sqrt(Dot(query.vector.data(), query.vector.data(), query.vector.size()));
  bool other_sizes = false;
  bool same_size = false;
  Heap heap;
  for (std::size_t i = 0; i < index.items.size(); ++i) {
    const Item& item = index.items[i];
    if (item.position >= query.next_entry) break;
    if (item.expire_us > 0 && item.expire_us <= query.now_us) continue;
    if (query.ttl_us > 0 && item.ingest_us + query.ttl_us <= query.now_us) continue;
    if (query.log.Hides(item.position, item.entry->sources)) continue;
    // Without a vector it is about to be made anew.
    if (item.size == 0) continue;
    if (item.size != query.vector.size()) {
      other_sizes = true;
      continue;
    }
    same_size = true;
    if (!query.filter.empty() && !Matches(item.metadata, query.filter)) continue;
    const double similarity =
        Dot(index.numbers.data() + item.offset, query.vector.data(), item.size) /
        (item.norm * norm);
    if (std::isnan(similarity)) continue;
    heap.Push({similarity, i});
    if (heap.size() > query.top_k) heap.PopLeast();
  }
  if (other_sizes && !same_size) {
    return Error(absl::StatusCode::kFailedPrecondition, "EMBEDDING_SIZE",
                 "the block's entries were made by an embedder whose vectors have another size");
  }
  std::vector<Candidate> best = std::move(heap).Take();
  std::stable_sort(best.begin(), best.end(), [](const Candidate& a, const Candidate& b) {
    return a.similarity > b.similarity;
  });
  std::vector<EntryHit> hits;
  hits.reserve(best.size());
  for (const Candidate& candidate : best) {
    const Item& item = index.items[candidate.item];
    hits.push_back({candidate.similarity, item.position, item.entry});
  }
  return hits;
}

std::shared_ptr<EntryIndexCache::Index> EntryIndexCache::Open(const Key& key) {
  MutexLock lock(mutex_);
  if (const auto found = indexes_.find(key); found != indexes_.end()) {
    order_.splice(order_.begin(), order_, found->second);
    return order_.front();
  }
  order_.push_front(std::make_shared<Index>(key, budget_));
  indexes_.emplace(key, order_.begin());
  return order_.front();
}

void EntryIndexCache::Recharge(const std::shared_ptr<Index>& index, std::size_t bytes) {
  MutexLock lock(mutex_);
  const auto found = indexes_.find(index->key);
  // Evicted meanwhile.
  if (found == indexes_.end() || *found->second != index) return;
  bytes_ = bytes_ - index->charged_bytes + bytes;
  index->charged_bytes = bytes;
  // The one that there is no room for goes, rather than all others before it.
  if (bytes > max_bytes_) Drop(found->second);
  while (bytes_ > max_bytes_ && !order_.empty()) Drop(std::prev(order_.end()));
}

void EntryIndexCache::Drop(Order::iterator place) {
  bytes_ -= (*place)->charged_bytes;
  indexes_.erase((*place)->key);
  order_.erase(place);
}

void EntryIndexCache::Forget(const SessionKey& session) {
  MutexLock lock(mutex_);
  for (auto entry = indexes_.lower_bound({session, 0});
       entry != indexes_.end() && entry->first.first == session;) {
    const Order::iterator place = entry->second;
    ++entry;
    Drop(place);
  }
}

void EntryIndexCache::EvictTenant(const std::string& tenant, std::int64_t bytes) {
  MutexLock lock(mutex_);
  for (auto place = order_.end(); bytes > 0 && place != order_.begin();) {
    --place;
    // Who searches it keeps it in memory.
    if (place->use_count() > 1 || (*place)->key.first.tenant != tenant) continue;
    bytes -= static_cast<std::int64_t>((*place)->charged_bytes);
    const Order::iterator evicted = place++;
    Drop(evicted);
  }
}

std::size_t EntryIndexCache::ByteSize() {
  MutexLock lock(mutex_);
  return bytes_;
}

}  // namespace memoryd
