// From a query to the words that are looked for.
#ifndef MEMORYD_CORE_RETRIEVAL_QUERY_TERMS_H_
#define MEMORYD_CORE_RETRIEVAL_QUERY_TERMS_H_

#include <string>
#include <string_view>
#include <vector>

#include "core/model/language.h"

namespace memoryd {

struct QueryTerm {
  std::string term;
  double weight = 1;
};

// A word to look for. A text has it by that of its terms which scores best.
struct QueryWord {
  std::string word;  // As the visitor of ForEachTerm() has it.
  // The word's own, one for each language of the texts with weight 1, then its parts. Of a pair or
  // a character: that alone.
  std::vector<QueryTerm> terms;
};

// How a query is read, and in which languages it looks for words.
struct QueryLanguages {
  Language own = Language::kEnglish;
  std::vector<Language> texts = {Language::kEnglish};  // At least one.
};

// The words to look for when `text` is the query, in their order, each once by its own terms. If
// there are none but function words of the query's language, these ("who is he"). Pairs of
// characters within function words of Chinese, Japanese and Thai are left out, and count less
// beside them. Each word is stemmed once in each language.
std::vector<QueryWord> QueryTerms(std::string_view text, const QueryLanguages& languages = {});

// As QueryTerms(), but words of the same stem each once.
std::vector<QueryWord> QueryWords(std::string_view text, const QueryLanguages& languages = {});

// Whether there is anything to look for.
bool HasQueryWords(std::string_view text);

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_QUERY_TERMS_H_
