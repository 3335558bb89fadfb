// The server's log on standard error.
#ifndef MEMORYD_SERVER_OPS_LOG_H_
#define MEMORYD_SERVER_OPS_LOG_H_

#include <spdlog/spdlog.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "server/ops/log_line.h"

namespace memoryd {

struct LogOptions {
  // JSON lines, else text for people.
  bool json = true;
  // `debug`, `info`, `warning` or `error`.
  std::string level = "info";
  // Where the lines go; borrowed.
  int descriptor = 2;
};

struct LogField {
  std::string_view name;  // A constant of the program, as is its like in the line.
  std::string value;      // Any bytes; escaped.
  bool is_number = false;
};

// While it lives, spdlog's default logger goes through it; later lines are lost.
//
// Nobody who logs ever waits for whoever reads: a line is put into a bounded queue, where the
// oldest makes room for it, and a thread of the log's own writes, never more than the descriptor
// takes at once. At the end what is queued gets half a second to leave. A line has no control
// characters, and nothing but ASCII, whatever it tells of.
class Log {
 public:
  explicit Log(const LogOptions& options);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // A line with fields of its own. Any thread.
  void Write(spdlog::level::level_enum level, std::string_view message,
             std::span<const LogField> fields);
  // A line that its writer builds, beginning with its message. Any thread.
  LogLine BeginLine() const { return LogLine(json_); }
  void Write(spdlog::level::level_enum level, const LogLine& line);
  // As LogOptions::level, from the next line on. Any thread.
  void SetLevel(const std::string& level);
  bool Wants(spdlog::level::level_enum level) const { return fields_->should_log(level); }

  // Lines that never left. Any thread.
  std::uint64_t dropped() const;

 private:
  class Sink;

  const bool json_;
  std::shared_ptr<spdlog::details::thread_pool> pool_;
  std::shared_ptr<Sink> sink_;
  std::shared_ptr<spdlog::logger> fields_;
  std::shared_ptr<spdlog::logger> default_;
};

// Whether people read what is written to `descriptor`.
bool IsTerminal(int descriptor);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_OPS_LOG_H_
