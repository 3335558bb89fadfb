// Finds what a session holds by its words.
#ifndef MEMORYD_CORE_RETRIEVAL_SESSION_INDEX_H_
#define MEMORYD_CORE_RETRIEVAL_SESSION_INDEX_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace memoryd {

enum class ItemKind : std::uint8_t { kMessage = 0, kContent = 1 };

// What is to be found later. Borrows its strings for the call.
struct IndexedItem {
  ItemKind kind = ItemKind::kMessage;
  std::int64_t position = 0;   // Among the items of its kind.
  std::string_view role;       // Of a message; a content has none.
  std::string_view thread_id;  // Of a message; "" for one without.
  std::int64_t time_us = 0;    // Microseconds since the epoch, what time filters look at.
  std::string_view text;
};

// Which items may be hits. What is not set does not limit; what is set must all hold.
struct SearchFilter {
  // One of these; no content has one. Empty: any.
  std::vector<std::string> roles;
  // "": messages without a thread. No content is in a thread.
  std::optional<std::string> thread_id;
  std::optional<std::int64_t> start_us;  // Not before.
  std::optional<std::int64_t> end_us;    // Before.
  // Says false for what may not be a hit. Asked once for each item that has a word of the query and
  // passes the rest of the filter.
  std::function<bool(ItemKind kind, std::int64_t position)> accept;
};

struct SearchRequest {
  std::string_view query;
  std::size_t top_k = 0;
  SearchFilter filter;
};

struct SearchHit {
  ItemKind kind = ItemKind::kMessage;
  std::int64_t position = 0;
  // `bm25` divided by that of the best hit: above 0, at most 1, comparable within one search only.
  double score = 0;
  double bm25 = 0;
};

// An inverted index over the messages and contents of one session, in memory.
//
// Nothing is ever removed: what has left the session is kept out by SearchFilter::accept, or by
// building anew. Any number of threads may call the const functions at once; Add() must be alone.
class SessionIndex {
 public:
  // Adds an item. Positions of a kind rise with every call; messages and contents may come in any
  // order between them. Costs time with the length of the text, not of the session.
  void Add(const IndexedItem& item);

  // The best hits, at most top_k: items that share a term with the query (QueryTerms() in terms.h)
  // and pass the filter, ranked by BM25 with each term of the query counted once. Of equals,
  // messages come before contents, and of one kind the later position first.
  //
  // How rare a term is and how long a text usually is are taken over all items, filtered or not.
  // Costs time with the number of items that have a term of the query, not of all.
  std::vector<SearchHit> Search(const SearchRequest& request) const;

  // Positions of the messages around the one at `position` within its thread (messages without one
  // are one thread): up to `count` before it and as many behind, in order, without itself. Empty
  // when there is no such message.
  std::vector<std::int64_t> Neighbours(std::int64_t position, std::size_t count) const;

  // The position of the kind's last item; none when there is no item of it.
  std::optional<std::int64_t> LastPosition(ItemKind kind) const;

  // The number of items.
  std::size_t size() const { return docs_.size(); }

  // Approximate memory in bytes, in constant time.
  std::size_t ByteSize() const;

 private:
  using DocId = std::uint32_t;  // Index in docs_.
  class Cursor;
  class Filter;
  class Ranking;

  struct Doc {
    std::int64_t position;
    std::int64_t time_us;
    std::uint32_t length;  // In words.
    std::uint32_t role;    // A content's is kNoName.
    std::uint32_t thread;  // A content's is kNoName.
    ItemKind kind;
  };

  // The items that have a term, by rising DocId, and how often they have it. The last of them is
  // apart, since its count still rises while it is added; so a term of one item needs no heap.
  struct Postings {
    DocId last_doc = 0;
    std::uint32_t last_count = 0;
    std::uint32_t doc_count = 0;  // With the last one.
    DocId packed_doc = 0;         // The last one in `packed`.
    // Those before the last: for each a varint of the distance from the DocId before it, doubled,
    // plus 1 where the count is above 1 and follows as another varint.
    std::string packed;
  };

  struct NameHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view name) const {
      return std::hash<std::string_view>()(name);
    }
  };
  template <typename V>
  using NameMap = absl::flat_hash_map<std::string, V, NameHash, std::equal_to<>>;
  static constexpr std::uint32_t kNoName = ~std::uint32_t{0};

  // The number of `name` in `names`, given to it now if it is new.
  std::uint32_t Intern(NameMap<std::uint32_t>& names, std::string_view name);
  void AddPosting(std::string_view term, DocId doc);
  const std::vector<DocId>& OfKind(ItemKind kind) const {
    return docs_of_kind_[static_cast<std::size_t>(kind)];
  }

  std::vector<Doc> docs_;
  std::array<std::vector<DocId>, 2> docs_of_kind_;
  std::vector<std::vector<DocId>> docs_of_thread_;
  NameMap<Postings> terms_;
  NameMap<std::uint32_t> roles_;
  NameMap<std::uint32_t> threads_;
  std::uint64_t total_length_ = 0;
  // Of the strings in the maps and the lists in docs_of_thread_.
  std::size_t heap_bytes_ = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_SESSION_INDEX_H_
