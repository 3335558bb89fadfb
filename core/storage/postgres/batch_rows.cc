#include "core/storage/postgres/batch_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace memoryd {
namespace {

template <std::unsigned_integral Number>
std::array<char, sizeof(Number)> BigEndian(Number number) {
  std::array<char, sizeof(Number)> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] =
        static_cast<char>(static_cast<unsigned char>(number >> (8 * (bytes.size() - 1 - i))));
  }
  return bytes;
}

template <std::unsigned_integral Number>
void AppendBigEndian(std::string& bytes, Number number) {
  const auto big_endian = BigEndian(number);
  bytes.append(big_endian.data(), big_endian.size());
}

// Of the number of elements, in the header of an array.
constexpr std::size_t kSizeOffset = 12;

// Of an array of at least one element, which may be NULL.
std::string ArrayHeader(ParameterType element, std::size_t size) {
  std::string header;
  AppendBigEndian(header, std::uint32_t{1});  // Dimensions.
  AppendBigEndian(header, std::uint32_t{1});  // May hold NULLs.
  AppendBigEndian(header, static_cast<std::uint32_t>(element));
  AppendBigEndian(header, static_cast<std::uint32_t>(size));
  AppendBigEndian(header, std::uint32_t{1});  // Lower bound.
  return header;
}

std::string EmptyArray(ParameterType element) {
  std::string header;
  AppendBigEndian(header, std::uint32_t{0});  // Dimensions.
  AppendBigEndian(header, std::uint32_t{1});
  AppendBigEndian(header, static_cast<std::uint32_t>(element));
  return header;
}

void AppendElement(std::string& array, std::string_view bytes) {
  AppendBigEndian(array, static_cast<std::uint32_t>(bytes.size()));
  array += bytes;
}

constexpr unsigned Oid(ParameterType type) { return static_cast<unsigned>(type); }

// Of what the arrays of a column have.
constexpr ParameterType ElementOf(ParameterType column) {
  return column == ParameterType::kInt8Array ? ParameterType::kText : column;
}

constexpr unsigned OidOfArray(ParameterType element) {
  switch (element) {
    case ParameterType::kBool:
      return 1000;
    case ParameterType::kBytea:
      return 1001;
    case ParameterType::kInt2:
      return 1005;
    case ParameterType::kText:
      return 1009;
    default:
      return Oid(ParameterType::kInt8Array);
  }
}

}  // namespace

void RowWriter::Text(std::string_view column, const std::string& text) {
  AddKept(column, ParameterType::kText, text);
}

void RowWriter::Bytes(std::string_view column, std::string_view bytes) {
  // libpq takes a null pointer for NULL, and an empty view may have one.
  AddKept(column, ParameterType::kBytea, bytes.empty() ? std::string_view("") : bytes);
}

void RowWriter::MadeBytes(std::string_view column, std::string bytes) {
  AddMade(column, ParameterType::kBytea, std::move(bytes));
}

void RowWriter::Int8(std::string_view column, std::int64_t number) {
  Bits(column, static_cast<std::uint64_t>(number));
}

void RowWriter::Bits(std::string_view column, std::uint64_t bits) {
  const auto bytes = BigEndian(bits);
  AddSmall(column, ParameterType::kInt8, {bytes.data(), bytes.size()});
}

void RowWriter::Int2(std::string_view column, std::int16_t number) {
  const auto bytes = BigEndian(static_cast<std::uint16_t>(number));
  AddSmall(column, ParameterType::kInt2, {bytes.data(), bytes.size()});
}

void RowWriter::Bool(std::string_view column, bool value) {
  const char byte = value ? 1 : 0;
  AddSmall(column, ParameterType::kBool, {&byte, 1});
}

void RowWriter::Int8Array(std::string_view column, const std::vector<std::int64_t>& numbers) {
  std::string array = numbers.empty() ? EmptyArray(ParameterType::kInt8)
                                      : ArrayHeader(ParameterType::kInt8, numbers.size());
  for (const std::int64_t number : numbers) {
    const auto bytes = BigEndian(static_cast<std::uint64_t>(number));
    AppendElement(array, {bytes.data(), bytes.size()});
  }
  AddMade(column, ParameterType::kInt8Array, std::move(array));
}

void BatchParameters::Reserve(std::size_t count) {
  values_.reserve(count);
  lengths_.reserve(count);
  types_.reserve(count);
}

void BatchParameters::AddKept(unsigned type, std::string_view bytes) {
  values_.push_back(bytes.data());
  lengths_.push_back(static_cast<int>(bytes.size()));
  types_.push_back(type);
}

void BatchParameters::AddMade(unsigned type, std::string bytes) {
  AddKept(type, made_.emplace_back(std::move(bytes)));
}

void BatchParameters::AddSmall(unsigned type, std::string_view bytes) {
  std::array<char, 8>& kept = small_.emplace_back();
  std::copy(bytes.begin(), bytes.end(), kept.begin());
  AddKept(type, {kept.data(), bytes.size()});
}

void BatchParameters::AddNull(unsigned type) { AddKept(type, {}); }

void ListWriter::AddKept(std::string_view, ParameterType type, std::string_view bytes) {
  ++values_;
  parameters_.AddKept(Oid(type), bytes);
}

void ListWriter::AddMade(std::string_view, ParameterType type, std::string bytes) {
  ++values_;
  parameters_.AddMade(Oid(type), std::move(bytes));
}

void ListWriter::AddSmall(std::string_view, ParameterType type, std::string_view bytes) {
  ++values_;
  parameters_.AddSmall(Oid(type), bytes);
}

void ListWriter::AddNull(std::string_view) {
  parameters_.AddNull(Oid(columns_[values_ % columns_.size()].type));
  ++values_;
}

void ArrayWriter::Int8Array(std::string_view column, const std::vector<std::int64_t>& numbers) {
  AddMade(column, ParameterType::kText, fmt::format("{{{}}}", fmt::join(numbers, ",")));
}

void ArrayWriter::AddTo(BatchParameters& parameters, bool even_empty) {
  if (values_ == 0 && !even_empty) return;
  const auto size = BigEndian(static_cast<std::uint32_t>(rows()));
  for (std::size_t column = 0; column < columns_.size(); ++column) {
    const ParameterType element = ElementOf(columns_[column].type);
    std::string& array = arrays_[column];
    if (values_ == 0) {
      array = EmptyArray(element);
    } else {
      std::copy(size.begin(), size.end(), array.begin() + kSizeOffset);
    }
    parameters.AddMade(OidOfArray(element), std::move(array));
  }
}

std::string& ArrayWriter::NextArray() {
  const std::size_t column = values_++ % columns_.size();
  std::string& array = arrays_[column];
  if (array.empty()) array = ArrayHeader(ElementOf(columns_[column].type), 0);
  return array;
}

void ArrayWriter::AddKept(std::string_view, ParameterType, std::string_view bytes) {
  AppendElement(NextArray(), bytes);
}

void ArrayWriter::AddMade(std::string_view column, ParameterType type, std::string bytes) {
  AddKept(column, type, bytes);
}

void ArrayWriter::AddSmall(std::string_view column, ParameterType type, std::string_view bytes) {
  AddKept(column, type, bytes);
}

void ArrayWriter::AddNull(std::string_view) { AppendBigEndian(NextArray(), ~std::uint32_t{0}); }

}  // namespace memoryd
