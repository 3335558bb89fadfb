// What a command has to say, on standard output.
#ifndef MEMORYD_CLI_PRINTER_H_
#define MEMORYD_CLI_PRINTER_H_

#include <google/protobuf/message.h>

#include <chrono>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace memoryd::cli {

// Protobuf's JSON mapping on one line, with the names of the .proto files.
absl::StatusOr<std::string> ToJson(const google::protobuf::Message& message);

// Prints for people or, with `json`, one object a line. Once something has failed the rest is not
// printed, and status() tells of it.
class Printer {
 public:
  explicit Printer(bool json);

  bool json() const { return json_; }
  // Columns of the terminal; 0 where standard output is none.
  int width() const { return width_; }
  // Whether it wants colours.
  bool colour() const { return colour_; }

  // As it is.
  void Print(std::string_view text);
  // As FieldLines, or as JSON.
  void PrintMessage(const google::protobuf::Message& message);
  // {"`name`": …}, before it `"session_id": …` where one is given: for messages that a line is to
  // say the kind or the session of.
  void PrintJson(std::string_view name, const google::protobuf::Message& message,
                 const std::string& session_id = {});
  // As FieldLines, or by PrintJson().
  void PrintNamed(std::string_view name, const google::protobuf::Message& message,
                  const std::string& session_id = {});
  // For output that goes on: what was printed is seen now.
  void Flush();
  // Waits so long, but no longer than somebody reads standard output.
  void Wait(std::chrono::milliseconds time);

  // What failed first. Whoever goes on printing stops then.
  const absl::Status& status() const { return status_; }
  // Flushes, and is status() then.
  absl::Status Finish();

 private:
  void Fail(absl::Status status);
  void FailToWrite();

  const bool json_;
  const int width_;
  const bool colour_;
  absl::Status status_;
};

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_PRINTER_H_
