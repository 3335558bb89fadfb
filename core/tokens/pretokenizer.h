#ifndef MEMORYD_CORE_TOKENS_PRETOKENIZER_H_
#define MEMORYD_CORE_TOKENS_PRETOKENIZER_H_

#include "core/tokens/code_point_class.h"

namespace memoryd {

// Where a tokenizer cuts text before it merges bytes. Each function returns the end of the piece
// that starts at `p`, for `p` < `end`, and does what tiktoken's pattern of that name does to a text
// that ends at `end`. Stepping through a whole text is linear in its length.
using PieceEndFunction = const char* (*)(const CodePointTable& table, const char* p,
                                         const char* end);

const char* Cl100kPieceEnd(const CodePointTable& table, const char* p, const char* end);
const char* O200kPieceEnd(const CodePointTable& table, const char* p, const char* end);

}  // namespace memoryd

#endif  // MEMORYD_CORE_TOKENS_PRETOKENIZER_H_
