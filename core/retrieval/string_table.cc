#include "core/retrieval/string_table.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "core/retrieval/make_room.h"

namespace memoryd {

StringTable::StringTable()
    : texts_(std::make_unique<Texts>()), numbers_(0, Hash{texts_.get()}, Equal{texts_.get()}) {}

std::uint32_t StringTable::Add(std::string_view text) {
  if (const std::uint32_t found = Find(text); found != kNone) return found;
  const auto number = static_cast<std::uint32_t>(size());
  MakeRoom(texts_->bytes, text.size());
  texts_->bytes.insert(texts_->bytes.end(), text.begin(), text.end());
  MakeRoom(texts_->ends, 1);
  texts_->ends.push_back(static_cast<std::uint32_t>(texts_->bytes.size()));
  numbers_.insert(number);
  return number;
}

std::uint32_t StringTable::Find(std::string_view text) const {
  const auto found = numbers_.find(text);
  return found == numbers_.end() ? kNone : *found;
}

std::size_t StringTable::ByteSize() const {
  return sizeof(Texts) + texts_->bytes.capacity() +
         (texts_->ends.capacity() + numbers_.capacity()) * sizeof(std::uint32_t) +
         numbers_.capacity();  // A byte of control for each slot.
}

}  // namespace memoryd
