// The lines of an export, as docs/EXPORT.md describes them.
#ifndef MEMORYD_CLI_EXPORT_LINES_H_
#define MEMORYD_CLI_EXPORT_LINES_H_

#include <cstddef>
#include <cstdint>
#include <istream>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "memoryd/v1/item_service.pb.h"
#include "memoryd/v1/memory.pb.h"

namespace memoryd::cli {

// The versions that are written and read: without namespaces, and with them.
inline constexpr int kSessionsFormat = 1;
inline constexpr int kNamespacesFormat = 2;

struct ExportCounts {
  std::int64_t sessions = 0;
  std::int64_t messages = 0;
  std::int64_t contents = 0;
  std::int64_t namespaces = 0;
  std::int64_t items = 0;

  // A JSON object without its braces, for `end` and for programs. `format` says which have a place.
  std::string ToJsonFields(int format) const;
  // For people. Namespaces and items are named where there are any.
  std::string ForPeople() const;
  void Add(const ExportCounts& other);

  friend bool operator==(const ExportCounts&, const ExportCounts&) = default;
};

// The end, where the counts have been found to be right.
struct ExportEnd {};

using ExportLine =
    std::variant<v1::Session, v1::Message, v1::Content, v1::Namespace, v1::Item, ExportEnd>;

// `json` with each number -0 as -0.0: readers take the other for an integer, which has no sign.
std::string WithSignedZeros(std::string json);

// No server takes a request of more than 60 MiB. The JSON of a byte of it takes at most eight: six
// as an escape in a text, and more only with the name of a field, which has two bytes at least.
inline constexpr std::size_t kMostLineBytes = std::size_t{480} << 20;

// Reads line by line. Once it has failed, or has come to the end, it must not be asked again.
class ExportLines {
 public:
  // `input` outlives it.
  explicit ExportLines(std::istream& input, std::size_t most_line_bytes = kMostLineBytes)
      : input_(input), most_line_bytes_(most_line_bytes) {}

  // The next line of a kind that is known. INVALID_ARGUMENT tells the line and what is wrong with
  // it: another format, no JSON, a message without a session, an item without a namespace, no `end`
  // or one with other counts.
  absl::StatusOr<ExportLine> Next();

  // Of the line that was read last, from 1 on.
  std::int64_t number() const { return number_; }
  // Of what has been read.
  const ExportCounts& counts() const { return counts_; }
  // That of the first line; 0 before it was read.
  int format() const { return format_; }

 private:
  // What a line belongs to.
  enum class Within { kNothing, kSession, kNamespace };

  absl::Status Wrong(const std::string& what) const;
  // The first line.
  absl::Status TakeHead(const nlohmann::json& line);
  // What stands under `kind`; std::nullopt for what this memoryd does not know.
  absl::StatusOr<std::optional<ExportLine>> Take(const std::string& kind,
                                                 const nlohmann::json& value);
  absl::StatusOr<ExportLine> TakeEnd(const nlohmann::json& value);

  std::istream& input_;
  const std::size_t most_line_bytes_;
  std::int64_t number_ = 0;
  int format_ = 0;
  Within within_ = Within::kNothing;
  ExportCounts counts_;
};

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_EXPORT_LINES_H_
