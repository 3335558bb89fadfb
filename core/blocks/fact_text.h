// What a model's answer says of facts: pure functions.
#ifndef MEMORYD_CORE_BLOCKS_FACT_TEXT_H_
#define MEMORYD_CORE_BLOCKS_FACT_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace memoryd {

// The facts of an answer as FactExtractionMemoryBlock of llama-index-core 0.14.25 reads it: what
// stands in `<fact>` tags, stripped, but for the empty.
std::vector<std::string> LlamaFacts(std::string_view answer);

// Each as `<fact>FACT</fact>`, a line for each.
std::string LlamaFactLines(const std::vector<std::string>& facts);

struct AnsweredFact {
  std::string text;
  std::vector<std::int64_t> evidence;  // Numbers of messages.
  std::vector<std::int64_t> replaces;  // Ids of facts that it takes the place of.
  std::vector<std::int64_t> from;      // Ids of facts that it was made of.
  // Id of a known fact that it says in other words; 0: of none. No answer says it.
  std::int64_t same_as = 0;

  friend bool operator==(const AnsweredFact&, const AnsweredFact&) = default;
};

struct FactAnswer {
  std::vector<AnsweredFact> facts;
  // Whether the answer made sense; one that says that there are no facts does. What does not make
  // sense has no facts.
  bool understood = false;
};

// The most facts that are taken from one answer, and the most bytes of one; what exceeds them is
// left out, as is a fact without a letter or digit.
inline constexpr std::size_t kMaxAnsweredFacts = 200;
inline constexpr std::size_t kMaxFactBytes = 1000;

// A text as facts are kept, stripped and on one line; nullopt for what is left out.
std::optional<std::string> FactLine(std::string_view text);

// Reads `<fact evidence="1,2" replaces="3" from="4,5">...</fact>`, and what models make of that:
// fences around it, no wrapper, tags in capitals or never closed, a JSON array of strings or of
// objects, an object that holds one, a list with numbers or dashes, and "no facts".
FactAnswer ReadFactAnswer(std::string_view answer);

// A key that two texts share when they are the same fact but for case, spaces, compatibility forms
// and punctuation. Signs that tell facts apart count: C and C#, 15 and 1.5, 5 and -5. "" for a text
// of punctuation alone.
std::string FactKey(std::string_view text);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_FACT_TEXT_H_
