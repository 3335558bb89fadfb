#include "core/engine/update_context.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <utility>

#include "core/blocks/block_text.h"
#include "core/model/role.h"
#include "core/tokens/python_repr.h"

namespace memoryd {
namespace {

struct Tag {
  std::string_view open;
  std::string_view close;
};
constexpr Tag kMemory{"<memoryd_memory>", "</memoryd_memory>"};
constexpr Tag kRecall{"<memoryd_recall>", "</memoryd_recall>"};
constexpr std::array kTags = {kMemory, kRecall};
constexpr std::string_view kTagStart = "<memoryd_";

// What, behind `<` or `</`, would read as a tag of ours.
constexpr std::array<std::string_view, 5> kTagNames = {"memoryd_memory", "memoryd_recall",
                                                       "memoryd_block", "item", "message"};

bool IsSystem(std::string_view role) { return role == "system" || role == "developer"; }

std::string Escaped(std::string_view text) {
  return EscapeTags(text, kTagNames, /*whole_names=*/false);
}

// Finds what memory put into a text: from a tag at the beginning of a line to the next closing one
// at the end of a line. Linear in the text over all calls, since `from` must not fall. What is left
// without what was found has nothing more to be found: an open tag in it has no such closing one.
class MemoryFinder {
 public:
  explicit MemoryFinder(std::string_view text) : text_(text) {}

  std::optional<std::pair<std::size_t, std::size_t>> Next(std::size_t from) {
    for (std::size_t begin = text_.find(kTagStart, from); begin != std::string_view::npos;
         begin = text_.find(kTagStart, begin + 1)) {
      if (begin > 0 && text_[begin - 1] != '\n') continue;
      for (std::size_t i = 0; i < kTags.size(); ++i) {
        if (unclosed_[i] || !text_.substr(begin).starts_with(kTags[i].open)) continue;
        const std::size_t end = FindEnd(kTags[i].close, begin);
        if (end != std::string_view::npos) return std::pair(begin, end);
        unclosed_[i] = true;
      }
    }
    return std::nullopt;
  }

 private:
  // Behind the next `close` that ends a line.
  std::size_t FindEnd(std::string_view close, std::size_t from) const {
    for (std::size_t at = text_.find(close, from); at != std::string_view::npos;
         at = text_.find(close, at + 1)) {
      const std::size_t end = at + close.size();
      if (end == text_.size() || text_[end] == '\n') return end;
    }
    return std::string_view::npos;
  }

  const std::string_view text_;
  std::array<bool, kTags.size()> unclosed_{};  // None closes it any more.
};

// `text` without what memory put in; nullopt when there is nothing of it.
std::optional<std::string> Without(std::string_view text) {
  MemoryFinder finder(text);
  auto found = finder.Next(0);
  if (!found.has_value()) return std::nullopt;
  std::string rest;
  std::size_t done = 0;
  for (; found.has_value(); found = finder.Next(done)) {
    rest.append(text.substr(done, found->first - done));
    while (rest.ends_with('\n')) rest.pop_back();
    done = found->second;
    while (done < text.size() && text[done] == '\n') ++done;
    if (!rest.empty() && done < text.size()) rest += "\n\n";
  }
  return rest.append(text.substr(done));
}

// The texts of a message without what memory put in; nullopt when there is nothing of it.
std::optional<std::vector<std::string>> Without(const ContextMessage& message) {
  std::optional<std::vector<std::string>> texts;
  for (std::size_t i = 0; i < message.texts.size(); ++i) {
    std::optional<std::string> rest = Without(message.texts[i]);
    if (!rest.has_value()) continue;
    if (!texts.has_value()) texts.emplace(message.texts.begin(), message.texts.end());
    (*texts)[i] = *std::move(rest);
  }
  return texts;
}

bool AllEmpty(const std::vector<std::string>& texts) {
  return std::all_of(texts.begin(), texts.end(), [](const std::string& t) { return t.empty(); });
}

std::string_view RoleOf(InsertMethod method) {
  return method == InsertMethod::kUser ? "user" : "system";
}

std::string ItemText(const ContentValue& content) {
  switch (content.kind) {
    case ContentValue::Kind::kText:
    case ContentValue::Kind::kJson:
      return Escaped(content.value);
    case ContentValue::Kind::kBytes:
      return fmt::format("[{} bytes]", content.value.size());
    case ContentValue::Kind::kImage:
      return "[image]";
  }
  return {};
}

std::string MemoryText(std::span<const StableBlock> blocks,
                       std::span<const ContentValue> contents) {
  std::string text = fmt::format("{}\n", kMemory.open);
  for (const StableBlock& block : blocks) {
    fmt::format_to(std::back_inserter(text), "<memoryd_block name=\"{}\">\n{}\n</memoryd_block>\n",
                   EscapeAttribute(block.name), Escaped(block.text));
  }
  for (const ContentValue& content : contents) {
    text += "<item";
    if (content.mime_type != "text/plain") {
      fmt::format_to(std::back_inserter(text), " type=\"{}\"", EscapeAttribute(content.mime_type));
    }
    fmt::format_to(std::back_inserter(text), ">{}</item>\n", ItemText(content));
  }
  text += kMemory.close;
  return text;
}

std::string Date(std::int64_t time_us) {
  const std::chrono::sys_time<std::chrono::microseconds> time{std::chrono::microseconds(time_us)};
  const std::chrono::year_month_day day(std::chrono::floor<std::chrono::days>(time));
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(day.year()),
                     static_cast<unsigned>(day.month()), static_cast<unsigned>(day.day()));
}

std::string RecallText(std::span<const RecalledMessage> recalled) {
  std::string text = fmt::format("{}\n", kRecall.open);
  for (const RecalledMessage& entry : recalled) {
    fmt::format_to(std::back_inserter(text), "<message role=\"{}\" date=\"{}\">{}</message>\n",
                   EscapeAttribute(entry.message.role), Date(entry.time_us),
                   Escaped(entry.message.text));
  }
  text += kRecall.close;
  return text;
}

std::string Hash(std::string_view text) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  std::string hex;
  for (std::size_t i = 0; i < 16; ++i) fmt::format_to(std::back_inserter(hex), "{:02x}", digest[i]);
  return hex;
}

// repr() of Python's bytes.
std::string BytesRepr(std::string_view bytes) {
  const char quote =
      bytes.find('\'') != std::string_view::npos && bytes.find('"') == std::string_view::npos
          ? '"'
          : '\'';
  std::string repr = fmt::format("b{}", quote);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') {
      repr += '\\';
      repr += c;
    } else if (c == '\t') {
      repr += "\\t";
    } else if (c == '\n') {
      repr += "\\n";
    } else if (c == '\r') {
      repr += "\\r";
    } else if (byte < 0x20 || byte >= 0x7F) {
      fmt::format_to(std::back_inserter(repr), "\\x{:02x}", byte);
    } else {
      repr += c;
    }
  }
  return repr += quote;
}

}  // namespace

BareContext RemoveMemory(std::span<const ContextMessage> messages, InsertMethod method) {
  BareContext context;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const ContextMessage& message = messages[i];
    KeptMessage kept{i, std::nullopt};
    const bool is_user = ParseRole(message.role) == Role::kUser;
    if (is_user || IsSystem(message.role)) {
      kept.texts = Without(message);
      if (kept.texts.has_value() && message.only_text && AllEmpty(*kept.texts)) continue;
      if (is_user && method != InsertMethod::kUser) kept.texts.reset();
    }
    if (IsSystem(message.role) && context.prefix_index == context.kept.size()) {
      ++context.prefix_index;
    }
    context.kept.push_back(std::move(kept));
  }
  context.last_user = context.kept.size();
  for (std::size_t i = context.kept.size(); i-- > 0;) {
    const KeptMessage& kept = context.kept[i];
    const ContextMessage& message = messages[kept.index];
    if (ParseRole(message.role) != Role::kUser) continue;
    context.last_user = i;
    context.question = kept.texts.has_value() ? fmt::format("{}", fmt::join(*kept.texts, "\n"))
                                              : fmt::format("{}", fmt::join(message.texts, "\n"));
    break;
  }
  return context;
}

MemoryInsertions InsertMemory(const BareContext& context, InsertMethod method,
                              std::span<const StableBlock> blocks,
                              std::span<const ContentValue> contents,
                              std::span<const RecalledMessage> recalled) {
  MemoryInsertions insertions;
  const std::string role(RoleOf(method));
  if (!blocks.empty() || !contents.empty()) {
    std::string text = MemoryText(blocks, contents);
    insertions.stable_prefix_hash = Hash(text);
    insertions.messages.push_back({context.prefix_index, role, std::move(text)});
  }
  if (!recalled.empty()) {
    insertions.messages.push_back({context.last_user, role, RecallText(recalled)});
  }
  return insertions;
}

absl::StatusOr<std::string> ListMemoryText(std::span<const ContentValue> contents) {
  std::string text = "\nRelevant memory content (in chronological order):\n";
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const ContentValue& content = contents[i];
    fmt::format_to(std::back_inserter(text), "{}. ", i + 1);
    switch (content.kind) {
      case ContentValue::Kind::kText:
        text += content.value;
        break;
      case ContentValue::Kind::kJson: {
        const auto repr = PythonRepr(content.value);
        if (!repr.ok()) return absl::DataLossError("a stored content can't be read back");
        text += *repr;
        break;
      }
      case ContentValue::Kind::kBytes:
        text += BytesRepr(content.value);
        break;
      case ContentValue::Kind::kImage:
        text += "<Image>";
        break;
    }
    text += '\n';
  }
  return text;
}

}  // namespace memoryd
