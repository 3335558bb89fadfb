// Finds items in all namespaces below a path: by filter, by words, by vectors, or the newest.
#ifndef MEMORYD_CORE_READS_ITEM_SEARCH_H_
#define MEMORYD_CORE_READS_ITEM_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "core/items/item.h"
#include "core/items/item_filter.h"
#include "core/items/namespace_path.h"
#include "core/reads/item_view.h"
#include "core/retrieval/word_vectors.h"
#include "core/storage/item_store.h"

namespace memoryd {

struct ItemSearchRequest {
  std::string tenant = {};
  // Of the credential, see ItemView.
  std::string subject = {};
  NamespacePath prefix = {};
  ItemFilter filter = {};
  std::string query = {};          // Empty: none.
  std::vector<float> vector = {};  // Empty: none.
  std::int64_t limit = 10;
  std::int64_t offset = 0;
  std::optional<double> least_cosine = {};  // With a vector.
  std::optional<bool> refresh_ttl = {};     // Absent: as the namespaces say.
  bool with_vectors = false;
};

struct FoundKey {
  ItemKey key;
  // Of a vector alone, the cosine. With a query above 0 to 1, or absent where nothing of the item
  // answers it.
  std::optional<double> score = {};
};

struct FoundKeys {
  // The best first, behind them those without a score, the newest first; without those before the
  // offset.
  std::vector<FoundKey> keys;
  bool filter_limit = false;  // More could have been found than was looked at.
};

struct FoundStoredItem {
  NamespacePath path;
  Item item;
  std::optional<double> score = {};
};

struct ItemsFound {
  std::vector<FoundStoredItem> items;
  bool filter_limit = false;
  bool lacks_word_vectors = false;
  MemoryBudget::Hold memory;  // Of the items.
};

// One search. Filters and a vector alone choose what is found; a query only ranks it. With both,
// the words and the vector each make half of a score.
//
// It reads what there is and keeps nothing, so it sees every write that was answered before. It
// blocks on the store, and ends after kMaxItemsSearched items or kMaxBytesSearched.
class ItemSearch {
 public:
  static constexpr std::int64_t kMaxNamespacesSearched = 10'000;
  static constexpr std::int64_t kMaxItemsSearched = 100'000;
  static constexpr std::int64_t kMaxBytesSearched = std::int64_t{64} << 20;

  // `has_ended` says whether nobody waits for the answer any more. All outlive it.
  ItemSearch(const ItemView* store, MemoryBudget* memory,
             std::shared_ptr<const WordVectors> vectors, const ItemSearchRequest* request,
             std::int64_t now_us, std::function<bool()> has_ended);

  // INVALID_ARGUMENT `VECTOR_SIZE`; CANCELLED when nobody waits any more.
  absl::StatusOr<FoundKeys> Run();

 private:
  // What is known of an item that passes.
  struct Candidate {
    std::size_t name_space = 0;  // Index in namespaces_.
    std::string key;
    std::int64_t update_us = 0;
    std::int64_t version = 0;
    std::optional<double> score = {};
    double cosine = 0;  // With a vector.
  };

  absl::Status ListNamespaces(MemoryBudget::Hold& hold);
  // Reads the namespace from its newest item on, as far as that can matter.
  absl::Status Scan(std::size_t name_space);
  absl::Status Look(std::size_t name_space, const std::string& search, const Item& item);
  // Whether an item without a vector may be found.
  bool FindsWithoutVector() const;
  bool IsFull() const;
  // Whether all wanted are newer than `update_us`.
  bool AreAllNewer(std::int64_t update_us) const;
  // Gives scores to those that answer the query.
  void RankByQuery();
  // By index of the candidate, of those that share something with the query's words.
  std::vector<double> WordScores() const;
  // Leaves the best ones, in order.
  void Sort(std::size_t most);

  const ItemView& store_;
  MemoryBudget& memory_;
  const std::shared_ptr<const WordVectors> vectors_;
  const ItemSearchRequest& request_;
  const std::int64_t now_us_;
  const std::function<bool()> has_ended_;
  const bool is_ranked_;
  const std::size_t wanted_;
  std::vector<ListedNamespace> namespaces_;
  std::vector<Candidate> candidates_;
  // By index of the candidate, with a query.
  std::vector<std::string> texts_;
  std::int64_t items_read_ = 0;
  std::int64_t bytes_read_ = 0;
  bool limit_ = false;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_READS_ITEM_SEARCH_H_
