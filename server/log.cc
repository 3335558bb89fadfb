#include "server/log.h"

#include <fmt/format.h>
#include <grpc/support/log.h>
#include <grpcpp/version_info.h>
#include <spdlog/async_logger.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/histogram.h"
#include "server/descriptor_writer.h"

namespace memoryd {
namespace {

// Lines that wait at most, some 400 bytes each.
constexpr std::size_t kQueuedLines = 4096;
// The rest of a longer message is cut.
constexpr std::size_t kMaxMessageBytes = 4096;
constexpr std::chrono::milliseconds kTimeToLeave(500);

// The name of the logger whose payload is the rest of a line, rendered already.
constexpr char kFieldsLogger[] = "fields";

// A JSON string with its quotes: ASCII without control characters; what is no UTF-8 becomes U+FFFD.
std::string Quoted(std::string_view text) {
  return nlohmann::json(text.substr(0, kMaxMessageBytes))
      .dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
}

// The same escapes, quotes only where the value would else be hard to tell from its neighbours.
std::string TextValue(std::string_view text) {
  std::string quoted = Quoted(text);
  const bool plain =
      quoted.size() == text.size() + 2 && text.find_first_of(" =") == text.npos && !text.empty();
  return plain ? std::string(text) : quoted;
}

class LineFormatter final : public spdlog::formatter {
 public:
  explicit LineFormatter(bool json) : json_(json) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    const auto since_epoch =
        std::chrono::duration_cast<std::chrono::microseconds>(message.time.time_since_epoch());
    const std::time_t seconds = since_epoch.count() / 1'000'000;
    std::tm time{};
    gmtime_r(&seconds, &time);
    const std::string stamp = fmt::format(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", time.tm_year + 1900, time.tm_mon + 1,
        time.tm_mday, time.tm_hour, time.tm_min, time.tm_sec, since_epoch.count() % 1'000'000);
    const spdlog::string_view_t level = spdlog::level::to_string_view(message.level);
    const std::string_view payload(message.payload.data(), message.payload.size());
    const bool rendered =
        std::string_view(message.logger_name.data(), message.logger_name.size()) == kFieldsLogger;
    auto out = fmt::appender(line);
    if (json_) {
      fmt::format_to(out, R"({{"ts":"{}","level":"{}",{}}})", stamp, level,
                     rendered ? std::string(payload) : R"("msg":)" + Quoted(payload));
    } else {
      std::string text(payload);
      if (!rendered) {
        text = Quoted(payload);
        text = text.substr(1, text.size() - 2);
      }
      fmt::format_to(out, "{} {:<7} {}", stamp, level, text);
    }
    line.push_back('\n');
  }

  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<LineFormatter>(json_);
  }

 private:
  const bool json_;
};

Counter handshake_failures{0};

#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR < 66
// gRPC's own log would wait for whoever reads standard error, on its own threads.
void TakeOverGrpcLog() {
  gpr_set_log_function([](gpr_log_func_args* said) {
    if (std::string_view(said->message).starts_with("Handshake failed")) {
      Increment(handshake_failures);
    }
    const auto level = said->severity == GPR_LOG_SEVERITY_ERROR  ? spdlog::level::warn
                       : said->severity == GPR_LOG_SEVERITY_INFO ? spdlog::level::info
                                                                 : spdlog::level::debug;
    try {
      spdlog::log(level, "grpc: {}", said->message);
    } catch (const spdlog::spdlog_ex&) {
      // The log is just ending, and gRPC's threads are not ours to stop.
    }
  });
}
#else
// Newer ones log through Abseil, at ERROR and above only unless asked.
void TakeOverGrpcLog() {}
#endif

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
  TakeOverGrpcLog();
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
  std::string line = json_ ? R"("msg":)" + Quoted(message) : TextValue(message);
  for (const LogField& field : fields) {
    if (json_) {
      line += fmt::format(R"(,"{}":{})", field.name,
                          field.is_number ? field.value : Quoted(field.value));
    } else {
      line += fmt::format(" {}={}", field.name, TextValue(field.value));
    }
  }
  fields_->log(level, spdlog::string_view_t(line.data(), line.size()));
}

void Log::SetLevel(const std::string& level) {
  fields_->set_level(spdlog::level::from_str(level));
  default_->set_level(spdlog::level::from_str(level));
}

std::uint64_t TlsHandshakeFailures() { return handshake_failures; }

std::uint64_t Log::dropped() const { return pool_->overrun_counter() + sink_->dropped(); }

bool IsTerminal(int descriptor) { return ::isatty(descriptor) != 0; }

}  // namespace memoryd
