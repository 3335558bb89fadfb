#include "core/retrieval/session_index.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "core/model/language.h"
#include "core/model/ranking_options.h"
#include "core/model/time_zone.h"
#include "core/retrieval/folding.h"
#include "core/retrieval/heap_bytes.h"
#include "core/retrieval/languages.h"
#include "core/retrieval/make_room.h"
#include "core/retrieval/passage_ranking.h"
#include "core/retrieval/passages.h"
#include "core/retrieval/posting_lists.h"
#include "core/retrieval/query_terms.h"
#include "core/retrieval/search.h"
#include "core/retrieval/stemmers.h"
#include "core/retrieval/terms.h"
#include "core/retrieval/vocabulary.h"
#include "core/retrieval/word_vectors.h"

namespace memoryd {
namespace {

// Of the words that a word of the query also finds: the most, the least cosine, and the most words
// a session may have when the caller did not ask for it: they are all looked at. A query's words
// beyond the first are a text, in which enough is said by itself; each costs memory and time.
constexpr std::size_t kMaxLikeWords = 20;
constexpr std::size_t kMaxExpandedWords = 64;
constexpr double kLeastLikeness = 0.3;
constexpr std::size_t kMaxVocabulary = 10'000;

bool EndsAsQuestion(std::string_view text) {
  const std::size_t last = text.find_last_not_of(" \t\n\v\f\r");
  text = text.substr(0, last == std::string_view::npos ? 0 : last + 1);
  return text.ends_with('?') || text.ends_with("\uFF1F") || text.ends_with("\u061F");
}

}  // namespace

SessionIndex::SessionIndex(IndexOptions options)
    : options_(std::move(options)),
      languages_(options_.language, options_.usual_language),
      keeps_vocabulary_(options_.vectors != nullptr && options_.expansion.value_or(true)),
      vectors_(options_.precision) {}

void SessionIndex::Add(const IndexedItem& item) {
  assert(!LastPosition(item.kind) || item.position > *LastPosition(item.kind));
  const auto doc = static_cast<DocId>(docs_.size());
  std::uint32_t length = 0;
  const FoldedText text(item.text);
  const TextLanguage language = languages_.Add(item.kind, text);
  if (options_.dates && item.create_us.has_value()) length += AddDay(*item.create_us, language);
  length += AddTerms(text, *language.language);
  terms_.EndItem(length);
  if (options_.vectors != nullptr) vectors_.Add(*options_.vectors, item.text);

  std::uint32_t role = kNoName;
  std::uint32_t thread = kNoName;
  std::uint32_t author = kNoName;
  if (item.kind == ItemKind::kMessage) {
    role = roles_.Add(item.role);
    author = authors_.Add(item.name.empty() ? item.role : item.name);
    thread = item.source.empty()
                 ? threads_.Add(item.thread_id)
                 : threads_.Add(std::string(item.source) + '\n' + std::string(item.thread_id));
    if (thread == docs_of_thread_.size()) docs_of_thread_.emplace_back();
    std::vector<DocId>& of_thread = docs_of_thread_[thread];
    heap_bytes_ -= HeapBytes(of_thread);
    of_thread.push_back(doc);
    heap_bytes_ += HeapBytes(of_thread);
  }
  const float tokens = std::max(1.0F, static_cast<float>(CharacterCount(item.text)) / 4);
  MakeRoom(docs_, 1);
  docs_.push_back({item.position, tokens, role, thread, author});
  asks_.push_back(EndsAsQuestion(item.text));
  docs_of_kind_[static_cast<std::size_t>(item.kind)].push_back(doc);
}

std::uint32_t SessionIndex::AddDay(std::int64_t create_us, const TextLanguage& language) {
  const std::string english = DayWords(create_us, options_.zone);
  std::uint32_t words = AddTerms(FoldedText(english), Language::kEnglish);
  const absl::CivilDay day = absl::ToCivilDay(absl::FromUnixMicros(create_us), options_.zone);
  if (const std::string_view month = MonthName(day.month(), *language.language); !month.empty()) {
    words += AddTerms(FoldedText(month), *language.language);
  } else if (language.is_han) {
    const std::string text =
        std::to_string(day.month()) + "\u6708" + std::to_string(day.day()) + "\u65E5";
    words += AddTerms(FoldedText(text), *language.language);
  }
  return words;
}

QueryLanguages SessionIndex::LanguagesOf(std::string_view query) const {
  if (languages_.is_english()) return {};
  return {languages_.Of(query), languages_.used()};
}

std::uint32_t SessionIndex::AddTerms(const FoldedText& text, Language language) {
  std::uint32_t words = 0;
  ForEachTerm(text, language, [&](std::string_view term, TermKind kind, std::string_view word) {
    terms_.Add(term);
    if (kind != TermKind::kWord) return;
    ++words;
    if (keeps_vocabulary_ && !word.empty()) vocabulary_.Add(*options_.vectors, word);
  });
  if (vocabulary_.size() > kMaxVocabulary && !options_.expansion.has_value()) {
    vocabulary_ = Vocabulary();
    keeps_vocabulary_ = false;
  }
  return words;
}

void SessionIndex::AddEmbedding(std::int64_t position, std::span<const float> embedding) {
  const std::vector<DocId>& messages = OfKind(ItemKind::kMessage);
  const std::size_t place = PlaceFrom(ItemKind::kMessage, position);
  if (place == messages.size() || docs_[messages[place]].position != position) return;
  embeddings_.Add(place, embedding);
}

std::optional<std::pair<std::int64_t, std::int64_t>> SessionIndex::NextWithoutEmbedding(
    std::int64_t from) const {
  const std::vector<DocId>& messages = OfKind(ItemKind::kMessage);
  std::size_t first = PlaceFrom(ItemKind::kMessage, from);
  while (first < messages.size() && embeddings_.Has(first)) ++first;
  if (first == messages.size()) return std::nullopt;
  std::size_t end = first + 1;
  while (end < messages.size() && !embeddings_.Has(end)) ++end;
  return std::pair(docs_[messages[first]].position, docs_[messages[end - 1]].position);
}

std::string SessionIndex::EmbedderQuery(std::string_view query) const {
  return HasQueryWords(query) ? authors_.Split(query).rest : std::string();
}

bool SessionIndex::ExpandsQueries() const {
  return keeps_vocabulary_ && options_.expansion.value_or(!authors_.is_role_chat());
}

SessionIndex::WordMatches SessionIndex::MatchWords(std::string_view query,
                                                   const RankingOptions& ranking) const {
  WordMatches matches{Scores(docs_.size()), {}};
  Scores of_word(docs_.size());
  std::vector<DocId> touched;
  const auto raise = [&](std::string_view term, double weight) {
    terms_.RaiseToBm25(term, ranking, weight, of_word, touched);
  };
  const auto add = [&] {
    for (const DocId doc : touched) {
      if (matches.scores[doc] == 0) matches.docs.push_back(doc);
      matches.scores[doc] += of_word[doc];
      of_word[doc] = 0;
    }
    touched.clear();
  };
  const QueryLanguages languages = LanguagesOf(query);
  const bool expands = ExpandsQueries();
  const std::vector<QueryWord> words =
      expands ? QueryWords(query, languages) : QueryTerms(query, languages);
  const std::vector<std::vector<LikeWord>> like =
      expands ? LikeWords(words) : std::vector<std::vector<LikeWord>>();
  Stemmers stemmers;
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (const QueryTerm& term : words[i].terms) raise(term.term, term.weight);
    if (i < like.size()) RaiseLikeWords(words[i], like[i], stemmers, raise);
    add();
  }
  for (const DocId doc : matches.docs) {
    matches.largest = std::max(matches.largest, matches.scores[doc]);
  }
  return matches;
}

std::vector<std::vector<LikeWord>> SessionIndex::LikeWords(
    const std::vector<QueryWord>& words) const {
  std::vector<std::string_view> wanted;
  wanted.reserve(kMaxExpandedWords);
  for (const QueryWord& word : words) {
    if (wanted.size() == kMaxExpandedWords) break;
    wanted.push_back(word.word);
  }
  return vocabulary_.Nearest(*options_.vectors, wanted, kMaxLikeWords, kLeastLikeness);
}

void SessionIndex::RaiseLikeWords(
    const QueryWord& word, const std::vector<LikeWord>& like_words, Stemmers& stemmers,
    absl::FunctionRef<void(std::string_view term, double weight)> raise) const {
  if (word.word.empty()) return;
  std::uint32_t own_count = 0;
  absl::flat_hash_set<std::string> seen;
  for (const QueryTerm& own : word.terms) {
    if (own.weight < 1) continue;
    own_count = std::max(own_count, terms_.DocCount(own.term));
    seen.insert(own.term);
  }
  const double own_rarity = terms_.Rarity(own_count);
  const std::vector<Language> languages = languages_.used();
  for (const LikeWord& like : like_words) {
    for (const Language language : languages) {
      const std::string term = stemmers.StemOf(like.word, language);
      const std::uint32_t doc_count = terms_.DocCount(term);
      if (doc_count == 0 || !seen.insert(term).second) continue;
      // A rare word like a common one of the query counts no more than that.
      const double rarity = terms_.Rarity(doc_count);
      raise(term, (like.cosine - kLeastLikeness) / (1 - kLeastLikeness) *
                      std::min(own_rarity, rarity) / rarity);
    }
  }
}

WordVectors::Vector SessionIndex::QueryVector(std::string_view query) const {
  return vectors_.QueryVector(*options_.vectors, query,
                              [this](std::uint32_t texts) { return terms_.Rarity(texts); });
}

SessionIndex::Likenesses SessionIndex::Cosines(std::string_view query) const {
  Likenesses cosines(docs_.size());
  vectors_.Cosines(QueryVector(query), cosines);
  return cosines;
}

SessionIndex::Likenesses SessionIndex::EmbeddingCosines(std::span<const float> query) const {
  if (!embeddings_.IsLike(query)) return {};
  Likenesses cosines(docs_.size(), kNoCosine);
  const std::vector<DocId>& messages = OfKind(ItemKind::kMessage);
  embeddings_.ForEachCosine(
      query, [&](std::size_t place, float cosine) { cosines[messages[place]] = cosine; });
  return cosines;
}

std::size_t SessionIndex::PlaceIn(const std::vector<DocId>& thread, DocId doc) {
  return static_cast<std::size_t>(std::lower_bound(thread.begin(), thread.end(), doc) -
                                  thread.begin());
}

std::size_t SessionIndex::PlaceFrom(ItemKind kind, std::int64_t position) const {
  const std::vector<DocId>& docs = OfKind(kind);
  const auto found = std::lower_bound(
      docs.begin(), docs.end(), position,
      [this](DocId doc, std::int64_t wanted) { return docs_[doc].position < wanted; });
  return static_cast<std::size_t>(found - docs.begin());
}

DocId SessionIndex::FindDoc(ItemKind kind, std::int64_t position) const {
  const std::vector<DocId>& docs = OfKind(kind);
  const std::size_t place = PlaceFrom(kind, position);
  return place == docs.size() || docs_[docs[place]].position != position ? kNoDoc : docs[place];
}

std::vector<std::int64_t> SessionIndex::Neighbours(std::int64_t position, std::size_t count) const {
  const DocId doc = FindDoc(ItemKind::kMessage, position);
  if (doc == kNoDoc) return {};
  const std::vector<DocId>& thread = docs_of_thread_[docs_[doc].thread];
  const std::size_t self = PlaceIn(thread, doc);
  std::vector<std::int64_t> positions;
  const std::size_t end = self + std::min(count, thread.size() - 1 - self) + 1;
  for (std::size_t i = self - std::min(count, self); i < end; ++i) {
    if (i != self) positions.push_back(docs_[thread[i]].position);
  }
  return positions;
}

std::size_t SessionIndex::BestPassage(std::string_view query, const RankingOptions& ranking,
                                      const std::vector<std::string_view>& passages) const {
  const std::string rest = authors_.Split(query).rest;
  PassageQuery wanted;
  for (QueryWord& word : QueryTerms(rest, LanguagesOf(rest))) {
    for (QueryTerm& term : word.terms) {
      term.weight *= terms_.Rarity(terms_.DocCount(term.term));
    }
    wanted.AddWord(std::move(word));
  }
  if (!languages_.is_english()) {
    // As much of the text as tells it.
    std::string text;
    for (const std::string_view passage : passages) {
      if (text.size() >= kHeadBytes) break;
      text.append(passage).push_back('\n');
    }
    wanted.language = languages_.Of(text);
  }
  wanted.bm25_k1 = ranking.bm25_k1;
  if (options_.vectors != nullptr && ranking.vector_weight > 0) {
    wanted.vectors = options_.vectors.get();
    wanted.vector = QueryVector(rest);
    wanted.vector_weight = ranking.vector_weight;
  }
  return BestOf(passages, wanted);
}

std::optional<std::int64_t> SessionIndex::LastPosition(ItemKind kind) const {
  const std::vector<DocId>& docs = OfKind(kind);
  if (docs.empty()) return std::nullopt;
  return docs_[docs.back()].position;
}

std::size_t SessionIndex::ByteSize() const {
  return sizeof(*this) + heap_bytes_ + HeapBytes(docs_) + asks_.capacity() / 8 +
         HeapBytes(docs_of_kind_[0]) + HeapBytes(docs_of_kind_[1]) + HeapBytes(docs_of_thread_) +
         terms_.ByteSize() + roles_.ByteSize() + threads_.ByteSize() + authors_.ByteSize() +
         vocabulary_.ByteSize() + vectors_.ByteSize() + embeddings_.ByteSize();
}

}  // namespace memoryd
