#include "core/tokens/bpe_vocabulary.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "fmt/format.h"

namespace memoryd {
namespace {

// A key is read from memory as one number; tokens of equal bytes need equal keys, no more.
static_assert(std::endian::native == std::endian::little, "KeyOf masks the low bytes");

constexpr std::size_t kInlineBytes = 7;
constexpr std::size_t kMaxTokenBytes = 255;

// Up to here scanning for the best pair beats the heap.
constexpr std::size_t kShortPiece = 96;

// What a byte to be merged costs there, against one of a short piece. Measured: some 25 to 50 ns in
// words of 8 to 96 random letters, 60 to 110 ns in words of up to 2 KiB.
constexpr std::size_t kLongPieceCost = 2;

constexpr std::uint64_t kMultiplier = 0x9E3779B97F4A7C15u;

// The first `size` bytes as a number, `size` at most 8.
std::uint64_t LoadBytes(const char* bytes, std::size_t size, const char* readable_end) {
  std::uint64_t value = 0;
  if (readable_end - bytes >= 8) [[likely]] {
    std::memcpy(&value, bytes, 8);
    return size == 8 ? value : value & ((std::uint64_t{1} << (8 * size)) - 1);
  }
  std::memcpy(&value, bytes, size);
  return value;
}

// Of a long piece's bytes. The parts are a doubly linked list threaded through their first bytes'
// positions.
struct Part {
  std::uint32_t previous;
  std::uint32_t next;       // Also this part's end.
  std::uint32_t pair_rank;  // Of this part and the next together; kNoRank once it is merged away.
};

// Pairs that the heap of a long piece has room for. All are good at first; the fourth beyond is for
// those that merging adds and makes stale, which are looked for only when it is full.
std::size_t HeapSize(std::size_t piece) { return piece + piece / 4; }

struct TokenLine {
  std::string bytes;
  std::uint32_t rank;
};

std::optional<TokenLine> ParseLine(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) {
    return std::nullopt;
  }
  TokenLine token;
  const std::string_view rank = line.substr(space + 1);
  const auto [end, error] = std::from_chars(rank.data(), rank.data() + rank.size(), token.rank);
  if (error != std::errc() || end != rank.data() + rank.size() ||
      !absl::Base64Unescape(absl::string_view(line.data(), space), &token.bytes) ||
      token.bytes.empty() || token.bytes.size() > kMaxTokenBytes) {
    return std::nullopt;
  }
  return token;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const BpeVocabulary>> BpeVocabulary::Parse(std::string_view file) {
  std::unique_ptr<BpeVocabulary> vocabulary(new BpeVocabulary());
  std::vector<std::uint32_t> sizes;
  while (!file.empty()) {
    const std::size_t line_end = std::min(file.find('\n'), file.size());
    const std::optional<TokenLine> token = ParseLine(file.substr(0, line_end));
    if (!token.has_value() || token->rank != sizes.size()) {
      return absl::InvalidArgumentError(
          fmt::format("line {}: expected base64 of 1 to {} bytes, a space and the rank {}",
                      sizes.size() + 1, kMaxTokenBytes, sizes.size()));
    }
    vocabulary->arena_ += token->bytes;
    vocabulary->longest_ = std::max(vocabulary->longest_, token->bytes.size());
    sizes.push_back(static_cast<std::uint32_t>(token->bytes.size()));
    file.remove_prefix(std::min(line_end + 1, file.size()));
  }
  if (!vocabulary->BuildTable(sizes)) {
    return absl::InvalidArgumentError("a token is there twice");
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    if (vocabulary->Find(&c, 1, &c + 1) == kNoRank) {
      return absl::InvalidArgumentError(fmt::format("the byte {:#04x} is no token", byte));
    }
  }
  return std::unique_ptr<const BpeVocabulary>(std::move(vocabulary));
}

bool BpeVocabulary::BuildTable(const std::vector<std::uint32_t>& sizes) {
  slots_.resize(std::bit_ceil(std::max<std::size_t>(2 * sizes.size(), 2)));
  slot_shift_ = 64 - std::countr_zero(slots_.size());
  two_byte_ranks_.assign(65536, kNoRank);
  const char* const arena_end = arena_.data() + arena_.size();
  std::size_t offset = 0;
  for (Rank rank = 0; rank < sizes.size(); ++rank) {
    const char* const bytes = arena_.data() + offset;
    if (Find(bytes, sizes[rank], arena_end) != kNoRank) {
      return false;
    }
    const std::uint64_t key = KeyOf(bytes, sizes[rank], arena_end);
    std::size_t slot = HomeSlot(key);
    while (slots_[slot].key != 0) {
      slot = (slot + 1) & (slots_.size() - 1);
    }
    slots_[slot] = {key, rank, static_cast<std::uint32_t>(offset)};
    if (sizes[rank] == 2) {
      two_byte_ranks_[LoadBytes(bytes, 2, arena_end)] = rank;
    }
    offset += sizes[rank];
  }
  return true;
}

inline std::uint64_t BpeVocabulary::KeyOf(const char* bytes, std::size_t size,
                                          const char* readable_end) {
  const std::uint64_t length = std::uint64_t{size} << 56;
  if (size <= kInlineBytes) [[likely]] {
    return length | LoadBytes(bytes, size, readable_end);
  }
  std::uint64_t hash = 0;
  std::size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    hash = (hash ^ LoadBytes(bytes + i, 8, readable_end)) * kMultiplier;
    hash ^= hash >> 32;
  }
  if (i < size) {
    hash = (hash ^ LoadBytes(bytes + i, size - i, readable_end)) * kMultiplier;
    hash ^= hash >> 32;
  }
  return length | (hash >> 8);
}

inline std::size_t BpeVocabulary::HomeSlot(std::uint64_t key) const {
  // The product's high bits depend on every bit of the key once its halves are folded.
  return static_cast<std::size_t>(((key ^ (key >> 29)) * kMultiplier) >> slot_shift_);
}

inline BpeVocabulary::Rank BpeVocabulary::Find(const char* bytes, std::size_t size,
                                               const char* readable_end) const {
  if (size > longest_) {
    return kNoRank;
  }
  const std::uint64_t key = KeyOf(bytes, size, readable_end);
  for (std::size_t slot = HomeSlot(key);; slot = (slot + 1) & (slots_.size() - 1)) {
    const Slot& candidate = slots_[slot];
    if (candidate.key == key &&
        (size <= kInlineBytes || std::memcmp(arena_.data() + candidate.offset, bytes, size) == 0)) {
      return candidate.rank;
    }
    if (candidate.key == 0) {
      return kNoRank;
    }
  }
}

std::int64_t BpeVocabulary::Count(std::string_view piece, const char* readable_end,
                                  std::int64_t& cost) const {
  if (piece.size() == 1 || Find(piece.data(), piece.size(), readable_end) != kNoRank) {
    return 1;
  }
  const bool is_short = piece.size() <= kShortPiece;
  cost -= static_cast<std::int64_t>(is_short ? piece.size() : kLongPieceCost * piece.size());
  if (cost < 0) {
    return 0;
  }
  return is_short ? CountShort(piece, readable_end) : CountLong(piece, readable_end);
}

std::size_t BpeVocabulary::ScratchBytes(std::size_t piece) {
  return piece <= kShortPiece ? 0 : piece * sizeof(Part) + HeapSize(piece) * sizeof(std::uint64_t);
}

std::int64_t BpeVocabulary::CountShort(std::string_view piece, const char* readable_end) const {
  // Part i starts at starts[i] and ends at starts[i + 1]; pair_ranks[i] is the rank of parts i and
  // i + 1 together.
  std::array<std::uint8_t, kShortPiece + 1> starts;
  std::array<Rank, kShortPiece> pair_ranks;
  const char* const bytes = piece.data();
  std::size_t parts = piece.size();
  for (std::size_t i = 0; i <= parts; ++i) {
    starts[i] = static_cast<std::uint8_t>(i);
  }
  for (std::size_t i = 0; i + 1 < parts; ++i) {
    pair_ranks[i] = two_byte_ranks_[static_cast<unsigned char>(bytes[i]) +
                                    256u * static_cast<unsigned char>(bytes[i + 1])];
  }
  const auto pair_rank = [&](std::size_t i) {
    return i + 1 < parts
               ? Find(bytes + starts[i], std::size_t{starts[i + 2]} - starts[i], readable_end)
               : kNoRank;
  };

  while (parts > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < parts; ++i) {
      best = pair_ranks[i] < pair_ranks[best] ? i : best;
    }
    if (pair_ranks[best] == kNoRank) {
      break;
    }
    std::copy(starts.begin() + best + 2, starts.begin() + parts + 1, starts.begin() + best + 1);
    std::copy(pair_ranks.begin() + best + 1, pair_ranks.begin() + parts - 1,
              pair_ranks.begin() + best);
    --parts;
    if (best + 1 < parts) {
      pair_ranks[best] = pair_rank(best);
    }
    if (best > 0) {
      pair_ranks[best - 1] = pair_rank(best - 1);
    }
  }
  return static_cast<std::int64_t>(parts);
}

std::int64_t BpeVocabulary::CountLong(std::string_view piece, const char* readable_end) const {
  const char* const bytes = piece.data();
  const auto size = static_cast<std::uint32_t>(piece.size());
  std::vector<Part> parts(size);

  // Pairs as rank * 2^32 + position, so that the smallest is the next to merge. An entry whose rank
  // is no longer its part's is stale: a part only grows, so a rank never comes back.
  std::vector<std::uint64_t> heap;
  heap.reserve(HeapSize(size));
  for (std::uint32_t i = 0; i < size; ++i) {
    parts[i] = {i - 1, i + 1, kNoRank};
    if (i + 1 < size) {
      parts[i].pair_rank = two_byte_ranks_[static_cast<unsigned char>(bytes[i]) +
                                           256u * static_cast<unsigned char>(bytes[i + 1])];
    }
    if (parts[i].pair_rank != kNoRank) {
      heap.push_back((std::uint64_t{parts[i].pair_rank} << 32) | i);
    }
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());

  const auto drop_stale = [&] {
    std::erase_if(heap, [&parts](std::uint64_t pair) {
      return parts[static_cast<std::uint32_t>(pair)].pair_rank != static_cast<Rank>(pair >> 32);
    });
    std::make_heap(heap.begin(), heap.end(), std::greater<>());
  };
  const auto update_pair = [&](std::uint32_t i) {
    Part& part = parts[i];
    part.pair_rank = kNoRank;
    if (part.next < size) {
      part.pair_rank = Find(bytes + i, parts[part.next].next - i, readable_end);
    }
    if (part.pair_rank != kNoRank) {
      if (heap.size() == heap.capacity()) drop_stale();
      heap.push_back((std::uint64_t{part.pair_rank} << 32) | i);
      std::push_heap(heap.begin(), heap.end(), std::greater<>());
    }
  };

  std::int64_t count = size;
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const auto rank = static_cast<Rank>(heap.back() >> 32);
    const auto i = static_cast<std::uint32_t>(heap.back());
    heap.pop_back();
    if (parts[i].pair_rank != rank) {
      continue;
    }
    const std::uint32_t merged = parts[i].next;
    parts[merged].pair_rank = kNoRank;
    parts[i].next = parts[merged].next;
    if (parts[i].next < size) {
      parts[parts[i].next].previous = i;
    }
    --count;
    update_pair(i);
    if (i > 0) {
      update_pair(parts[i].previous);
    }
  }
  return count;
}

}  // namespace memoryd
