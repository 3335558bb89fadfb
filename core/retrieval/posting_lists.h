// Which items of an index have a term, and how often.
#ifndef MEMORYD_CORE_RETRIEVAL_POSTING_LISTS_H_
#define MEMORYD_CORE_RETRIEVAL_POSTING_LISTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/retrieval/string_table.h"

namespace memoryd {

// An item of an index, numbered from 0 in the order they came.
using DocId = std::uint32_t;

// For each term the items that have it, packed. Any number of threads may call the const functions
// at once; Add() must be alone.
class PostingLists {
 public:
  // The last item is apart, since its count still rises while it is added; so a term of one item
  // needs no more.
  class List {
   public:
    // The number of items.
    std::uint32_t doc_count() const { return doc_count_; }

   private:
    friend class PostingLists;

    DocId last_doc_ = 0;
    std::uint32_t last_count_ = 0;
    std::uint32_t doc_count_ = 0;  // With the last one.
    DocId packed_doc_ = 0;         // The last one in the packed.
    // In packed_, of those before the last: for each a varint of the distance from the DocId before
    // it, doubled, plus 1 where the count is above 1 and follows as another varint. Meaningless for
    // one item.
    std::uint32_t packed_ = 0;
  };

  // Walks through the items of one list, by rising DocId.
  class Cursor {
   public:
    bool done() const { return done_; }
    DocId doc() const { return doc_; }
    // How often the item has the term.
    std::uint32_t count() const { return count_; }

    void Next() {
      if (p_ < end_) {
        const std::uint64_t head = ReadVarint();
        doc_ += static_cast<DocId>(head >> 1);
        count_ = (head & 1) == 0 ? 1 : static_cast<std::uint32_t>(ReadVarint());
      } else if (!at_last_) {
        at_last_ = true;
        doc_ = last_doc_;
        count_ = last_count_;
      } else {
        done_ = true;
      }
    }

   private:
    friend class PostingLists;

    std::uint64_t ReadVarint() {
      std::uint64_t value = 0;
      for (int shift = 0;; shift += 7) {
        const auto byte = static_cast<unsigned char>(*p_++);
        value |= std::uint64_t{byte & 0x7Fu} << shift;
        if (byte < 0x80) return value;
      }
    }

    const char* p_ = nullptr;
    const char* end_ = nullptr;
    DocId last_doc_ = 0;
    std::uint32_t last_count_ = 0;
    DocId doc_ = 0;
    std::uint32_t count_ = 0;
    bool at_last_ = false;
    bool done_ = false;
  };

  // Counts the term once more for the item. No item comes before one that came before.
  void Add(std::string_view term, DocId doc);

  // Null when no item has the term. Valid until the next Add().
  const List* Find(std::string_view term) const;

  // At the first item of the list. Valid as that.
  Cursor Walk(const List& list) const;

  // Approximate memory on the heap in bytes, in constant time.
  std::size_t ByteSize() const;

 private:
  StringTable terms_;
  std::vector<List> lists_;  // By the terms' numbers.
  std::vector<std::string> packed_;
  std::size_t packed_bytes_ = 0;  // On the heap, of those.
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_POSTING_LISTS_H_
