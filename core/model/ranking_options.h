// How what a session holds is ranked.
#ifndef MEMORYD_CORE_MODEL_RANKING_OPTIONS_H_
#define MEMORYD_CORE_MODEL_RANKING_OPTIONS_H_

#include <optional>
#include <string>

#include "absl/time/time.h"

namespace memoryd {

// The parts of a score and their weights, see memoryd.v1.Retrieval; docs/adr/0022 tells where the
// defaults come from. No weight is negative.
struct RankingOptions {
  // BM25: how soon a term's repetitions cease to count, and how much a text's length does (0 to 1).
  double bm25_k1 = 0.9;
  double bm25_b = 0.4;
  // Likeness of the text's vector to the query's.
  double vector_weight = 0.6;
  // The cosine from which on a vector alone makes an item a hit. -1: everything is one.
  double vector_threshold = -1;
  // For what was said by the one whom the query names.
  double author_weight = 0.8;
  // Share of the scores of the messages before and after, in the thread. A text of more than
  // `neighbour_tokens` gets as much less as it is longer; 0: never less.
  double neighbour_weight = 0.2;
  double neighbour_tokens = 100;
  // How many times its share a message gets of the one before where that ends as a question.
  double answer_factor = 2;
  // Taken away of what the three messages of its thread that are most like the query have less, on
  // average, than those of the best thread.
  double thread_weight = 0.2;
  // Taken away for each time that a text is e times as long as `length_tokens`.
  double length_weight = 0.35;
  double length_tokens = 100;
  // For the user's turns, where everyone is a role.
  double user_weight = 0.2;
  // For the newest, and less the older one is.
  double recency_weight = 0;
  // Whether a word of the query also finds words like it. Absent: where vectors count, speakers
  // have names and the session has at most 10,000 words.
  std::optional<bool> expansion;
  // Whether messages are found by the date at which they were created.
  bool dates = true;
  // A code that FindLanguage() knows: of all texts. Empty: each text tells its own.
  std::string language;
  // In which a message's date is written. Set by SessionConfig::time_zone.
  absl::TimeZone zone;
  // The embedder's name and its worker's; empty: none, one of the server's own.
  std::string embedder;
  std::string embedder_worker;
  // Likeness of the message's embedding to the query's.
  double embedder_weight = 1;

  friend bool operator==(const RankingOptions&, const RankingOptions&) = default;
};

// Of RankingOptions::vector_weight, where an embedder says more of a text than its words do.
inline constexpr double kVectorWeightBesideEmbedder = 0.3;

// BM25 and nothing else.
inline RankingOptions WordsAlone() {
  RankingOptions options;
  options.vector_weight = options.author_weight = options.neighbour_weight = 0;
  options.length_weight = options.user_weight = options.thread_weight = 0;
  options.expansion = false;
  return options;
}

}  // namespace memoryd

#endif  // MEMORYD_CORE_MODEL_RANKING_OPTIONS_H_
