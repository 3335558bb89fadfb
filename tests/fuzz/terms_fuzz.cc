// Any bytes as text to be found, and as a query for it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/language.h"
#include "core/retrieval/folding.h"
#include "core/retrieval/languages.h"
#include "core/retrieval/query_terms.h"
#include "core/retrieval/search.h"
#include "core/retrieval/session_index.h"
#include "core/retrieval/stemmers.h"
#include "core/retrieval/terms.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> terms;
  const auto language =
      static_cast<memoryd::Language>(size == 0 ? 0 : data[0] % memoryd::kLanguages);
  memoryd::ForEachTerm(
      memoryd::FoldedText(text), language,
      [&](std::string_view term, memoryd::TermKind kind, std::string_view word) {
        memoryd::Require(!term.empty() && term.size() <= memoryd::kMaxTermBytes);
        memoryd::Require(term.starts_with('\'') == (kind == memoryd::TermKind::kStopWord));
        // What is folded and cut a second time may become another word.
        if (language != memoryd::Language::kEnglish || memoryd::IsAscii(word)) {
          memoryd::Require(word.empty() || memoryd::Stemmers().StemOf(word, language) == term);
        }
        memoryd::Require(word.size() <= memoryd::kMaxWordBytes);
        terms.emplace_back(term);
      });
  std::vector<std::string> wanted;
  for (const memoryd::QueryWord& word : memoryd::QueryTerms(text, {language, {language}})) {
    wanted.push_back(word.terms.front().term);
    memoryd::Require(std::find(terms.begin(), terms.end(), wanted.back()) != terms.end());
  }
  memoryd::Require(memoryd::HasQueryWords(text) != memoryd::QueryTerms(text).empty());
  std::sort(wanted.begin(), wanted.end());
  memoryd::Require(std::adjacent_find(wanted.begin(), wanted.end()) == wanted.end());

  // As a query in a session of several languages.
  const auto other = static_cast<memoryd::Language>(size < 2 ? 0 : data[1] % memoryd::kLanguages);
  for (const memoryd::QueryWord& word : memoryd::QueryTerms(text, {other, {language, other}})) {
    memoryd::Require(!word.terms.empty() && word.word.size() <= memoryd::kMaxWordBytes);
  }

  // What has a term is found by itself.
  memoryd::SessionIndex index;
  memoryd::IndexedItem item;
  item.position = 1;
  item.text = text;
  index.Add(item);
  memoryd::SearchRequest request;
  request.query = text;
  request.top_k = 10;
  const auto hits = index.Search(request);
  // A word may begin with so many accents that nothing else is left of it, but in English.
  const auto told = memoryd::DetectLanguage(memoryd::FoldedText(text))
                        .language.value_or(memoryd::Language::kEnglish);
  const bool has_terms = !memoryd::QueryTerms(text, {told, {told}}).empty();
  memoryd::Require(hits.size() == (has_terms ? 1U : 0U));
  if (!hits.empty()) memoryd::Require(hits.front().position == 1 && hits.front().parts.words > 0);
  return 0;
}
