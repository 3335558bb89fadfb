// Cuts a folded text into words, and into runs of characters of scripts that become pairs.
#ifndef MEMORYD_CORE_RETRIEVAL_WORD_SPLITTER_H_
#define MEMORYD_CORE_RETRIEVAL_WORD_SPLITTER_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "core/model/language.h"
#include "core/retrieval/folding.h"

namespace memoryd {

// `text` in lower case; in English without accents.
inline std::string FoldFor(std::string_view text, Language language) {
  if (language == Language::kEnglish) return Fold(text);
  return Fold(text, {.accents = true, .turkish = language == Language::kTurkish});
}

// Gives the words of a text to handler.Word(word), and its runs of characters of scripts that
// become pairs to handler.Run(run).
template <typename Handler>
class WordSplitter {
 public:
  // `joins`: contractions are words.
  WordSplitter(std::string_view text, bool joins, Handler& handler)
      : p_(text.data()), end_(p_ + text.size()), joins_(joins), handler_(handler) {}

  void Run() {
    while (p_ < end_) {
      const FoldedChar next = CharAt(p_, end_);
      if (next.kind == CharClass::kSeparator) {
        p_ += next.length;
      } else if (next.kind == CharClass::kWord) {
        Word();
      } else {
        Characters();
      }
    }
  }

 private:
  void Word() {
    const char* const begin = p_;
    while (p_ < end_) {
      const FoldedChar next = CharAt(p_, end_);
      if (next.kind != CharClass::kWord) break;
      p_ += next.length;
    }
    std::string_view word(begin, static_cast<std::size_t>(p_ - begin));
    if (joins_ && end_ - p_ >= 2 && *p_ == '\'' && IsAsciiLetter(p_[1])) {
      const char* const ending = ++p_;
      while (p_ < end_ && IsAsciiLetter(*p_)) ++p_;
      const std::string_view suffix(ending, static_cast<std::size_t>(p_ - ending));
      if (suffix != "s") {
        joined_.assign(word).append(suffix);
        word = joined_;
      }
    }
    handler_.Word(word);
  }

  void Characters() {
    const char* const begin = p_;
    while (p_ < end_) {
      const FoldedChar next = CharAt(p_, end_);
      if (next.kind != CharClass::kPaired && next.kind != CharClass::kPairedMark) break;
      p_ += next.length;
    }
    handler_.Run({begin, static_cast<std::size_t>(p_ - begin)});
  }

  const char* p_;
  const char* const end_;
  const bool joins_;
  Handler& handler_;
  std::string joined_;
};

// `text` must be as FoldFor() gives it.
template <typename Handler>
void SplitWords(std::string_view text, Language language, Handler& handler) {
  WordSplitter<Handler>(text, language == Language::kEnglish, handler).Run();
}

// Calls visit(character) for each of a run, with its marks. A mark that begins it is one, too.
template <typename Visitor>
void ForEachCharacter(std::string_view run, Visitor visit) {
  const char* const end = run.data() + run.size();
  const char* character = run.data();
  for (const char* p = run.data(); p < end;) {
    const FoldedChar next = CharAt(p, end);
    if (next.kind == CharClass::kPaired && p != character) {
      visit(std::string_view(character, static_cast<std::size_t>(p - character)));
      character = p;
    }
    p += next.length;
  }
  visit(std::string_view(character, static_cast<std::size_t>(end - character)));
}

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_WORD_SPLITTER_H_
