#include "core/tokens/pretokenizer.h"

#include "core/tokens/code_point_class.h"

namespace memoryd {
namespace {

using Char = CodePointTable::Char;

bool IsNewline(char c) { return c == '\r' || c == '\n'; }

bool Is(CodePointClass kind, CodePointClasses classes) { return (kind & classes) != 0; }

bool StartsWith(const char* p, const char* end, CodePointClasses classes,
                const CodePointTable& table) {
  return p < end && Is(table.At(p, end).kind, classes);
}

// The end of '(?i:[sdmt]|ll|ve|re) at `p`, or `p` when it is not there.
const char* SkipContraction(const char* p, const char* end) {
  if (end - p < 2 || *p != '\'') {
    return p;
  }
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c + 0; };
  const int first = lower(p[1]);
  if (first == 's' || first == 'd' || first == 'm' || first == 't') {
    return p + 2;
  }
  if (end - p < 3) {
    return p;
  }
  const int second = lower(p[2]);
  if ((first == 'l' && second == 'l') || ((first == 'v' || first == 'r') && second == 'e')) {
    return p + 3;
  }
  // U+017F, the long s: the only other letter whose case folds to one of these.
  return p[1] == '\xC5' && p[2] == '\xBF' ? p + 3 : p;
}

// \p{N}{1,3}, where the first number is known to be there.
const char* SkipNumbers(const CodePointTable& table, const char* p, const char* end) {
  for (int count = 0; count < 3 && StartsWith(p, end, kNumber, table); ++count) {
    p += table.At(p, end).length;
  }
  return p;
}

// A run of white space and the places in it that the patterns cut at.
struct SpaceRun {
  const char* end;
  const char* last;           // The start of the last character.
  const char* after_newline;  // Behind the last CR or LF; null when there is none.
};

SpaceRun FindSpaceRun(const CodePointTable& table, const char* p, const char* end) {
  SpaceRun run{p, p, nullptr};
  while (run.end < end) {
    const Char next = table.At(run.end, end);
    if (!Is(next.kind, kSpace)) {
      break;
    }
    run.last = run.end;
    run.end += next.length;
    if (IsNewline(*run.last)) {
      run.after_newline = run.end;
    }
  }
  return run;
}

// \s+(?!\S)|\s+ on a run that starts at `p`: all of it at the end of the text, else all but the
// last character, which belongs to what follows, unless it is the only one.
const char* CutSpaceRun(const SpaceRun& run, const char* p, const char* end) {
  return run.end == end || run.last == p ? run.end : run.last;
}

// A word of o200k without the character before it.
struct CasedWord {
  const char* end;
  // Whether [U]*[L]+ matched; if not, [U]+[L]* does up to `end`, unless `end` is the start.
  bool has_lower;
};

// Matches [U]*[L]+, else [U]+[L]*, with U = Lu Lt Lm Lo M and L = Ll Lm Lo M.
CasedWord FindCasedWord(const CodePointTable& table, const char* p, const char* end) {
  // U* is greedy and gives back until L+ finds its first character, so when no Ll follows, the
  // match ends behind the last character that is in both sets.
  const char* after_both = nullptr;
  const char* q = p;
  while (q < end) {
    const Char next = table.At(q, end);
    if (Is(next.kind, kLower)) {
      return {table.SkipAll(q, end, kLower | kUncased | kMark), true};
    }
    if (!Is(next.kind, kUpper | kUncased | kMark)) {
      break;
    }
    q += next.length;
    if (!Is(next.kind, kUpper)) {
      after_both = q;
    }
  }
  return after_both != nullptr ? CasedWord{after_both, true} : CasedWord{q, false};
}

}  // namespace

// '(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|
// \s++$|\s*[\r\n]|\s+(?!\S)|\s
const char* Cl100kPieceEnd(const CodePointTable& table, const char* p, const char* end) {
  const char* const contraction = SkipContraction(p, end);
  if (contraction != p) {
    return contraction;
  }
  const Char first = table.At(p, end);
  const char* const second = p + first.length;
  if (Is(first.kind, kLetter)) {
    return table.SkipAll(second, end, kLetter);
  }
  if (Is(first.kind, kNumber)) {
    return SkipNumbers(table, p, end);
  }
  if (!IsNewline(*p) && StartsWith(second, end, kLetter, table)) {
    return table.SkipAll(second, end, kLetter);
  }
  constexpr CodePointClasses kSymbol = kOther | kMark;
  if (Is(first.kind, kSymbol) || (*p == ' ' && StartsWith(second, end, kSymbol, table))) {
    const char* q = table.SkipAll(second, end, kSymbol);
    while (q < end && IsNewline(*q)) {
      ++q;
    }
    return q;
  }
  const SpaceRun run = FindSpaceRun(table, p, end);
  if (run.end != end && run.after_newline != nullptr) {
    return run.after_newline;
  }
  return CutSpaceRun(run, p, end);
}

// [^\r\n\p{L}\p{N}]?[U]*[L]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
// [^\r\n\p{L}\p{N}]?[U]+[L]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
// \p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
const char* O200kPieceEnd(const CodePointTable& table, const char* p, const char* end) {
  const Char first = table.At(p, end);
  const char* const second = p + first.length;
  if (Is(first.kind, kLetter)) {
    return SkipContraction(FindCasedWord(table, p, end).end, end);
  }
  if (Is(first.kind, kNumber)) {
    return SkipNumbers(table, p, end);
  }
  if (!IsNewline(*p)) {
    const CasedWord word = FindCasedWord(table, second, end);
    if (word.has_lower) {
      return SkipContraction(word.end, end);
    }
    // A mark may stand before a word or be one. The first pattern tries both before the second
    // pattern is tried at all.
    if (Is(first.kind, kMark)) {
      return SkipContraction(second, end);
    }
    if (word.end != second) {
      return SkipContraction(word.end, end);
    }
  }
  constexpr CodePointClasses kSymbol = kOther | kMark;
  if (Is(first.kind, kSymbol) || (*p == ' ' && StartsWith(second, end, kSymbol, table))) {
    const char* q = table.SkipAll(second, end, kSymbol);
    while (q < end && (IsNewline(*q) || *q == '/')) {
      ++q;
    }
    return q;
  }
  const SpaceRun run = FindSpaceRun(table, p, end);
  return run.after_newline != nullptr ? run.after_newline : CutSpaceRun(run, p, end);
}

}  // namespace memoryd
