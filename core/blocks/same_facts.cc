#include "core/blocks/same_facts.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "core/base/utf8_decode.h"
#include "core/blocks/fact_state.h"
#include "core/blocks/fact_text.h"

namespace memoryd {
namespace {

std::vector<std::string_view> Words(std::string_view key) {
  std::vector<std::string_view> words;
  while (!key.empty()) {
    const std::size_t end = std::min(key.find(' '), key.size());
    if (end > 0) words.push_back(key.substr(0, end));
    key.remove_prefix(std::min(end + 1, key.size()));
  }
  std::sort(words.begin(), words.end());
  return words;
}

bool HasDigit(std::string_view word) {
  return std::any_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<std::string> PairsOfLetters(std::string_view key) {
  std::vector<std::string> pairs;
  std::string_view before;
  const char* const end = key.data() + key.size();
  for (const char* p = key.data(); p < end;) {
    const std::string_view letter(p, DecodeUtf8(p, end).length);
    if (!before.empty()) pairs.push_back(std::string(before).append(letter));
    before = letter;
    p += letter.size();
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

// Of length 1, so that a product is the cosine; all 0 for one without a direction.
void Normalize(std::vector<float>& vector) {
  const double length =
      std::sqrt(std::inner_product(vector.begin(), vector.end(), vector.begin(), 0.0));
  for (float& number : vector) number = length > 0 ? static_cast<float>(number / length) : 0;
}

}  // namespace

std::vector<std::size_t> UnknownFacts(std::span<const AnsweredFact> answered,
                                      const FactState& state) {
  absl::flat_hash_set<std::string> known;
  for (const Fact& fact : state.facts) known.insert(FactKey(fact.text));
  std::vector<std::size_t> unknown;
  for (std::size_t i = 0; i < answered.size(); ++i) {
    if (!known.contains(FactKey(answered[i].text))) unknown.push_back(i);
  }
  return unknown;
}

bool AreTwoFacts(std::string_view a, std::string_view b) {
  const std::string a_key = FactKey(a);
  const std::string b_key = FactKey(b);
  std::vector<std::string_view> a_words = Words(a_key);
  std::vector<std::string_view> b_words = Words(b_key);
  if (a_words == b_words) return true;
  const auto is_no_number = [](std::string_view word) { return !HasDigit(word); };
  std::erase_if(a_words, is_no_number);
  std::erase_if(b_words, is_no_number);
  return a_words != b_words;
}

bool ShareManyWords(std::string_view a, std::string_view b) {
  const std::vector<std::string> a_pairs = PairsOfLetters(FactKey(a));
  const std::vector<std::string> b_pairs = PairsOfLetters(FactKey(b));
  std::vector<std::string> shared;
  std::set_intersection(a_pairs.begin(), a_pairs.end(), b_pairs.begin(), b_pairs.end(),
                        std::back_inserter(shared));
  return shared.size() * 3 >= a_pairs.size() + b_pairs.size();
}

void MarkSame(std::vector<AnsweredFact>& answered, std::span<const std::size_t> unknown,
              const FactState& state, std::vector<std::vector<float>> vectors, double similarity) {
  for (std::vector<float>& vector : vectors) Normalize(vector);
  for (std::size_t i = 0; i < unknown.size(); ++i) {
    AnsweredFact& fact = answered[unknown[i]];
    // What the model says that it replaces is told apart already.
    if (!fact.replaces.empty()) continue;
    const std::vector<float>& meaning = vectors[i];
    const Fact* same = nullptr;
    double most = similarity;
    for (std::size_t k = 0; k < state.facts.size(); ++k) {
      const std::vector<float>& other = vectors[unknown.size() + k];
      const double alike = std::inner_product(meaning.begin(), meaning.end(), other.begin(), 0.0);
      if (alike < most || AreTwoFacts(fact.text, state.facts[k].text)) continue;
      same = &state.facts[k];
      most = alike;
    }
    if (same == nullptr) continue;
    if (!ShareManyWords(fact.text, same->text)) {
      fact.same_as = same->id;
    } else if (same->writer.empty()) {
      fact.replaces.push_back(same->id);
    }
  }
}

}  // namespace memoryd
