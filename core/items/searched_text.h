// The text by which a search finds an item.
#ifndef MEMORYD_CORE_ITEMS_SEARCHED_TEXT_H_
#define MEMORYD_CORE_ITEMS_SEARCHED_TEXT_H_

#include <string>
#include <string_view>

#include "core/items/item.h"

namespace memoryd {

// Every text of the value at or below a path of the item's `search`, or of `otherwise` where it has
// none, one a line, and each once, as they stand in it: no more bytes than the value has. Both are
// in the form of ItemContent::search. Nothing for bytes, and for a value that is no JSON.
// memoryd.v1.ItemSearch says what a path is. Takes as long as the value is large.
std::string SearchedText(const ItemContent& content, std::string_view otherwise);

}  // namespace memoryd

#endif  // MEMORYD_CORE_ITEMS_SEARCHED_TEXT_H_
