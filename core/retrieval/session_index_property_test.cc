// Random sessions: the index finds what reading every text would find.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/model/language.h"
#include "core/model/ranking_options.h"
#include "core/retrieval/folding.h"
#include "core/retrieval/query_terms.h"
#include "core/retrieval/search.h"
#include "core/retrieval/session_index.h"
#include "core/retrieval/terms.h"

namespace memoryd {
namespace {

struct Item {
  ItemKind kind;
  std::int64_t position;
  std::string role;
  std::string thread_id;
  std::string text;
  std::string source = {};

  IndexedItem View() const {
    IndexedItem item;
    item.kind = kind;
    item.position = position;
    item.role = role;
    item.thread_id = thread_id;
    item.source = source;
    item.text = text;
    return item;
  }
};

bool Passes(const SearchFilter& filter, const Item& item) {
  const bool message = item.kind == ItemKind::kMessage;
  const auto& roles = filter.roles;
  if (!roles.empty() && (!message || std::count(roles.begin(), roles.end(), item.role) == 0)) {
    return false;
  }
  if (filter.thread_id && (!message || item.thread_id != *filter.thread_id)) return false;
  return !filter.accept || filter.accept(item.kind, item.position);
}

// BM25 and the filters in their plainest form: everything is computed for every item. All is in one
// language.
std::vector<SearchHit> SearchByReading(const std::vector<Item>& items, const SearchRequest& request,
                                       Language language) {
  std::vector<std::map<std::string, int>> counts(items.size());
  std::vector<double> lengths(items.size());
  double total = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    ForEachTerm(FoldedText(items[i].text), language,
                [&](std::string_view term, TermKind kind, std::string_view) {
                  ++counts[i][std::string(term)];
                  if (kind == TermKind::kWord) ++lengths[i];
                });
    total += lengths[i];
  }
  const auto n = static_cast<double>(items.size());
  std::vector<SearchHit> hits;
  double best = 0;  // Of all, whether they pass the filter or not.
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    double bm25 = 0;
    for (const QueryWord& word : QueryTerms(request.query, {language, {language}})) {
      double of_word = 0;
      for (const QueryTerm& term : word.terms) {
        if (counts[i].count(term.term) == 0) continue;
        const auto with = static_cast<double>(std::count_if(
            counts.begin(), counts.end(), [&](const auto& of) { return of.count(term.term) > 0; }));
        const double tf = counts[i][term.term];
        of_word =
            std::max(of_word, term.weight * std::log(1 + (n - with + 0.5) / (with + 0.5)) * 1.9 *
                                  tf / (tf + 0.9 * (0.6 + 0.4 * lengths[i] * n / total)));
      }
      bm25 += of_word;
    }
    best = std::max(best, bm25);
    if (bm25 > 0 && Passes(request.filter, item))
      hits.push_back({item.kind, item.position, bm25, 0, {}});
  }
  // Sums that differ by less than this are equal but for the order of the arithmetic.
  const auto rounded = [](double value) { return std::llround(value * 1e9); };
  std::sort(hits.begin(), hits.end(), [&](const SearchHit& a, const SearchHit& b) {
    return std::tuple(-rounded(a.score), a.kind, -a.position) <
           std::tuple(-rounded(b.score), b.kind, -b.position);
  });
  if (hits.size() > request.top_k) hits.resize(request.top_k);
  for (SearchHit& hit : hits) hit.score /= best;
  return hits;
}

class RandomSessionTest : public ::testing::TestWithParam<unsigned> {
 protected:
  std::uint64_t Pick(std::uint64_t below) { return generator_() % below; }

  std::string RandomText(std::uint64_t most_words) {
    static constexpr const char* kOdd[] = {"the", "who",  "is",   "東京都",
                                           "猫",  "café", "it's", "\xFF"};
    static constexpr const char* kEndings[] = {"en", "ungen", "\u0131k", "\u00E9e"};
    std::string text;
    for (std::uint64_t words = Pick(most_words + 1); words > 0; --words) {
      // Low numbers often, high ones seldom.
      text += Pick(5) == 0 ? kOdd[Pick(std::size(kOdd))] : fmt::format("w{}", Pick(1 + Pick(60)));
      if (language_ != Language::kEnglish && Pick(3) == 0) text += kEndings[Pick(4)];
      text += ' ';
    }
    return text;
  }

  std::vector<Item> RandomItems(std::uint64_t count) {
    std::vector<Item> items;
    std::int64_t next[2] = {0, 0};
    while (items.size() < count) {
      const ItemKind kind = Pick(4) == 0 ? ItemKind::kContent : ItemKind::kMessage;
      std::int64_t& position = next[static_cast<std::size_t>(kind)];
      position += 1 + static_cast<std::int64_t>(Pick(3));
      Item item{kind, position, "", "", RandomText(15)};
      if (kind == ItemKind::kMessage) {
        item.role = Pick(2) == 0 ? "user" : "assistant";
        item.thread_id = Pick(2) == 0 ? "" : fmt::format("t{}", Pick(3));
        item.source = Pick(3) == 0 ? fmt::format("s{}", Pick(2)) : "";
      }
      items.push_back(item);
    }
    return items;
  }

  SearchFilter RandomFilter() {
    SearchFilter filter;
    if (Pick(4) == 0) filter.roles = {Pick(2) == 0 ? "user" : "assistant"};
    if (Pick(4) == 0) filter.thread_id = Pick(2) == 0 ? "" : fmt::format("t{}", Pick(4));
    if (Pick(4) == 0) {
      const auto watermark = static_cast<std::int64_t>(Pick(200));
      filter.accept = [watermark](ItemKind kind, std::int64_t position) {
        return kind == ItemKind::kContent || position < watermark;
      };
    }
    return filter;
  }

  std::mt19937_64 generator_{GetParam()};
  // English with the odd seeds.
  const Language language_ =
      GetParam() % 2 == 1 ? Language::kEnglish : static_cast<Language>(GetParam() * 5 % kLanguages);
};

void ExpectSame(const std::vector<SearchHit>& found, const std::vector<SearchHit>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].kind, expected[i].kind) << i;
    EXPECT_EQ(found[i].position, expected[i].position) << i;
    EXPECT_NEAR(found[i].score, expected[i].score, 1e-9) << i;
  }
}

// Searches between the additions: what was added since counts at once.
TEST_P(RandomSessionTest, TheIndexFindsWhatReadingFinds) {
  IndexOptions options;
  options.language = language_;
  SessionIndex index(options);
  std::vector<Item> added;
  std::size_t found = 0;
  for (const Item& item : RandomItems(250)) {
    index.Add(item.View());
    added.push_back(item);
    if (Pick(3) != 0) continue;
    const std::string query = RandomText(5);
    const SearchRequest request{query, Pick(4) == 0 ? Pick(4) : 1000, RandomFilter(), WordsAlone()};
    const std::vector<SearchHit> hits = index.Search(request);
    found += hits.size();
    ExpectSame(hits, SearchByReading(added, request, language_));
    if (HasFatalFailure()) FAIL() << "query: " << query;
  }
  EXPECT_GT(found, 500u);
}

TEST_P(RandomSessionTest, TheOrderBetweenMessagesAndContentsDoesNotMatter) {
  // Texts of several languages, and many that do not tell theirs.
  constexpr const char* kTold[] = {" ich habe die Gärten noch", " elle a vendu la voiture",
                                   " where is the garden", " W\u00E4nden", " Garten"};
  std::vector<Item> items = RandomItems(200);
  for (Item& item : items) item.text += kTold[Pick(std::size(kTold))];
  SessionIndex as_they_came;
  for (const Item& item : items) as_they_came.Add(item.View());
  std::stable_sort(items.begin(), items.end(),
                   [](const Item& a, const Item& b) { return a.kind < b.kind; });
  SessionIndex by_kind;
  for (const Item& item : items) by_kind.Add(item.View());
  for (int i = 0; i < 30; ++i) {
    const std::string query = RandomText(5) + kTold[Pick(std::size(kTold))];
    const SearchRequest request{query, 20, RandomFilter(), WordsAlone()};
    ExpectSame(as_they_came.Search(request), by_kind.Search(request));
    const auto position = static_cast<std::int64_t>(Pick(300));
    EXPECT_EQ(as_they_came.Neighbours(position, 3), by_kind.Neighbours(position, 3));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomSessionTest, ::testing::Range(1u, 9u));

}  // namespace
}  // namespace memoryd
