#include "cli/export_lines.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"

namespace memoryd::cli {
namespace {

using nlohmann::json;

template <typename T>
absl::StatusOr<T> FromJson(const json& value) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  T message;
  const auto status = google::protobuf::util::JsonStringToMessage(value.dump(), &message, options);
  if (status.ok()) return message;
  return absl::InvalidArgumentError(std::string(status.message()));
}

// Protobuf's own limit is 100. Beyond some 10,000 what goes through the parsed line by recursion
// would run out of stack.
constexpr int kMaxDepth = 200;

enum class LineRead { kLine, kEnd, kTooLong };

// Reads as std::getline does, but no more than a line may have.
LineRead ReadLine(std::istream& input, std::size_t most, std::string& line) {
  std::array<char, std::size_t{64} << 10> part;
  line.clear();
  for (;;) {
    input.getline(part.data(), std::ssize(part));
    const auto count = static_cast<std::size_t>(input.gcount());
    const bool ended = input.good();  // The end of the line is counted, too.
    line.append(part.data(), ended ? count - 1 : count);
    if (line.size() > most) return LineRead::kTooLong;
    if (ended) return LineRead::kLine;
    if (input.eof() || input.bad()) return line.empty() ? LineRead::kEnd : LineRead::kLine;
    input.clear();
  }
}

// Counts brackets outside of strings, whether or not the text is JSON.
bool IsNestedTooDeeply(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace

std::string ExportCounts::ToJsonFields(int format) const {
  std::string fields =
      fmt::format(R"("sessions":{},"messages":{},"contents":{})", sessions, messages, contents);
  if (format == kNamespacesFormat) {
    fields += fmt::format(R"(,"namespaces":{},"items":{})", namespaces, items);
  }
  return fields;
}

std::string ExportCounts::ForPeople() const {
  std::string text =
      fmt::format("{} sessions, {} messages, {} contents", sessions, messages, contents);
  if (namespaces > 0) text += fmt::format(", {} namespaces, {} items", namespaces, items);
  return text;
}

void ExportCounts::Add(const ExportCounts& other) {
  sessions += other.sessions;
  messages += other.messages;
  contents += other.contents;
  namespaces += other.namespaces;
  items += other.items;
}

std::string WithSignedZeros(std::string json) {
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (in_string) {
      if (json[i] == '\\') {
        ++i;
      } else if (json[i] == '"') {
        in_string = false;
      }
    } else if (json[i] == '"') {
      in_string = true;
    } else if (json.compare(i, 2, "-0") == 0 && json.find_first_of(",]}", i) == i + 2) {
      json.insert(i + 2, ".0");
    }
  }
  return json;
}

absl::Status ExportLines::Wrong(const std::string& what) const {
  return absl::InvalidArgumentError(fmt::format("line {}: {}", number_, what));
}

absl::Status ExportLines::TakeHead(const json& line) {
  const json& format = line.begin().value();
  if (line.begin().key() != "memoryd_export") return Wrong("is no export of memoryd");
  if (format != kSessionsFormat && format != kNamespacesFormat) {
    return Wrong(fmt::format("format {}, and this memoryd reads {} and {}: use a newer one",
                             format.dump(), kSessionsFormat, kNamespacesFormat));
  }
  format_ = format.get<int>();
  return absl::OkStatus();
}

absl::StatusOr<std::optional<ExportLine>> ExportLines::Take(const std::string& kind,
                                                            const json& value) {
  const auto read = [&]<typename T>(std::int64_t& count,
                                    T /*kind*/) -> absl::StatusOr<std::optional<ExportLine>> {
    auto message = FromJson<T>(value);
    if (!message.ok()) return Wrong(std::string(message.status().message()));
    ++count;
    return ExportLine(*std::move(message));
  };
  const bool is_of_namespaces = kind == "namespace" || kind == "item";
  if (is_of_namespaces && format_ != kNamespacesFormat) {
    return Wrong(
        fmt::format("{} {} has no place in format {}", kind == "item" ? "an" : "a", kind, format_));
  }
  if (kind == "session") {
    within_ = Within::kSession;
    return read(counts_.sessions, v1::Session());
  }
  if (kind == "namespace") {
    within_ = Within::kNamespace;
    return read(counts_.namespaces, v1::Namespace());
  }
  if ((kind == "message" || kind == "content") && within_ != Within::kSession) {
    return Wrong("stands below no session");
  }
  if (kind == "message") return read(counts_.messages, v1::Message());
  if (kind == "content") return read(counts_.contents, v1::Content());
  if (kind == "item") {
    if (within_ != Within::kNamespace) return Wrong("stands below no namespace");
    return read(counts_.items, v1::Item());
  }
  return std::nullopt;
}

absl::StatusOr<ExportLine> ExportLines::TakeEnd(const json& value) {
  const json counts = json::parse(fmt::format("{{{}}}", counts_.ToJsonFields(format_)));
  if (value != counts) {
    return Wrong(fmt::format("the end counts {}, and there were {}", value.dump(), counts.dump()));
  }
  if (input_.peek() == std::istream::traits_type::eof()) return ExportLine(ExportEnd());
  return Wrong("is the end, and something follows it: give one export at a time");
}

absl::StatusOr<ExportLine> ExportLines::Next() {
  std::string text;
  for (;;) {
    const LineRead got = ReadLine(input_, most_line_bytes_, text);
    if (got == LineRead::kEnd) break;
    ++number_;
    if (got == LineRead::kTooLong) {
      return Wrong(fmt::format("has more than {} MiB", most_line_bytes_ >> 20));
    }
    if (IsNestedTooDeeply(text)) {
      return Wrong(fmt::format("is nested deeper than {} levels", kMaxDepth));
    }
    const json line = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!line.is_object() || line.size() != 1) return Wrong("is no JSON object with one key");
    if (number_ == 1) {
      MEMORYD_RETURN_IF_ERROR(TakeHead(line));
      continue;
    }
    const std::string& kind = line.begin().key();
    const json& value = line.begin().value();
    if (kind == "end") return TakeEnd(value);
    MEMORYD_ASSIGN_OR_RETURN(std::optional<ExportLine> taken, Take(kind, value));
    if (taken.has_value()) return *std::move(taken);
  }
  if (number_ == 0) return Wrong("is no export of memoryd");
  return Wrong("the export ends without its `end`: it is not whole");
}

}  // namespace memoryd::cli
