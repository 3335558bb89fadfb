#include "core/retrieval/terms.h"

#include <cstddef>
#include <string>
#include <string_view>

#include "core/model/language.h"
#include "core/retrieval/folding.h"
#include "core/retrieval/languages.h"
#include "core/retrieval/stemmers.h"
#include "core/retrieval/word_splitter.h"

namespace memoryd {
namespace {

// Visits the terms of a text.
class TextTerms {
 public:
  TextTerms(Language language, TermVisitor visit) : language_(language), visit_(visit) {}

  void Word(std::string_view word) {
    if (language_ == Language::kEnglish) {
      EnglishWord(CutTerm(word));
      return;
    }
    word = CutWord(word);
    const std::string plain = Plain(word, language_);
    if (plain.empty()) return;  // Accents alone.
    if (IsFunctionWord(CutTerm(plain), language_)) {
      StopWord(CutTerm(plain));
      return;
    }
    const std::string term = stemmers_.TermOf(word, language_);
    visit_(term, TermKind::kWord, word);
    ForEachPart({word, plain, term}, language_,
                [this](const std::string& part, double) { visit_(part, TermKind::kPart, {}); });
  }

  void Run(std::string_view run) {
    std::string_view before;
    ForEachCharacter(run, [&](std::string_view character) {
      if (!before.empty()) {
        visit_(CutTerm(before), TermKind::kCharacter, {});
        visit_(CutTerm({before.data(), before.size() + character.size()}), TermKind::kWord, {});
      }
      before = character;
    });
    const bool alone = before.size() == run.size();
    visit_(CutTerm(before), alone ? TermKind::kWord : TermKind::kCharacter, {});
  }

 private:
  void EnglishWord(std::string_view word) {
    if (!IsAscii(word)) {
      visit_(word, TermKind::kWord, word);
    } else if (IsFunctionWord(word, Language::kEnglish)) {
      StopWord(word);
    } else {
      visit_(stemmers_.Stem(word, Language::kEnglish), TermKind::kWord, word);
    }
  }

  void StopWord(std::string_view word) {
    stop_word_.assign("'").append(word);
    visit_(stop_word_, TermKind::kStopWord, {});
  }

  const Language language_;
  const TermVisitor visit_;
  Stemmers stemmers_;
  std::string stop_word_;
};

}  // namespace

void ForEachTerm(const FoldedText& text, Language language, TermVisitor visit) {
  TextTerms terms(language, visit);
  if (language == Language::kEnglish) {
    SplitWords(text.folded, language, terms);
  } else {
    SplitWords(FoldFor(text.text, language), language, terms);
  }
}

std::string NameWord(std::string_view word) {
  std::string name = Fold(word);
  const char* const begin = name.data();
  const char* const end = begin + name.size();
  // Behind the last letter or digit, and behind the last one before an "'s" that ends the word.
  const char* last = begin;
  const char* before_ending = begin;
  for (const char* p = begin; p < end;) {
    const FoldedChar next = CharAt(p, end);
    if (*p == '\'') before_ending = p;
    p += next.length;
    if (next.kind != CharClass::kSeparator) last = p;
  }
  if (last - before_ending == 2 && before_ending[1] == 's') last = before_ending;
  name.resize(static_cast<std::size_t>(last - begin));
  return name;
}

bool IsUnspaced(std::string_view word) {
  std::size_t characters = 0;
  for (const char *p = word.data(), *end = p + word.size(); p < end;) {
    const FoldedChar next = CharAt(p, end);
    if (next.kind == CharClass::kPaired) {
      ++characters;
    } else if (next.kind != CharClass::kPairedMark) {
      return false;
    }
    p += next.length;
  }
  return characters >= 2;
}

}  // namespace memoryd
