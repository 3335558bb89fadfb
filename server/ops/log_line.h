// A line of a log, built in place: next to a small call it is not to be seen.
#ifndef MEMORYD_SERVER_OPS_LOG_LINE_H_
#define MEMORYD_SERVER_OPS_LOG_LINE_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace memoryd {

// Fields one after the other: JSON without the braces around it, or text for people. Names are
// constants of the program. Values may have any bytes; what is written is ASCII without control
// characters, and the rest of a value beyond 4 KiB is cut.
class LogLine {
 public:
  explicit LogLine(bool json) : json_(json) { text_.reserve(512); }

  // The field `msg`; for people its value alone.
  void Message(std::string_view text);
  void Text(std::string_view name, std::string_view value);
  // A number, a Boolean: `value` as it is.
  void Plain(std::string_view name, std::string_view value);
  void Number(std::string_view name, std::int64_t value);
  // With three digits behind the point.
  void Milliseconds(std::string_view name, std::chrono::nanoseconds time);

  std::string_view text() const { return text_; }

 private:
  void Name(std::string_view name);
  void Value(std::string_view value);

  const bool json_;
  std::string text_;
};

// `text` as a JSON string, with its quotes.
void AppendQuoted(std::string_view text, std::string& out);

// Such as 2026-01-02T03:04:05.678901Z.
void AppendUtc(std::chrono::system_clock::time_point time, std::string& out);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_OPS_LOG_LINE_H_
