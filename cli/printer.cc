#include "cli/printer.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/wrappers.pb.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/field_lines.h"
#include "cli/terminal.h"

namespace memoryd::cli {
absl::StatusOr<std::string> ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!status.ok()) return absl::InternalError("no JSON: " + status.ToString());
  return json;
}

Printer::Printer(bool json)
    : json_(json), width_(TerminalWidth(STDOUT_FILENO)), colour_(WantsColour(STDOUT_FILENO)) {}

void Printer::Print(std::string_view text) {
  if (!status_.ok()) return;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) FailToWrite();
}

void Printer::PrintMessage(const google::protobuf::Message& message) {
  if (!json_) {
    Print(FieldLines(message));
  } else if (const auto json = ToJson(message); json.ok()) {
    Print(*json + "\n");
  } else {
    Fail(json.status());
  }
}

void Printer::PrintJson(std::string_view name, const google::protobuf::Message& message,
                        const std::string& session_id) {
  std::string line = "{";
  if (!session_id.empty()) {
    google::protobuf::StringValue value;
    value.set_value(session_id);
    const auto json = ToJson(value);
    if (!json.ok()) return Fail(json.status());
    line += fmt::format("\"session_id\":{},", *json);
  }
  const auto json = ToJson(message);
  if (!json.ok()) return Fail(json.status());
  Print(fmt::format("{}\"{}\":{}}}\n", line, name, *json));
}

void Printer::PrintNamed(std::string_view name, const google::protobuf::Message& message,
                         const std::string& session_id) {
  if (json_) {
    PrintJson(name, message, session_id);
  } else {
    Print(FieldLines(message));
  }
}

void Printer::Flush() {
  if (status_.ok() && std::fflush(stdout) != 0) FailToWrite();
}

void Printer::Wait(std::chrono::milliseconds time) {
  // Asked for nothing, it is told of errors alone, such as a pipe that nobody reads any more.
  pollfd output{STDOUT_FILENO, 0, 0};
  if (::poll(&output, 1, static_cast<int>(time.count())) <= 0) return;
  errno = EPIPE;
  FailToWrite();
}

absl::Status Printer::Finish() {
  Flush();
  return status_;
}

void Printer::FailToWrite() {
  Fail(absl::UnknownError(fmt::format("standard output: {}", std::strerror(errno))));
}

void Printer::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

}  // namespace memoryd::cli
