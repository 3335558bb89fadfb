// Any bytes as text to be found, and as a query for it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/retrieval/search.h"
#include "core/retrieval/session_index.h"
#include "core/retrieval/terms.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> terms;
  memoryd::ForEachTerm(
      text, [&terms](std::string_view term, memoryd::TermKind kind, std::string_view word) {
        memoryd::Require(!term.empty() && term.size() <= memoryd::kMaxTermBytes);
        memoryd::Require(term.starts_with('\'') == (kind == memoryd::TermKind::kStopWord));
        memoryd::Require(word.empty() || memoryd::StemOf(word) == term);
        terms.emplace_back(term);
      });
  std::vector<std::string> wanted = memoryd::QueryTerms(text);
  for (const std::string& term : wanted) {
    memoryd::Require(std::find(terms.begin(), terms.end(), term) != terms.end());
  }
  std::sort(wanted.begin(), wanted.end());
  memoryd::Require(std::adjacent_find(wanted.begin(), wanted.end()) == wanted.end());

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
  memoryd::Require(hits.size() == (wanted.empty() ? 0U : 1U));
  if (!hits.empty()) memoryd::Require(hits.front().position == 1 && hits.front().parts.words > 0);
  return 0;
}
