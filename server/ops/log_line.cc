#include "server/ops/log_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace memoryd {
namespace {

// The rest of a longer value is cut.
constexpr std::size_t kMaxBytes = 4096;

bool IsEscaped(char c) { return c < ' ' || c >= 0x7F || c == '"' || c == '\\'; }

void AppendNumber(std::int64_t value, std::string& out) {
  const fmt::format_int digits(value);
  out.append(digits.data(), digits.size());
}

// The last `count` digits of a number that is not negative.
void AppendDigits(std::int64_t value, std::size_t count, std::string& out) {
  out.append(count, '0');
  for (std::size_t at = out.size(); count > 0; --count, value /= 10) {
    out[--at] = static_cast<char>('0' + value % 10);
  }
}

}  // namespace

void LogLine::Message(std::string_view text) {
  if (json_) {
    text_ += "\"msg\":";
    AppendQuoted(text, text_);
  } else {
    Value(text);
  }
}

void LogLine::Text(std::string_view name, std::string_view value) {
  Name(name);
  Value(value);
}

void LogLine::Plain(std::string_view name, std::string_view value) {
  Name(name);
  text_ += value;
}

void LogLine::Number(std::string_view name, std::int64_t value) {
  Name(name);
  AppendNumber(value, text_);
}

void LogLine::Milliseconds(std::string_view name, std::chrono::nanoseconds time) {
  Name(name);
  const std::int64_t micros = std::max<std::int64_t>(0, (time.count() + 500) / 1000);
  AppendNumber(micros / 1000, text_);
  text_ += '.';
  AppendDigits(micros % 1000, 3, text_);
}

void LogLine::Name(std::string_view name) {
  if (json_) {
    if (!text_.empty()) text_ += ',';
    text_ += '"';
    text_ += name;
    text_ += "\":";
  } else {
    if (!text_.empty()) text_ += ' ';
    text_ += name;
    text_ += '=';
  }
}

// For people with quotes only where the value would else be hard to tell from its neighbours.
void LogLine::Value(std::string_view value) {
  const bool plain = !json_ && !value.empty() && value.size() <= kMaxBytes &&
                     std::none_of(value.begin(), value.end(),
                                  [](char c) { return IsEscaped(c) || c == ' ' || c == '='; });
  if (plain) {
    text_ += value;
  } else {
    AppendQuoted(value, text_);
  }
}

void AppendQuoted(std::string_view text, std::string& out) {
  text = text.substr(0, kMaxBytes);
  if (std::none_of(text.begin(), text.end(), &IsEscaped)) {
    out += '"';
    out += text;
    out += '"';
    return;
  }
  // What is no UTF-8 becomes U+FFFD.
  out += nlohmann::json(text).dump(-1, ' ', /*ensure_ascii=*/true,
                                   nlohmann::json::error_handler_t::replace);
}

void AppendUtc(std::chrono::system_clock::time_point time, std::string& out) {
  using std::chrono::microseconds;
  // The date of the second that this thread told last.
  thread_local std::time_t told = -1;
  thread_local std::string date;
  const std::int64_t since_epoch =
      std::chrono::duration_cast<microseconds>(time.time_since_epoch()).count();
  const std::time_t seconds = since_epoch / 1'000'000;
  if (seconds != told) {
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    date = fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.", parts.tm_year + 1900,
                       parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
    told = seconds;
  }
  out += date;
  AppendDigits(since_epoch % 1'000'000, 6, out);
  out += 'Z';
}

}  // namespace memoryd
