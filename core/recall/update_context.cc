#include "core/recall/update_context.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/sha256.h"
#include "core/blocks/block_text.h"
#include "core/model/body_reader.h"
#include "core/model/message.h"
#include "core/model/role.h"
#include "core/model/session_config.h"
#include "core/model/time_zone.h"
#include "core/tokens/python_repr.h"

namespace memoryd {
namespace {

struct Tag {
  std::string_view open;
  std::string_view close;
};
constexpr Tag kMemory{"<memoryd_memory>", "</memoryd_memory>"};
constexpr Tag kRecall{"<memoryd_recall>", "</memoryd_recall>"};
constexpr std::array kAllTags = {kMemory, kRecall};
constexpr std::array kRecallTag = {kRecall};
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
  MemoryFinder(std::string_view text, std::span<const Tag> tags) : text_(text), tags_(tags) {}

  std::optional<std::pair<std::size_t, std::size_t>> Next(std::size_t from) {
    for (std::size_t begin = text_.find(kTagStart, from); begin != std::string_view::npos;
         begin = text_.find(kTagStart, begin + 1)) {
      if (begin > 0 && text_[begin - 1] != '\n') continue;
      for (std::size_t i = 0; i < tags_.size(); ++i) {
        if (unclosed_[i] || !text_.substr(begin).starts_with(tags_[i].open)) continue;
        const std::size_t end = FindEnd(tags_[i].close, begin);
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
  const std::span<const Tag> tags_;
  std::array<bool, kAllTags.size()> unclosed_{};  // None closes it any more.
};

// `text` without what memory put in between `tags`; nullopt when there is nothing of it.
std::optional<std::string> Without(std::string_view text, std::span<const Tag> tags) {
  MemoryFinder finder(text, tags);
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

// `text` of a human who may speak of the tags of what stands in no message of his.
std::optional<std::string> WithoutRecall(std::string_view text) {
  const auto is_memorys = [](std::string_view whole) {
    const std::optional<std::string> rest = Without(whole, kAllTags);
    return rest.has_value() && rest->empty();
  };
  if (is_memorys(text)) return std::string();
  std::optional<std::string> rest = Without(text, kRecallTag);
  if (rest.has_value() && is_memorys(*rest)) rest->clear();
  return rest;
}

// The texts of a message without what memory put in; nullopt when there is nothing of it.
std::optional<std::vector<std::string>> Without(const ContextMessage& message, bool only_recall) {
  std::optional<std::vector<std::string>> texts;
  for (std::size_t i = 0; i < message.texts.size(); ++i) {
    std::optional<std::string> rest =
        only_recall ? WithoutRecall(message.texts[i]) : Without(message.texts[i], kAllTags);
    if (!rest.has_value()) continue;
    if (!texts.has_value()) texts.emplace(message.texts.begin(), message.texts.end());
    (*texts)[i] = *std::move(rest);
  }
  return texts;
}

// Whether nothing is left of texts that all said something.
bool IsEmptied(const ContextMessage& message, const std::vector<std::string>& rest) {
  return std::none_of(message.texts.begin(), message.texts.end(),
                      [](std::string_view text) { return text.empty(); }) &&
         std::all_of(rest.begin(), rest.end(), [](const std::string& t) { return t.empty(); });
}

// Adds the texts that are not empty, one a line.
void AddTexts(const ContextMessage& message, const KeptMessage& kept, std::string& text) {
  const auto add = [&text](std::string_view more) {
    if (more.empty()) return;
    if (!text.empty()) text += '\n';
    text += more;
  };
  if (kept.texts.has_value()) {
    for (const std::string& one : *kept.texts) add(one);
  } else {
    for (const std::string_view one : message.texts) add(one);
  }
}

// The human side's, where roles alternate.
bool IsHumanSide(const ContextMessage& message, const KeptMessage& kept) {
  return kept.is_human || message.has_results || message.role == "tool";
}

// Leaves out what can't be ahead of all others where roles alternate, and joins neighbours of one
// side.
void Alternate(std::span<const ContextMessage> messages, const ContextRules& rules,
               std::vector<KeptMessage>& chat) {
  const auto is_human = [](const KeptMessage& kept) { return kept.is_human; };
  auto first = std::find_if(chat.begin(), chat.end(), is_human);
  if (first == chat.end() || (rules.has_memory && rules.method == InsertMethod::kUser)) {
    first = std::find_if(chat.begin(), chat.end(), [&](const KeptMessage& kept) {
      return kept.is_human || !IsHumanSide(messages[kept.index], kept);
    });
  }
  chat.erase(chat.begin(), first);
  for (std::size_t i = 1; i < chat.size(); ++i) {
    chat[i].joined = IsHumanSide(messages[chat[i - 1].index], chat[i - 1]) ==
                     IsHumanSide(messages[chat[i].index], chat[i]);
  }
}

// Finds the newest human's message.
void FindQuestion(std::span<const ContextMessage> messages, BareContext& context) {
  const std::vector<KeptMessage>& kept = context.kept;
  context.question_begin = context.question_end = kept.size();
  std::size_t end = kept.size();
  bool has_human = false;  // Among those from i to `end`, which are one message.
  for (std::size_t i = kept.size(); i-- > context.prefix_index;) {
    has_human |= kept[i].is_human;
    if (kept[i].joined) continue;
    if (has_human && context.question.humans++ == 0) {
      context.question_begin = i;
      context.question_end = end;
    }
    has_human = false;
    end = i;
  }
  for (std::size_t i = context.question_begin; i < context.question_end; ++i) {
    const ContextMessage& message = messages[kept[i].index];
    AddTexts(message, kept[i], context.question.text);
    if (kept[i].is_human && context.question_role.empty()) context.question_role = message.role;
  }
  if (context.question_begin > context.prefix_index && context.question.humans > 0) {
    const KeptMessage& before = kept[context.question_begin - 1];
    context.question.before = WordsOf(messages[before.index], before);
  }
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

std::string RecallText(std::span<const RecalledMessage> recalled, absl::TimeZone zone) {
  std::string text = fmt::format("{}\n", kRecall.open);
  for (const RecalledMessage& entry : recalled) {
    fmt::format_to(std::back_inserter(text), "<message role=\"{}\" date=\"{}\">{}</message>\n",
                   EscapeAttribute(entry.message.role), DateText(entry.time_us, zone),
                   Escaped(entry.message.text));
  }
  text += kRecall.close;
  return text;
}

std::string Hash(std::string_view text) {
  const Sha256Digest digest = Sha256(text);
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

std::string WordsOf(const ContextMessage& message, const KeptMessage& kept) {
  if (!kept.texts.has_value()) return std::string(message.words());
  return fmt::format("{}", fmt::join(*kept.texts, "\n"));
}

BareContext RemoveMemory(std::span<const ContextMessage> messages, const ContextRules& rules) {
  BareContext context;
  std::vector<KeptMessage> chat;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const ContextMessage& message = messages[i];
    const bool is_system = IsSystem(message.role);
    const bool has_human_role = ParseRole(message.role, rules.user_roles) == Role::kUser;
    KeptMessage kept{i};
    kept.is_human = has_human_role && !message.only_results;
    // What is joined with a human's words is taken for them when it comes again.
    const bool is_joined = rules.alternate_roles && (message.has_results || message.role == "tool");
    if (has_human_role || is_system || is_joined) {
      const bool only_recall = !is_system && rules.method != InsertMethod::kUser;
      kept.texts = Without(message, only_recall);
      const bool emptied =
          kept.texts.has_value() && message.only_text && IsEmptied(message, *kept.texts);
      if (emptied && (has_human_role || is_system)) continue;
    }
    (is_system ? context.kept : chat).push_back(std::move(kept));
  }
  if (rules.alternate_roles) Alternate(messages, rules, chat);
  context.prefix_index = context.kept.size();
  context.kept.insert(context.kept.end(), std::make_move_iterator(chat.begin()),
                      std::make_move_iterator(chat.end()));
  FindQuestion(messages, context);
  return context;
}

MemoryInsertions InsertMemory(const BareContext& context, const ContextRules& rules,
                              std::span<const StableBlock> blocks,
                              std::span<const ContentValue> contents,
                              std::span<const RecalledMessage> recalled) {
  using Join = InsertedMessage::Join;
  MemoryInsertions insertions;
  if (!blocks.empty() || !contents.empty()) {
    std::string text = MemoryText(blocks, contents);
    insertions.stable_prefix_hash = Hash(text);
    InsertedMessage memory{context.prefix_index, "system", std::move(text)};
    if (rules.method == InsertMethod::kUser) {
      memory.role = "user";
      const bool human_next =
          context.prefix_index < context.kept.size() && context.kept[context.prefix_index].is_human;
      if (rules.alternate_roles && human_next) memory.join = Join::kNext;
    }
    insertions.messages.push_back(std::move(memory));
  }
  if (recalled.empty() || context.question.text.empty()) return insertions;
  InsertedMessage recall{context.question_begin, context.question_role,
                         RecallText(recalled, rules.zone)};
  if (rules.alternate_roles) {
    recall.before = context.question_end;
    recall.join = Join::kPrevious;
  }
  insertions.messages.push_back(std::move(recall));
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
