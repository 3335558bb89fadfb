// What is asked of an index, and what it answers.
#ifndef MEMORYD_CORE_RETRIEVAL_SEARCH_H_
#define MEMORYD_CORE_RETRIEVAL_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "core/model/language.h"
#include "core/model/ranking_options.h"
#include "core/retrieval/quantized_vectors.h"
#include "core/retrieval/word_vectors.h"

namespace memoryd {

enum class ItemKind : std::uint8_t { kMessage = 0, kContent = 1 };

// What is to be found later. Borrows its strings for the call.
struct IndexedItem {
  ItemKind kind = ItemKind::kMessage;
  std::int64_t position = 0;   // Among the items of its kind.
  std::string_view role;       // Of a message; a content has none.
  std::string_view name;       // Its speaker's; "" for one without, who then goes by his role.
  std::string_view thread_id;  // Of a message, without a line feed; "" for one without.
  // Of a message that another session handed on, that session; else "". Neighbours are of one
  // thread of one source: conversations that were handed on to one session are not one for that.
  std::string_view source;
  // When a message was created, by the caller's word; its day is among the terms it is found by.
  std::optional<std::int64_t> create_us;
  std::string_view text;
};

// Which items may be hits. What is not set does not limit; what is set must all hold.
struct SearchFilter {
  // One of these; no content has one. Empty: any.
  std::vector<std::string> roles;
  // Whatever their source. "": messages without a thread. No content is in a thread.
  std::optional<std::string> thread_id;
  // Says false for what may not be a hit. Asked once for each item that has a word of the query and
  // passes the rest of the filter.
  std::function<bool(ItemKind kind, std::int64_t position)> accept;
};

// What words and cosines are divided by, so that the best has 1.
struct SearchScale {
  double words = 0;
  double cosine = 0;
};

struct SearchRequest {
  std::string_view query;
  std::size_t top_k = 0;
  SearchFilter filter;
  // Of these, `expansion`, `dates`, `language` and `zone` must be as in the index's IndexOptions.
  RankingOptions ranking;
  // The least cosine of a hit's vector and the query's; not looked at without vectors.
  std::optional<double> least_cosine = std::nullopt;
  // The best there is in other indexes, whose hits are to be compared with these.
  SearchScale scale = {};
  // Of the query without names, as EmbedderQuery() gives it, by the embedder that made the
  // messages' embeddings. Empty, or of another size than theirs: embeddings don't count.
  std::span<const float> embedding = {};
};

// What a score is made of. They add up to it, but for rounding and the bounds.
struct ScoreParts {
  double words = 0;
  double vector = 0;
  double embedding = 0;
  double author = 0;
  double user = 0;
  double length = 0;  // At most 0.
  double recency = 0;
  double neighbours = 0;  // Also below 0: in a thread that has less to say than another.
};

struct SearchHit {
  ItemKind kind = ItemKind::kMessage;
  std::int64_t position = 0;
  // 0 to 1, where 1 would be the best in every part: comparable within one search only, since words
  // and vectors are measured by the best item's.
  double score = 0;
  // Before it is bounded.
  double raw_score = 0;
  ScoreParts parts;
  // Of its vector and the query's; none without vectors.
  std::optional<double> cosine = std::nullopt;
  // Of its embedding and the query's; none without either.
  std::optional<double> embedding_cosine = std::nullopt;
};

// What an index takes in; others are made by building anew.
struct IndexOptions {
  // None: texts are found by their words alone.
  std::shared_ptr<const WordVectors> vectors;
  Precision precision = Precision::k8Bits;
  std::optional<bool> expansion;
  bool dates = true;
  absl::TimeZone zone = absl::UTCTimeZone();  // In which dates are written.
  // Of all texts. None: each text tells its own, see SessionLanguages.
  std::optional<Language> language;
  // Of texts that do not tell theirs. None: see SessionLanguages.
  std::optional<Language> usual_language;

  friend bool operator==(const IndexOptions&, const IndexOptions&) = default;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_SEARCH_H_
