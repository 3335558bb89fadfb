#include "cli/export_lines.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

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

absl::Status ExportLines::Wrong(const std::string& what) const {
  return absl::InvalidArgumentError(fmt::format("line {}: {}", number_, what));
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
    const std::string& kind = line.begin().key();
    const json& value = line.begin().value();
    if (number_ == 1) {
      if (kind != "memoryd_export") return Wrong("is no export of memoryd");
      if (value != kExportFormat) {
        return Wrong(fmt::format("format {}, and this memoryd reads {}: use a newer one",
                                 value.dump(), kExportFormat));
      }
      continue;
    }
    const auto read = [&]<typename T>(T /*kind*/) -> absl::StatusOr<ExportLine> {
      auto message = FromJson<T>(value);
      if (message.ok()) return ExportLine(*std::move(message));
      return Wrong(std::string(message.status().message()));
    };
    if (kind == "session") {
      ++counts_.sessions;
      return read(v1::Session());
    }
    if ((kind == "message" || kind == "content") && counts_.sessions == 0) {
      return Wrong("stands before any session");
    }
    if (kind == "message") {
      ++counts_.messages;
      return read(v1::Message());
    }
    if (kind == "content") {
      ++counts_.contents;
      return read(v1::Content());
    }
    if (kind == "end") {
      const json counts = {{"sessions", counts_.sessions},
                           {"messages", counts_.messages},
                           {"contents", counts_.contents}};
      if (value == counts) {
        if (input_.peek() == std::istream::traits_type::eof()) return ExportLine(ExportEnd());
        return Wrong("is the end, and something follows it: give one export at a time");
      }
      return Wrong(
          fmt::format("the end counts {}, and there were {}", value.dump(), counts.dump()));
    }
  }
  if (number_ == 0) return Wrong("is no export of memoryd");
  return Wrong("the export ends without its `end`: it is not whole");
}

}  // namespace memoryd::cli
