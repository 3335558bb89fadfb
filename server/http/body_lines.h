// Lines of a body that comes in pieces.
#ifndef MEMORYD_SERVER_HTTP_BODY_LINES_H_
#define MEMORYD_SERVER_HTTP_BODY_LINES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace memoryd {

// Keeps what was put until it is taken, however long a line is: its user bounds that. Lines of
// blanks alone are left out, and counted.
class BodyLines {
 public:
  void Put(std::string_view bytes);

  // The next line, without its end. nullopt when none is complete; once the body `has_ended`, when
  // no more come.
  std::optional<std::string> Take(bool has_ended);

  // What is kept of lines that were not taken.
  std::size_t bytes() const { return kept_.size() - begin_; }
  // Of the line that was taken last, from 1. 0 before the first.
  std::int64_t number() const { return number_; }

 private:
  std::string kept_;
  std::size_t begin_ = 0;     // Of the next line.
  std::size_t searched_ = 0;  // No line ends before.
  std::int64_t number_ = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP_BODY_LINES_H_
