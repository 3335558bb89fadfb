#include "core/retrieval/posting_lists.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/retrieval/heap_bytes.h"
#include "core/retrieval/make_room.h"

namespace memoryd {
namespace {

void AppendVarint(std::uint64_t value, std::string& bytes) {
  for (; value >= 0x80; value >>= 7) {
    bytes.push_back(static_cast<char>(value | 0x80));
  }
  bytes.push_back(static_cast<char>(value));
}

}  // namespace

void PostingLists::Add(std::string_view term, DocId doc) {
  const std::uint32_t number = terms_.Add(term);
  if (number == lists_.size()) {
    MakeRoom(lists_, 1);
    lists_.emplace_back();
  }
  List& list = lists_[number];
  if (list.doc_count_ > 0 && list.last_doc_ == doc) {
    ++list.last_count_;
    return;
  }
  if (list.doc_count_ > 0) {
    if (list.doc_count_ == 1) {
      list.packed_ = static_cast<std::uint32_t>(packed_.size());
      MakeRoom(packed_, 1);
      packed_.emplace_back();
    }
    std::string& packed = packed_[list.packed_];
    packed_bytes_ -= HeapBytes(packed);
    const std::uint64_t distance = list.last_doc_ - list.packed_doc_;
    AppendVarint(distance << 1 | (list.last_count_ > 1 ? 1 : 0), packed);
    if (list.last_count_ > 1) AppendVarint(list.last_count_, packed);
    list.packed_doc_ = list.last_doc_;
    packed_bytes_ += HeapBytes(packed);
  }
  list.last_doc_ = doc;
  list.last_count_ = 1;
  ++list.doc_count_;
}

const PostingLists::List* PostingLists::Find(std::string_view term) const {
  const std::uint32_t number = terms_.Find(term);
  return number == StringTable::kNone ? nullptr : &lists_[number];
}

PostingLists::Cursor PostingLists::Walk(const List& list) const {
  Cursor cursor;
  if (list.doc_count_ > 1) {
    const std::string& packed = packed_[list.packed_];
    cursor.p_ = packed.data();
    cursor.end_ = cursor.p_ + packed.size();
  }
  cursor.last_doc_ = list.last_doc_;
  cursor.last_count_ = list.last_count_;
  cursor.Next();
  return cursor;
}

std::size_t PostingLists::ByteSize() const {
  return terms_.ByteSize() + HeapBytes(lists_) + HeapBytes(packed_) + packed_bytes_;
}

}  // namespace memoryd
