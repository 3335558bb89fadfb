// Facts that say in other words, or in another language, what is known: pure functions.
#ifndef MEMORYD_CORE_BLOCKS_SAME_FACTS_H_
#define MEMORYD_CORE_BLOCKS_SAME_FACTS_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/blocks/fact_state.h"
#include "core/blocks/fact_text.h"

namespace memoryd {

// The cosine of two facts' embeddings from which they count as the same. By all-MiniLM-L6-v2
// (tests/model/same_facts.py) 16 of 22 pairs that say the same are as alike, and 10 of 32 that
// differ by a word that matters: 6 of these AreTwoFacts(), 4 share many words. Of pairs that differ
// and share few words the most alike has 0.91.
inline constexpr double kSameFactSimilarity = 0.92;

// Indexes of the facts, in order, whose FactKey() no known fact has: those that an embedder is to
// be asked about.
std::vector<std::size_t> UnknownFacts(std::span<const AnsweredFact> answered,
                                      const FactState& state);

// Whether two texts are the same words in another order, or have other numbers: their embeddings
// are alike, and they are two facts.
bool AreTwoFacts(std::string_view a, std::string_view b);

// Whether two texts share two thirds of their pairs of letters. Then embeddings are alike however
// much the word that differs matters, as "Wednesday" and "Thursday".
bool ShareManyWords(std::string_view a, std::string_view b);

// `vectors` are of one size: one for each of `unknown`, then one for each of the state's facts. Of
// the known fact that is most alike, from `similarity` on:
//   - where the two share few words, the answered fact is AnsweredFact::same_as;
//   - where they share many, the answered one replaces the other, which goes into the history: the
//     later words hold. A fact that a caller has written is not replaced so.
// Others, and those that AreTwoFacts(), stay as they are. Facts of one answer are never the same.
void MarkSame(std::vector<AnsweredFact>& answered, std::span<const std::size_t> unknown,
              const FactState& state, std::vector<std::vector<float>> vectors, double similarity);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_SAME_FACTS_H_
