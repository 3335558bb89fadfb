#include "core/base/json_check.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "core/base/status_macros.h"
#include "core/base/utf8_decode.h"
#include "fmt/format.h"

namespace memoryd {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

void AppendUtf8(char32_t code_point, std::string& out) {
  const auto tail = [&](int shift) {
    out.push_back(static_cast<char>(0x80 | ((code_point >> shift) & 0x3F)));
  };
  if (code_point < 0x80) {
    out.push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out.push_back(static_cast<char>(0xC0 | (code_point >> 6)));
    tail(0);
  } else if (code_point < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | (code_point >> 12)));
    tail(6);
    tail(0);
  } else {
    out.push_back(static_cast<char>(0xF0 | (code_point >> 18)));
    tail(12);
    tail(6);
    tail(0);
  }
}

// Whether the decimal `literal` is at least 1: tells overflow from underflow. It is a JSON float.
bool IsAtLeastOne(std::string_view literal) {
  if (literal.front() == '-') {
    literal.remove_prefix(1);
  }
  const std::size_t exponent_at = std::min(literal.find_first_of("eE"), literal.size());
  const std::string_view digits = literal.substr(0, exponent_at);
  const auto point = static_cast<std::int64_t>(std::min(digits.find('.'), digits.size()));
  const auto first = static_cast<std::int64_t>(digits.find_first_of("123456789"));

  std::int64_t exponent = 0;
  if (exponent_at < literal.size()) {
    std::string_view text = literal.substr(exponent_at + 1);
    const bool negative = text.front() == '-';
    text.remove_prefix(negative || text.front() == '+' ? 1 : 0);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), exponent);
    // No document has digits enough to outweigh an exponent that does not fit.
    exponent = error == std::errc() ? exponent : std::int64_t{1} << 62;
    exponent = negative ? -exponent : exponent;
  }
  // The power of ten of the first digit that is not 0.
  return (first < point ? point - first - 1 : point - first) + exponent >= 0;
}

class Reader {
 public:
  Reader(std::string_view json, const JsonLimits& limits, JsonVisitor& visitor)
      : begin_(json.data()),
        p_(json.data()),
        end_(json.data() + json.size()),
        limits_(limits),
        visitor_(visitor) {}

  absl::Status Read() {
    SkipSpace();
    if (!limits_.any_value && (p_ == end_ || *p_ != '{')) {
      return Bad("the document must be an object");
    }
    // Each turn reads one value or opens a container, then closes what ends behind it.
    do {
      SkipSpace();
      if (!open_.empty() && open_.back().is_object) {
        MEMORYD_RETURN_IF_ERROR(ReadKey());
      }
      bool opened = false;
      MEMORYD_RETURN_IF_ERROR(ReadValue(&opened));
      if (opened) {
        continue;
      }
      MEMORYD_RETURN_IF_ERROR(CloseEnded());
    } while (!open_.empty());
    SkipSpace();
    return p_ == end_ ? absl::OkStatus() : Bad("the document goes on after its value");
  }

 private:
  // An object or array that is being read.
  struct Container {
    bool is_object;
    std::vector<std::string> keys;
  };

  absl::Status Bad(std::string_view reason) const {
    return absl::InvalidArgumentError(fmt::format("JSON, byte {}: {}", p_ - begin_, reason));
  }

  void SkipSpace() {
    while (p_ < end_ && (*p_ == ' ' || *p_ == '\t' || *p_ == '\n' || *p_ == '\r')) {
      ++p_;
    }
  }

  bool Take(char c) {
    if (p_ == end_ || *p_ != c) {
      return false;
    }
    ++p_;
    return true;
  }

  bool TakeWord(std::string_view word) {
    if (!std::string_view(p_, static_cast<std::size_t>(end_ - p_)).starts_with(word)) {
      return false;
    }
    p_ += word.size();
    return true;
  }

  // Reads a value. An object or array is only opened, unless it is empty.
  absl::Status ReadValue(bool* opened) {
    if (p_ == end_) {
      return Bad("the document ends too early");
    }
    switch (*p_) {
      case '{':
      case '[':
        return Open(opened);
      case '"':
        MEMORYD_RETURN_IF_ERROR(ReadString());
        visitor_.OnString(string_);
        return absl::OkStatus();
      case 't':
      case 'f':
      case 'n':
        return ReadWord();
      default:
        return ReadNumber();
    }
  }

  absl::Status Open(bool* opened) {
    if (open_.size() >= limits_.max_depth) {
      return Bad(fmt::format("nested deeper than {}", limits_.max_depth));
    }
    const bool is_object = *p_ == '{';
    ++p_;
    is_object ? visitor_.OnBeginObject() : visitor_.OnBeginArray();
    SkipSpace();
    if (Take(is_object ? '}' : ']')) {
      is_object ? visitor_.OnEndObject() : visitor_.OnEndArray();
      return absl::OkStatus();
    }
    open_.push_back({is_object, {}});
    *opened = true;
    return absl::OkStatus();
  }

  // After a value: takes a comma, or closes containers up to one that goes on.
  absl::Status CloseEnded() {
    while (!open_.empty()) {
      SkipSpace();
      if (Take(',')) {
        return absl::OkStatus();
      }
      Container& container = open_.back();
      if (!Take(container.is_object ? '}' : ']')) {
        return Bad(container.is_object ? "expected , or }" : "expected , or ]");
      }
      if (container.is_object) {
        std::sort(container.keys.begin(), container.keys.end());
        if (std::adjacent_find(container.keys.begin(), container.keys.end()) !=
            container.keys.end()) {
          return Bad("the object that ends here has a key twice");
        }
        visitor_.OnEndObject();
      } else {
        visitor_.OnEndArray();
      }
      open_.pop_back();
    }
    return absl::OkStatus();
  }

  absl::Status ReadKey() {
    if (p_ == end_ || *p_ != '"') {
      return Bad("expected a key in double quotes");
    }
    MEMORYD_RETURN_IF_ERROR(ReadString());
    std::vector<std::string>& keys = open_.back().keys;
    if (string_.size() > limits_.max_key_bytes) {
      return Bad(fmt::format("a key is longer than {} bytes", limits_.max_key_bytes));
    }
    if (keys.size() >= limits_.max_object_keys) {
      return Bad(fmt::format("an object has more than {} keys", limits_.max_object_keys));
    }
    if (++total_keys_ > limits_.max_total_keys) {
      return Bad(fmt::format("more than {} keys in all", limits_.max_total_keys));
    }
    visitor_.OnKey(string_);
    keys.push_back(string_);
    SkipSpace();
    if (!Take(':')) {
      return Bad("expected : after a key");
    }
    SkipSpace();
    return absl::OkStatus();
  }

  absl::Status ReadWord() {
    if (TakeWord("true")) {
      visitor_.OnBool(true);
    } else if (TakeWord("false")) {
      visitor_.OnBool(false);
    } else if (TakeWord("null")) {
      visitor_.OnNull();
    } else {
      return Bad("expected a value");
    }
    return absl::OkStatus();
  }

  // Skips digits and says whether there were any.
  bool SkipDigits() {
    const char* const first = p_;
    while (p_ < end_ && IsDigit(*p_)) {
      ++p_;
    }
    return p_ != first;
  }

  absl::Status ReadNumber() {
    const char* const start = p_;
    Take('-');
    const char* const digits = p_;
    if (!Take('0') && !SkipDigits()) {
      return Bad("expected a value");
    }
    const auto integer_digits = static_cast<std::size_t>(p_ - digits);
    bool is_integer = true;
    if (Take('.')) {
      is_integer = false;
      if (!SkipDigits()) {
        return Bad("expected digits after the decimal point");
      }
    }
    if (Take('e') || Take('E')) {
      is_integer = false;
      if (!Take('+')) {
        Take('-');
      }
      if (!SkipDigits()) {
        return Bad("expected digits in the exponent");
      }
    }
    const std::string_view literal(start, static_cast<std::size_t>(p_ - start));
    if (is_integer) {
      if (integer_digits > limits_.max_integer_digits) {
        return Bad(fmt::format("an integer has more than {} digits", limits_.max_integer_digits));
      }
      visitor_.OnInteger(literal);
      return absl::OkStatus();
    }
    double value = 0;
    const auto [end, error] = std::from_chars(start, p_, value);
    if (error == std::errc::result_out_of_range) {
      if (IsAtLeastOne(literal)) {
        return Bad("a number is too large for a double");
      }
      value = literal.front() == '-' ? -0.0 : 0.0;
    }
    visitor_.OnFloat(value);
    return absl::OkStatus();
  }

  // Reads a string into string_.
  absl::Status ReadString() {
    ++p_;
    string_.clear();
    while (p_ < end_) {
      // Most of a string is plain characters: append them in one go.
      const char* plain = p_;
      while (plain < end_ && *plain >= 0x20 && *plain < 0x7F && *plain != '"' && *plain != '\\') {
        ++plain;
      }
      string_.append(p_, plain);
      p_ = plain;
      if (p_ == end_) {
        break;
      }
      if (Take('"')) {
        return absl::OkStatus();
      }
      if (*p_ == '\\') {
        MEMORYD_RETURN_IF_ERROR(ReadEscape());
        continue;
      }
      const DecodedUtf8 next = DecodeUtf8(p_, end_);
      if (next.length == 0) {
        return Bad("not UTF-8");
      }
      if (next.code_point < 0x20) {
        return Bad("a control character in a string must be escaped");
      }
      string_.append(p_, next.length);
      p_ += next.length;
    }
    return Bad("a string does not end");
  }

  absl::Status ReadEscape() {
    constexpr std::string_view kEscapes = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    if (end_ - p_ >= 2) {
      const std::size_t found = kEscapes.find(p_[1]);
      if (found != std::string_view::npos) {
        string_.push_back(kMeanings[found]);
        p_ += 2;
        return absl::OkStatus();
      }
    }
    const std::optional<char32_t> first = TakeUnicodeEscape();
    if (!first.has_value()) {
      return Bad("an unknown escape");
    }
    char32_t code_point = *first;
    if (code_point >= 0xD800 && code_point <= 0xDFFF) {
      const std::optional<char32_t> second = TakeUnicodeEscape();
      if (code_point > 0xDBFF || !second.has_value() || *second < 0xDC00 || *second > 0xDFFF) {
        return Bad("half a surrogate pair");
      }
      code_point = 0x10000 + ((code_point - 0xD800) << 10) + (*second - 0xDC00);
    }
    if (code_point == 0) {
      return Bad("U+0000 in a string");
    }
    AppendUtf8(code_point, string_);
    return absl::OkStatus();
  }

  // Takes \uXXXX, or nothing when something else is there.
  std::optional<char32_t> TakeUnicodeEscape() {
    if (end_ - p_ < 6 || p_[0] != '\\' || p_[1] != 'u') {
      return std::nullopt;
    }
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(p_ + 2, p_ + 6, value, 16);
    if (error != std::errc() || end != p_ + 6) {
      return std::nullopt;
    }
    p_ += 6;
    return static_cast<char32_t>(value);
  }

  const char* const begin_;
  const char* p_;
  const char* const end_;
  const JsonLimits& limits_;
  JsonVisitor& visitor_;
  std::vector<Container> open_;
  std::size_t total_keys_ = 0;
  std::string string_;  // What ReadString read last.
};

class IgnoringVisitor final : public JsonVisitor {
 public:
  void OnNull() override {}
  void OnBool(bool /*value*/) override {}
  void OnInteger(std::string_view /*literal*/) override {}
  void OnFloat(double /*value*/) override {}
  void OnString(std::string_view /*value*/) override {}
  void OnKey(std::string_view /*key*/) override {}
  void OnBeginObject() override {}
  void OnEndObject() override {}
  void OnBeginArray() override {}
  void OnEndArray() override {}
};

}  // namespace

absl::Status ReadJson(std::string_view json, const JsonLimits& limits, JsonVisitor& visitor) {
  return Reader(json, limits, visitor).Read();
}

absl::Status CheckJsonObject(std::string_view json, const JsonLimits& limits) {
  IgnoringVisitor visitor;
  return ReadJson(json, limits, visitor);
}

}  // namespace memoryd
