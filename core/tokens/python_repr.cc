#include "core/tokens/python_repr.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "core/base/json_check.h"
#include "core/base/status_macros.h"
#include "core/base/utf8_decode.h"
#include "fmt/format.h"

namespace memoryd {
namespace {

constexpr char32_t kFirstTabled = 0xA0;
constexpr std::uint32_t kPrintableChanges[] = {
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/tokens/python_printable_table.inc"
};

bool IsPrintable(char32_t code_point) {
  if (code_point < kFirstTabled) {
    return code_point >= 0x20 && code_point < 0x7F;
  }
  const auto* const after =
      std::upper_bound(std::begin(kPrintableChanges), std::end(kPrintableChanges), code_point);
  return (after - std::begin(kPrintableChanges)) % 2 == 1;
}

void AppendEscaped(char32_t code_point, std::string& out) {
  const auto number = static_cast<std::uint32_t>(code_point);
  if (number <= 0xFF) {
    fmt::format_to(std::back_inserter(out), "\\x{:02x}", number);
  } else if (number <= 0xFFFF) {
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", number);
  } else {
    fmt::format_to(std::back_inserter(out), "\\U{:08x}", number);
  }
}

// `text` is UTF-8.
void AppendString(std::string_view text, std::string& out) {
  const bool double_quotes =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = double_quotes ? '"' : '\'';
  out.push_back(quote);
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const DecodedUtf8 next = DecodeUtf8(p, end);
    switch (next.code_point) {
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (*p == quote || *p == '\\') {
          out.push_back('\\');
          out.push_back(*p);
        } else if (IsPrintable(next.code_point)) {
          out.append(p, next.length);
        } else {
          AppendEscaped(next.code_point, out);
        }
    }
    p += next.length;
  }
  out.push_back(quote);
}

// The shortest digits that read back as `value`, laid out as Python's float does.
void AppendFloat(double value, std::string& out) {
  std::array<char, 32> buffer;
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                     std::chars_format::scientific);
  std::string_view text(buffer.data(), static_cast<std::size_t>(written.ptr - buffer.data()));
  if (text.front() == '-') {
    out.push_back('-');
    text.remove_prefix(1);
  }
  const std::size_t e = text.find('e');
  int exponent = 0;
  const char* const exponent_digits = text.data() + e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(exponent_digits, text.data() + text.size(), exponent);
  std::string digits(1, text[0]);
  digits += text.substr(std::min<std::size_t>(2, e), e > 2 ? e - 2 : 0);

  if (exponent < -4 || exponent >= 16) {
    out += digits.substr(0, 1);
    if (digits.size() > 1) {
      out += '.';
      out += digits.substr(1);
    }
    fmt::format_to(std::back_inserter(out), "e{}{:02}", exponent < 0 ? '-' : '+',
                   std::abs(exponent));
  } else if (exponent < 0) {
    out += "0.";
    out.append(static_cast<std::size_t>(-exponent - 1), '0');
    out += digits;
  } else {
    const auto whole = static_cast<std::size_t>(exponent) + 1;
    digits.append(whole + 1 > digits.size() ? whole + 1 - digits.size() : 0, '0');
    out += digits.substr(0, whole);
    out += '.';
    out += digits.substr(whole);
  }
}

class ReprWriter final : public JsonVisitor {
 public:
  void OnNull() override { Value() += "None"; }
  void OnBool(bool value) override { Value() += value ? "True" : "False"; }
  void OnInteger(std::string_view literal) override { Value() += literal == "-0" ? "0" : literal; }
  void OnFloat(double value) override { AppendFloat(value, Value()); }
  void OnString(std::string_view value) override {
    if (depth_ == 0) {
      out_ += value;
    } else {
      AppendString(value, Value());
    }
  }
  void OnKey(std::string_view key) override {
    AppendString(key, Value());
    out_ += ": ";
    after_value_ = false;
  }
  void OnBeginObject() override { Begin('{'); }
  void OnEndObject() override { End('}'); }
  void OnBeginArray() override { Begin('['); }
  void OnEndArray() override { End(']'); }

  std::string Take() && { return std::move(out_); }

 private:
  // Where the next key or value goes, behind a comma if one is due.
  std::string& Value() {
    if (after_value_) {
      out_ += ", ";
    }
    after_value_ = true;
    return out_;
  }

  void Begin(char bracket) {
    Value().push_back(bracket);
    after_value_ = false;
    ++depth_;
  }

  void End(char bracket) {
    out_.push_back(bracket);
    after_value_ = true;
    --depth_;
  }

  std::string out_;
  bool after_value_ = false;
  int depth_ = 0;
};

}  // namespace

absl::StatusOr<std::string> PythonRepr(std::string_view json) {
  ReprWriter writer;
  MEMORYD_RETURN_IF_ERROR(ReadJson(json, JsonLimits{.any_value = true}, writer));
  return std::move(writer).Take();
}

}  // namespace memoryd
