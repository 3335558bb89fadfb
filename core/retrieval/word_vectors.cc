#include "core/retrieval/word_vectors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utf8proc.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/base/utf8_decode.h"
#include "core/retrieval/subword_tokenizer.h"

namespace memoryd {
namespace {

static_assert(std::endian::native == std::endian::little, "as the table is");

// Written so that the compiler makes it several numbers at a time: the exponent is put right by a
// multiplication, which does for denormal numbers as well. The table has no infinities.
float FromHalf(std::uint16_t half) {
  const float magnitude =
      std::bit_cast<float>(static_cast<std::uint32_t>(half & 0x7FFF) << 13) * 0x1p112F;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) |
                              static_cast<std::uint32_t>(half & 0x8000) << 16);
}

void PlainAdd(const std::uint16_t* row, float weight, WordVectors::Vector& sum) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weight * FromHalf(row[i]);
}

void PlainDot(const std::uint16_t* row, std::span<const WordVectors::Vector> vectors,
              float* products) {
  WordVectors::Vector wide;
  for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = FromHalf(row[i]);
  for (const WordVectors::Vector& vector : vectors) {
    // Sums apart from each other, so that they can be made at a time.
    std::array<float, 16> sums = {};
    for (std::size_t i = 0; i < vector.size(); i += sums.size()) {
      for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += wide[i + j] * vector[i + j];
    }
    *products = 0;
    for (const float part : sums) *products += part;
    ++products;
  }
}

#ifdef __x86_64__
// The eight numbers at `row`.
__attribute__((target("avx2,f16c,fma"))) inline __m256 Eight(const std::uint16_t* row) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row)));
}

__attribute__((target("avx2,f16c,fma"))) inline float SumOf(__m256 numbers) {
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(numbers), _mm256_extractf128_ps(numbers, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_shuffle_ps(four, four, 1)));
}

__attribute__((target("avx2,f16c,fma"))) void Avx2Add(const std::uint16_t* row, float weight,
                                                      WordVectors::Vector& sum) {
  const __m256 weights = _mm256_set1_ps(weight);
  for (std::size_t i = 0; i < sum.size(); i += 8) {
    const __m256 added = _mm256_fmadd_ps(weights, Eight(row + i), _mm256_loadu_ps(&sum[i]));
    _mm256_storeu_ps(&sum[i], added);
  }
}

__attribute__((target("avx2,f16c,fma"))) void Avx2Dot(const std::uint16_t* row,
                                                      std::span<const WordVectors::Vector> vectors,
                                                      float* products) {
  WordVectors::Vector wide;
  for (std::size_t i = 0; i < wide.size(); i += 8) _mm256_storeu_ps(&wide[i], Eight(row + i));
  for (const WordVectors::Vector& vector : vectors) {
    __m256 sums = _mm256_setzero_ps();
    __m256 others = _mm256_setzero_ps();
    for (std::size_t i = 0; i < vector.size(); i += 16) {
      sums = _mm256_fmadd_ps(_mm256_loadu_ps(&wide[i]), _mm256_loadu_ps(&vector[i]), sums);
      others =
          _mm256_fmadd_ps(_mm256_loadu_ps(&wide[i + 8]), _mm256_loadu_ps(&vector[i + 8]), others);
    }
    *products++ = SumOf(_mm256_add_ps(sums, others));
  }
}

// Of the compiler's own kind, since GCC 12 warns of its own header for AVX-512.
struct Sixteen {
  float numbers __attribute__((vector_size(64)));
};

__attribute__((target("avx512f,avx2,f16c,fma"))) inline Sixteen Load(const float* numbers) {
  Sixteen sixteen;
  std::memcpy(&sixteen.numbers, numbers, sizeof sixteen.numbers);
  return sixteen;
}

// The whole row stays in registers.
__attribute__((target("avx512f,avx2,f16c,fma"))) void Avx512Dot(
    const std::uint16_t* row, std::span<const WordVectors::Vector> vectors, float* products) {
  WordVectors::Vector numbers;
  for (std::size_t i = 0; i < numbers.size(); i += 8) _mm256_storeu_ps(&numbers[i], Eight(row + i));
  std::array<Sixteen, std::tuple_size_v<WordVectors::Vector> / 16> wide;
#pragma GCC unroll 16
  for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = Load(&numbers[16 * i]);
  for (const WordVectors::Vector& vector : vectors) {
    // Sums apart from each other, so that they can be made at a time.
    std::array<Sixteen, 4> sums = {};
#pragma GCC unroll 16
    for (std::size_t i = 0; i < wide.size(); ++i) {
      sums[i % sums.size()].numbers += wide[i].numbers * Load(&vector[16 * i]).numbers;
    }
    const Sixteen sum = {sums[0].numbers + sums[1].numbers + (sums[2].numbers + sums[3].numbers)};
    std::array<float, 16> parts;
    std::memcpy(parts.data(), &sum.numbers, sizeof sum.numbers);
    *products++ =
        SumOf(_mm256_add_ps(_mm256_loadu_ps(parts.data()), _mm256_loadu_ps(parts.data() + 8)));
  }
}
#endif

struct RowMath {
  void (*add)(const std::uint16_t* row, float weight, WordVectors::Vector& sum);
  void (*dot)(const std::uint16_t* row, std::span<const WordVectors::Vector> vectors,
              float* products);
};

RowMath FastestRowMath() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) return {&Avx2Add, &Avx512Dot};
  // Every processor with AVX2 has F16C.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {&Avx2Add, &Avx2Dot};
#endif
  return {&PlainAdd, &PlainDot};
}

const RowMath& Math() {
  static const RowMath math = FastestRowMath();
  return math;
}

std::string Lower(std::string_view text) {
  std::string lower;
  lower.reserve(text.size());
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p < end) {
    if (static_cast<unsigned char>(*p) < 0x80) {
      lower.push_back(*p >= 'A' && *p <= 'Z' ? static_cast<char>(*p - 'A' + 'a') : *p);
      ++p;
      continue;
    }
    const DecodedUtf8 decoded = DecodeUtf8(p, end);
    if (decoded.length == 0) {
      lower.push_back(*p++);
      continue;
    }
    std::array<utf8proc_uint8_t, 4> bytes;
    const auto length = utf8proc_encode_char(
        utf8proc_tolower(static_cast<utf8proc_int32_t>(decoded.code_point)), bytes.data());
    lower.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(length));
    p += decoded.length;
  }
  return lower;
}

absl::Status NotATable(const std::string& file, std::string_view what) {
  return absl::InvalidArgumentError(file + ": " + std::string(what));
}

// Where the table begins in a safetensors file: its header's size in 8 bytes, the header as JSON,
// the numbers.
absl::StatusOr<std::size_t> TableOffset(const std::string& file, std::string_view bytes,
                                        std::size_t rows) {
  std::uint64_t header_bytes = 0;
  if (bytes.size() < sizeof header_bytes) return NotATable(file, "too short");
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  if (header_bytes > bytes.size() - sizeof header_bytes) return NotATable(file, "too short");
  const auto header = nlohmann::json::parse(bytes.substr(sizeof header_bytes, header_bytes),
                                            nullptr, /*allow_exceptions=*/false);
  const std::size_t begin = sizeof header_bytes + header_bytes;
  const std::size_t size = rows * WordVectors::kDimensions * sizeof(std::uint16_t);
  nlohmann::json expected;
  expected["embedding.weight"] = {
      {"dtype", "F16"}, {"shape", {rows, WordVectors::kDimensions}}, {"data_offsets", {0, size}}};
  if (header != expected || bytes.size() != begin + size || begin % sizeof(std::uint16_t) != 0) {
    return NotATable(file, "not one table of 256 numbers of 16 bits for each token");
  }
  return begin;
}

}  // namespace

WordVectors::~WordVectors() {
  if (map_ != nullptr) munmap(map_, map_bytes_);
}

std::string WordVectors::TokenizerFile(const std::string& table_file) {
  return std::filesystem::path(table_file).replace_extension(".tokenizer.json").string();
}

absl::StatusOr<std::shared_ptr<const WordVectors>> WordVectors::Load(
    const std::string& table_file) {
  const std::string tokenizer_file = TokenizerFile(table_file);
  for (const std::string& file : {tokenizer_file, table_file}) {
    // To open a FIFO would wait for ever.
    std::error_code error;
    if (std::filesystem::exists(file, error) && !std::filesystem::is_regular_file(file, error)) {
      return NotATable(file, "is not a regular file");
    }
  }
  std::ifstream stream(tokenizer_file, std::ios::binary);
  if (!stream) return absl::NotFoundError("there is no " + tokenizer_file);
  const std::string json((std::istreambuf_iterator<char>(stream)),
                         std::istreambuf_iterator<char>());
  auto vectors = std::shared_ptr<WordVectors>(new WordVectors());
  absl::StatusOr<std::unique_ptr<const SubwordTokenizer>> tokenizer = SubwordTokenizer::Parse(json);
  if (!tokenizer.ok()) {
    return NotATable(tokenizer_file, std::string(tokenizer.status().message()));
  }
  vectors->tokenizer_ = *std::move(tokenizer);

  const int descriptor = open(table_file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return absl::NotFoundError("there is no " + table_file);
  struct stat status = {};
  if (fstat(descriptor, &status) == 0 && status.st_size > 0) {
    void* const map = mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_SHARED,
                           descriptor, 0);
    if (map != MAP_FAILED) {
      vectors->map_ = map;
      vectors->map_bytes_ = static_cast<std::size_t>(status.st_size);
    }
  }
  const int map_error = errno;
  close(descriptor);
  if (vectors->map_ == nullptr) {
    return NotATable(table_file, std::system_category().message(map_error));
  }
  const std::string_view bytes(static_cast<const char*>(vectors->map_), vectors->map_bytes_);
  MEMORYD_ASSIGN_OR_RETURN(const std::size_t offset,
                           TableOffset(table_file, bytes, vectors->token_count()));
  vectors->rows_ = reinterpret_cast<const std::uint16_t*>(bytes.data() + offset);
  return vectors;
}

std::vector<WordVectors::Token> WordVectors::Tokens(std::string_view text) const {
  std::vector<Token> tokens;
  tokenizer_->Tokenize(Lower(text), tokens);
  return tokens;
}

void WordVectors::Add(Token token, float weight, Vector& sum) const {
  Math().add(Row(token), weight, sum);
}

void WordVectors::Dot(Token token, std::span<const Vector> vectors, float* products) const {
  Math().dot(Row(token), vectors, products);
}

void Normalize(std::span<float> vector) {
  float square = 0;
  for (const float number : vector) square += number * number;
  if (square == 0) return;
  const float scale = 1 / std::sqrt(square);
  for (float& number : vector) number *= scale;
}

}  // namespace memoryd
