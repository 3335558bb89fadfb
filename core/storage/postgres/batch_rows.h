// The rows of a batch and the parameters that they become.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_BATCH_ROWS_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_BATCH_ROWS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace memoryd {

// OIDs of PostgreSQL's built-in types; they are part of its protocol and never change.
enum class ParameterType : unsigned {
  kNone = 0,  // Of a column that no parameter is sent for.
  kBool = 16,
  kBytea = 17,
  kInt8 = 20,
  kInt2 = 21,
  kText = 25,
  kInt8Array = 1016,
};

struct BatchColumn {
  std::string_view name;
  // Columns that are kNone stand behind all others.
  ParameterType type;
  // A key says which row it is, and never changes.
  bool is_key = false;
  // What is made of the parameter, which is `{}`.
  std::string_view value = "{}";
  // What a stored row, `stored`, gets in place of its own value; `{}` is the new one.
  std::string_view set = "{}";
};

// Takes the values of rows, column by column, each with the name of its column.
//
// For one thread. Nothing reads the names but batch_statement_test.cc, which compares them with
// the clause's columns.
class RowWriter {
 public:
  RowWriter() = default;
  RowWriter(const RowWriter&) = delete;
  RowWriter& operator=(const RowWriter&) = delete;
  virtual ~RowWriter() = default;

  // `text` and `bytes` live at least as long as the statement.
  void Text(std::string_view column, const std::string& text);
  void Bytes(std::string_view column, std::string_view bytes);
  void MadeBytes(std::string_view column, std::string bytes);
  void Int8(std::string_view column, std::int64_t number);
  // The same bits as an Int8.
  void Bits(std::string_view column, std::uint64_t bits);
  void Int2(std::string_view column, std::int16_t number);
  void Bool(std::string_view column, bool value);
  virtual void Int8Array(std::string_view column, const std::vector<std::int64_t>& numbers);
  void Null(std::string_view column) { AddNull(column); }

 private:
  // `bytes` are in PostgreSQL's binary format.
  virtual void AddKept(std::string_view column, ParameterType type, std::string_view bytes) = 0;
  virtual void AddMade(std::string_view column, ParameterType type, std::string bytes) = 0;
  // At most 8 bytes, which are copied.
  virtual void AddSmall(std::string_view column, ParameterType type, std::string_view bytes) = 0;
  virtual void AddNull(std::string_view column) = 0;
};

// The parameters of a statement, in PostgreSQL's binary format; types are OIDs.
class BatchParameters {
 public:
  BatchParameters() = default;
  BatchParameters(const BatchParameters&) = delete;
  BatchParameters& operator=(const BatchParameters&) = delete;

  void Reserve(std::size_t count);
  // `bytes` live as long as the parameters.
  void AddKept(unsigned type, std::string_view bytes);
  void AddMade(unsigned type, std::string bytes);
  // At most 8 bytes.
  void AddSmall(unsigned type, std::string_view bytes);
  void AddNull(unsigned type);

  std::span<const char* const> values() const { return values_; }
  std::span<const int> lengths() const { return lengths_; }
  std::span<const unsigned> types() const { return types_; }

 private:
  std::vector<const char*> values_;
  std::vector<int> lengths_;
  std::vector<unsigned> types_;
  // What the parameters point to when it is not in a change. Deques keep addresses.
  std::deque<std::array<char, 8>> small_;
  std::deque<std::string> made_;
};

// Each value becomes a parameter.
class ListWriter : public RowWriter {
 public:
  // `columns` are those that a parameter is sent for. Both outlive the writer.
  ListWriter(std::span<const BatchColumn> columns, BatchParameters& parameters)
      : columns_(columns), parameters_(parameters) {}

  std::size_t rows() const { return values_ / columns_.size(); }

 private:
  void AddKept(std::string_view column, ParameterType type, std::string_view bytes) override;
  void AddMade(std::string_view column, ParameterType type, std::string bytes) override;
  void AddSmall(std::string_view column, ParameterType type, std::string_view bytes) override;
  void AddNull(std::string_view column) override;

  const std::span<const BatchColumn> columns_;
  BatchParameters& parameters_;
  std::size_t values_ = 0;
};

// Values go round the columns; each column becomes one array parameter. Arrays of a kInt8Array
// column become texts, to be cast: unnest() would join them.
class ArrayWriter : public RowWriter {
 public:
  explicit ArrayWriter(std::span<const BatchColumn> columns)
      : columns_(columns), arrays_(columns.size()) {}

  void Int8Array(std::string_view column, const std::vector<std::int64_t>& numbers) override;

  std::size_t rows() const { return values_ / columns_.size(); }
  // Once, after the last row. Where there is no row, adds empty arrays or, without `even_empty`,
  // nothing.
  void AddTo(BatchParameters& parameters, bool even_empty = false);

 private:
  void AddKept(std::string_view column, ParameterType type, std::string_view bytes) override;
  void AddMade(std::string_view column, ParameterType type, std::string bytes) override;
  void AddSmall(std::string_view column, ParameterType type, std::string_view bytes) override;
  void AddNull(std::string_view column) override;

  std::string& NextArray();

  const std::span<const BatchColumn> columns_;
  std::vector<std::string> arrays_;  // In binary format; AddTo() sets the number of elements.
  std::size_t values_ = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_BATCH_ROWS_H_
