#include "core/retrieval/subword_tokenizer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <queue>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/base/utf8_decode.h"

namespace memoryd {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581.
// Of the tokens for single bytes, after the three special ones.
constexpr SubwordTokenizer::Token kFirstByte = 3;
constexpr std::size_t kMaxTokens = 65'536;

absl::Status Unreadable(std::string_view what) {
  return absl::InvalidArgumentError("not a byte-pair tokenizer: " + std::string(what));
}

// Null where there is none.
const nlohmann::json& Member(const nlohmann::json& object, std::string_view name) {
  static const nlohmann::json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

// A merge is "left right", or a list of both.
bool ReadMerge(const nlohmann::json& merge, std::string& left, std::string& right) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    left = merge[0].get<std::string>();
    right = merge[1].get<std::string>();
    return true;
  }
  if (!merge.is_string()) return false;
  const auto& text = merge.get_ref<const std::string&>();
  const std::size_t space = text.find(' ', 1);
  if (space == std::string::npos) return false;
  left = text.substr(0, space);
  right = text.substr(space + 1);
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const SubwordTokenizer>> SubwordTokenizer::Parse(
    std::string_view json) {
  const nlohmann::json root = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  // References: a copy of the vocabulary is some ten times its file.
  const nlohmann::json& model = Member(root, "model");
  if (Member(model, "type") != "BPE" || Member(model, "byte_fallback") != true) {
    return Unreadable("no model `BPE` with `byte_fallback`");
  }
  const nlohmann::json& vocabulary = Member(model, "vocab");
  const nlohmann::json& merges = Member(model, "merges");
  if (!vocabulary.is_object() || !merges.is_array()) return Unreadable("no `vocab` or `merges`");
  if (vocabulary.size() > kMaxTokens) return Unreadable("more than 65,536 tokens");

  auto tokenizer = std::unique_ptr<SubwordTokenizer>(new SubwordTokenizer());
  tokenizer->size_ = vocabulary.size();
  for (const auto& [text, number] : vocabulary.items()) {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() >= vocabulary.size()) {
      return Unreadable("tokens are not numbered from 0 on");
    }
    tokenizer->tokens_.emplace(text, number.get<Token>());
  }
  MEMORYD_RETURN_IF_ERROR(tokenizer->CheckBytes());
  std::string left, right;
  std::uint32_t rank = 0;
  for (const nlohmann::json& merge : merges) {
    if (!ReadMerge(merge, left, right)) return Unreadable("a merge is not of two tokens");
    MEMORYD_RETURN_IF_ERROR(tokenizer->AddMerge(rank++, left, right));
  }
  tokenizer->FindWholePieces();
  return tokenizer;
}

absl::Status SubwordTokenizer::CheckBytes() const {
  for (unsigned byte = 0; byte < 256; ++byte) {
    constexpr std::string_view kHex = "0123456789ABCDEF";
    const std::string name = {'<', '0', 'x', kHex[byte >> 4], kHex[byte & 15], '>'};
    const auto found = tokens_.find(name);
    if (found == tokens_.end() || found->second != kFirstByte + byte) {
      return Unreadable("the tokens of bytes are not 3 to 258");
    }
  }
  return absl::OkStatus();
}

absl::Status SubwordTokenizer::AddMerge(std::uint32_t rank, const std::string& left,
                                        const std::string& right) {
  // No merge joins the end of a word to a space, so words can be cut apart before.
  if (right.starts_with(kSpace) && !left.ends_with(kSpace)) {
    return Unreadable("a merge crosses the beginning of a word");
  }
  const auto a = tokens_.find(left);
  const auto b = tokens_.find(right);
  const auto merged = tokens_.find(left + right);
  if (a == tokens_.end() || b == tokens_.end() || merged == tokens_.end()) {
    return Unreadable("a merge is of what is no token");
  }
  merges_.emplace(std::uint32_t{a->second} << 16 | b->second, Merge{rank, merged->second});
  return absl::OkStatus();
}

void SubwordTokenizer::FindWholePieces() {
  std::vector<Token> tokens;
  for (const auto& [text, token] : tokens_) {
    if (!text.starts_with(kSpace) || text.ends_with(kSpace)) continue;
    tokens.clear();
    TokenizePiece(text, tokens);
    if (tokens.size() == 1) whole_pieces_.emplace(text, tokens.front());
  }
}

void SubwordTokenizer::Tokenize(std::string_view text, std::vector<Token>& tokens) const {
  if (text.empty()) return;
  std::string piece(kSpace);
  std::size_t i = 0;
  while (i < text.size() || !piece.empty()) {
    // U+2581 itself is a space, too.
    const auto space_at = [text](std::size_t place) -> std::size_t {
      if (text[place] == ' ') return 1;
      return text.compare(place, kSpace.size(), kSpace) == 0 ? kSpace.size() : 0;
    };
    for (std::size_t size = 0; i < text.size() && (size = space_at(i)) > 0; i += size) {
      piece += kSpace;
    }
    std::size_t end = i;
    while (end < text.size() && space_at(end) == 0) ++end;
    piece.append(text, i, end - i);
    i = end;
    if (const auto whole = whole_pieces_.find(piece); whole != whole_pieces_.end()) {
      tokens.push_back(whole->second);
    } else {
      TokenizePiece(piece, tokens);
    }
    piece.clear();
  }
}

const SubwordTokenizer::Merge* SubwordTokenizer::FindMerge(Token left, Token right) const {
  const auto found = merges_.find(std::uint32_t{left} << 16 | right);
  return found == merges_.end() ? nullptr : &found->second;
}

void SubwordTokenizer::TokenizePiece(std::string_view piece, std::vector<Token>& tokens) const {
  constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Symbol {
    std::uint32_t before;
    std::uint32_t next;
    Token token;
    bool gone;  // Part of the one before it.
  };
  std::vector<Symbol> symbols;
  const auto append = [&symbols](Token token) {
    const auto place = static_cast<std::uint32_t>(symbols.size());
    symbols.push_back({place == 0 ? kNone : place - 1, place + 1, token, false});
  };
  const char* const end = piece.data() + piece.size();
  for (const char* p = piece.data(); p < end;) {
    const std::size_t length = std::max<std::size_t>(DecodeUtf8(p, end).length, 1);
    if (const auto found = tokens_.find(std::string_view(p, length)); found != tokens_.end()) {
      append(found->second);
    } else {
      for (std::size_t i = 0; i < length; ++i) {
        append(static_cast<Token>(kFirstByte + static_cast<unsigned char>(p[i])));
      }
    }
    p += length;
  }
  if (symbols.empty()) return;
  symbols.back().next = kNone;

  struct Candidate {
    std::uint32_t rank;
    std::uint32_t place;
    Token left, right, merged;
    bool operator>(const Candidate& other) const {
      return std::tie(rank, place) > std::tie(other.rank, other.place);
    }
  };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  const auto offer = [&](std::uint32_t place) {
    const std::uint32_t next = symbols[place].next;
    if (next == kNone) return;
    const Token left = symbols[place].token;
    const Token right = symbols[next].token;
    if (const Merge* merge = FindMerge(left, right); merge != nullptr) {
      candidates.push({merge->rank, place, left, right, merge->merged});
    }
  };
  for (std::uint32_t place = 0; place < symbols.size(); ++place) offer(place);
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    Symbol& left = symbols[best.place];
    // What it was offered for may have been merged since.
    if (left.gone || left.token != best.left || left.next == kNone ||
        symbols[left.next].token != best.right) {
      continue;
    }
    Symbol& right = symbols[left.next];
    left.token = best.merged;
    left.next = right.next;
    right.gone = true;
    if (left.next != kNone) symbols[left.next].before = best.place;
    offer(best.place);
    if (left.before != kNone) offer(left.before);
  }
  for (std::uint32_t place = 0; place != kNone; place = symbols[place].next) {
    tokens.push_back(symbols[place].token);
  }
}

}  // namespace memoryd
