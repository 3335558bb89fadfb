#include "server/ops/log.h"

#include <spdlog/async_logger.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "server/ops/log_line.h"
#include "server/wire/descriptor_writer.h"

namespace memoryd {
namespace {

// Lines that wait at most, some 400 bytes each.
constexpr std::size_t kQueuedLines = 4096;
// Of the names of the levels, for people.
constexpr std::size_t kLevelWidth = 7;
constexpr std::chrono::milliseconds kTimeToLeave(500);

// The name of the logger whose payload is the rest of a line, rendered already.
constexpr char kFieldsLogger[] = "fields";

class LineFormatter final : public spdlog::formatter {
 public:
  explicit LineFormatter(bool json) : json_(json) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    const spdlog::string_view_t level = spdlog::level::to_string_view(message.level);
    const std::string_view payload(message.payload.data(), message.payload.size());
    const bool rendered =
        std::string_view(message.logger_name.data(), message.logger_name.size()) == kFieldsLogger;
    std::string text;
    text.reserve(payload.size() + 128);
    if (json_) {
      text += "{\"ts\":\"";
      AppendUtc(message.time, text);
      text += "\",\"level\":\"";
      text.append(level.data(), level.size());
      text += "\",";
      if (rendered) {
        text += payload;
      } else {
        text += "\"msg\":";
        AppendQuoted(payload, text);
      }
      text += '}';
    } else {
      AppendUtc(message.time, text);
      text += ' ';
      text.append(level.data(), level.size());
      text.append(level.size() < kLevelWidth ? kLevelWidth - level.size() : 0, ' ');
      text += ' ';
      if (rendered) {
        text += payload;
      } else {
        std::string quoted;
        AppendQuoted(payload, quoted);
        text.append(quoted, 1, quoted.size() - 2);
      }
    }
    line.append(text.data(), text.data() + text.size());
    line.push_back('\n');
  }

  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<LineFormatter>(json_);
  }

 private:
  const bool json_;
};

}  // namespace

// Used by the log's one thread alone, but for what is atomic.
class Log::Sink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit Sink(int descriptor) : writer_(descriptor) {}

  void StopAt(std::chrono::steady_clock::time_point time) { writer_.StopAt(time); }
  std::uint64_t dropped() const { return dropped_.load(); }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    if (!writer_.Write({line.data(), line.size()})) ++dropped_;
  }
  void flush_() override {}

  DescriptorWriter writer_;
  std::atomic<std::uint64_t> dropped_{0};
};

Log::Log(const LogOptions& options)
    : json_(options.json),
      pool_(std::make_shared<spdlog::details::thread_pool>(kQueuedLines, 1)),
      sink_(std::make_shared<Sink>(options.descriptor)) {
  sink_->set_formatter(std::make_unique<LineFormatter>(json_));
  const auto make = [&](const char* name) {
    auto logger = std::make_shared<spdlog::async_logger>(
        name, sink_, pool_, spdlog::async_overflow_policy::overrun_oldest);
    logger->set_level(spdlog::level::from_str(options.level));
    // spdlog would write to standard error by itself, and wait.
    logger->set_error_handler([](const std::string&) {});
    return logger;
  };
  fields_ = make(kFieldsLogger);
  default_ = make("memoryd");
  spdlog::set_default_logger(default_);
}

Log::~Log() {
  sink_->StopAt(std::chrono::steady_clock::now() + kTimeToLeave);
  // The default logger stays, for threads that may still log; it throws when its pool is gone.
  default_->set_level(spdlog::level::off);
  fields_->set_level(spdlog::level::off);
  pool_.reset();  // Joins its thread.
}

void Log::Write(spdlog::level::level_enum level, std::string_view message,
                std::span<const LogField> fields) {
  LogLine line = BeginLine();
  line.Message(message);
  for (const LogField& field : fields) {
    if (field.is_number) {
      line.Plain(field.name, field.value);
    } else {
      line.Text(field.name, field.value);
    }
  }
  Write(level, line);
}

void Log::Write(spdlog::level::level_enum level, const LogLine& line) {
  const std::string_view text = line.text();
  fields_->log(level, spdlog::string_view_t(text.data(), text.size()));
}

void Log::SetLevel(const std::string& level) {
  fields_->set_level(spdlog::level::from_str(level));
  default_->set_level(spdlog::level::from_str(level));
}

std::uint64_t Log::dropped() const { return pool_->overrun_counter() + sink_->dropped(); }

bool IsTerminal(int descriptor) { return ::isatty(descriptor) != 0; }

}  // namespace memoryd
