#include "core/blocks/memory_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/blocks/block.h"
#include "core/blocks/block_options.h"
#include "core/blocks/block_text.h"
#include "core/blocks/media_url.h"
#include "core/model/body_reader.h"
#include "core/model/session_config.h"
#include "core/tokens/python_repr.h"
#include "core/tokens/token_counter.h"

namespace memoryd {
namespace {

constexpr std::string_view kOpen = "<memory>\n";
constexpr std::string_view kClose = "</memory>";
// What a message counts beyond its parts, see TokenRules.
constexpr std::int64_t kMessageOverhead = 4;
constexpr std::string_view kUsualSection = "<{name}>\n{content}\n</{name}>";

class ByteCounter final : public TokenCounter {
 public:
  std::int64_t Count(std::string_view text) const override {
    return static_cast<std::int64_t>((text.size() + 3) / 4);
  }
};

std::int64_t MediaEstimate(const CountingRules& rules, StoredPart::Kind kind) {
  switch (kind) {
    case StoredPart::Kind::kImage:
      return rules.image_token_count;
    case StoredPart::Kind::kAudio:
      return rules.audio_token_count;
    case StoredPart::Kind::kVideo:
      return rules.video_token_count;
    default:
      return rules.document_token_count;
  }
}

// The text around a section's content.
struct Frame {
  std::string before;
  std::string after;      // Behind a line that the content ends.
  bool own_line = false;  // Whether the content ends a line.
};

Frame FrameOf(const MemorySection& section) {
  const std::string_view form =
      section.section.empty() ? kUsualSection : std::string_view(section.section);
  constexpr std::string_view kContent = "{content}";
  const std::size_t at = form.find(kContent);
  Frame frame;
  frame.before = FillTemplate(form.substr(0, at), {{"name", section.name}});
  if (at != std::string_view::npos) {
    frame.after = FillTemplate(form.substr(at + kContent.size()), {{"name", section.name}});
  }
  frame.own_line = frame.after.starts_with('\n');
  if (frame.own_line) frame.after.erase(0, 1);
  frame.after += '\n';
  return frame;
}

// Builds text that media cut into pieces.
class Composer {
 public:
  Composer(Profile profile, std::vector<std::string_view> tags)
      : profile_(profile), tags_(std::move(tags)) {}

  void AddText(std::string_view text) { text_ += text; }

  absl::Status AddSection(const MemorySection& section) {
    const Frame frame = FrameOf(section);
    text_ += frame.before;
    for (const BlockPart& part : section.content.parts) MEMORYD_RETURN_IF_ERROR(AddPart(part));
    if (!frame.own_line && text_.ends_with('\n')) text_.pop_back();
    text_ += frame.after;
    return absl::OkStatus();
  }

  std::vector<BlockPart> Take() && {
    EndText();
    return std::move(parts_);
  }

 private:
  absl::Status AddPart(const BlockPart& part) {
    if (part.kind == StoredPart::Kind::kText) {
      text_ += profile_ == Profile::kLlamaIndex ? part.text : EscapeTags(part.text, tags_);
      text_ += '\n';
    } else if (IsMedia(part.kind)) {
      return AddMedia(part);
    } else if (profile_ != Profile::kLlamaIndex && part.kind != StoredPart::Kind::kThinking &&
               !part.text.empty()) {
      text_ += EscapeTags(part.text, tags_);
      text_ += '\n';
    }
    return absl::OkStatus();
  }

  absl::Status AddMedia(const BlockPart& part) {
    if (profile_ != Profile::kLlamaIndex) {
      EndText();
      parts_.push_back(part);
      return absl::OkStatus();
    }
    if (part.url.empty()) return absl::OkStatus();
    MEMORYD_ASSIGN_OR_RETURN(BlockPart media, MediaOfUrl(part.kind, part.url));
    EndText();
    parts_.push_back(std::move(media));
    return absl::OkStatus();
  }

  void EndText() {
    const std::string_view text = PythonStrip(text_);
    if (!text.empty()) parts_.emplace_back().text = text;
    text_.clear();
  }

  const Profile profile_;
  const std::vector<std::string_view> tags_;
  std::string text_;
  std::vector<BlockPart> parts_;
};

std::vector<std::string_view> TagsOf(std::span<const MemorySection> sections) {
  std::vector<std::string_view> tags = {"memory", "memoryd_memory", "memoryd_recall"};
  for (const MemorySection& section : sections) tags.push_back(section.name);
  return tags;
}

absl::StatusOr<std::int64_t> LlamaMessageTokens(const CountingRules& rules,
                                                const TokenCounter& counter,
                                                const StoredMessage& message) {
  std::int64_t tokens = 0;
  if (!message.metadata_json.empty()) {
    MEMORYD_ASSIGN_OR_RETURN(const std::string repr, PythonRepr(message.metadata_json));
    if (repr != "{}") tokens += counter.Count(repr);
  }
  for (const StoredPart& part : message.parts) {
    if (part.kind == StoredPart::Kind::kText) {
      tokens += counter.Count(part.text);
    } else if (IsMedia(part.kind)) {
      tokens += MediaEstimate(rules, part.kind);
    }
  }
  return tokens;
}

std::int64_t DefaultMessageTokens(const CountingRules& rules, const TokenCounter& counter,
                                  const StoredMessage& message) {
  std::int64_t tokens = kMessageOverhead;
  for (const StoredPart& part : message.parts) {
    tokens += IsMedia(part.kind) ? part.token_count.value_or(MediaEstimate(rules, part.kind))
                                 : counter.Count(part.text) + counter.Count(part.tool_name) +
                                       counter.Count(part.arguments_json);
  }
  return tokens;
}

absl::StatusOr<std::int64_t> LlamaPartTokens(const CountingRules& rules,
                                             const TokenCounter& counter, const BlockPart& part) {
  if (part.kind == StoredPart::Kind::kText) return counter.Count(part.text);
  if (IsMedia(part.kind)) return MediaEstimate(rules, part.kind);
  if (part.kind == StoredPart::Kind::kOpaque && part.opaque_type == "cache") return 0;
  return absl::InvalidArgumentError("Invalid message type: <class 'list'>");
}

}  // namespace

bool IsMedia(StoredPart::Kind kind) {
  return kind == StoredPart::Kind::kImage || kind == StoredPart::Kind::kAudio ||
         kind == StoredPart::Kind::kVideo || kind == StoredPart::Kind::kDocument;
}

std::string PlainText(const BlockContent& content) {
  StoredMessage message;
  for (const BlockPart& part : content.parts) {
    StoredPart& stored = message.parts.emplace_back();
    stored.kind = part.kind;
    stored.text = part.text;
    stored.url = part.url;
  }
  return MessageWords(message);
}

absl::StatusOr<std::vector<BlockPart>> MemoryParts(Profile profile,
                                                   std::span<const MemorySection> sections) {
  if (std::all_of(sections.begin(), sections.end(),
                  [](const MemorySection& section) { return section.content.parts.empty(); })) {
    return std::vector<BlockPart>();
  }
  Composer composer(profile, TagsOf(sections));
  composer.AddText(kOpen);
  for (const MemorySection& section : sections) {
    if (!section.content.parts.empty()) MEMORYD_RETURN_IF_ERROR(composer.AddSection(section));
  }
  composer.AddText(kClose);
  return std::move(composer).Take();
}

const TokenCounter& ByteTokenCounter() {
  static const ByteCounter kCounter;
  return kCounter;
}

absl::StatusOr<std::int64_t> SectionTokens(const CountingRules& rules, const TokenCounter& counter,
                                           std::span<const MemorySection> sections, std::size_t i) {
  const MemorySection& section = sections[i];
  std::int64_t tokens = 0;
  if (rules.profile == Profile::kLlamaIndex) {
    for (const BlockPart& part : section.content.parts) {
      MEMORYD_ASSIGN_OR_RETURN(const std::int64_t part_tokens,
                               LlamaPartTokens(rules, counter, part));
      tokens += part_tokens;
    }
    for (const StoredMessage& message : section.content.messages) {
      MEMORYD_ASSIGN_OR_RETURN(const std::int64_t message_tokens,
                               LlamaMessageTokens(rules, counter, message));
      tokens += message_tokens;
    }
    return tokens;
  }
  for (const StoredMessage& message : section.content.messages) {
    tokens += DefaultMessageTokens(rules, counter, message);
  }
  if (section.content.parts.empty()) return tokens;
  Composer composer(rules.profile, TagsOf(sections));
  MEMORYD_RETURN_IF_ERROR(composer.AddSection(section));
  for (const BlockPart& part : std::move(composer).Take()) {
    // A line ends between two sections: no token reaches over it.
    tokens += IsMedia(part.kind) ? part.token_count.value_or(MediaEstimate(rules, part.kind))
                                 : counter.Count(part.text + '\n');
  }
  return tokens;
}

std::int64_t FrameTokens(const CountingRules& rules, const TokenCounter& counter,
                         std::span<const MemorySection> sections) {
  const bool any_parts =
      std::any_of(sections.begin(), sections.end(),
                  [](const MemorySection& section) { return !section.content.parts.empty(); });
  if (!any_parts || rules.profile == Profile::kLlamaIndex) return 0;
  return counter.Count(kOpen) + counter.Count(kClose) + kMessageOverhead;
}

std::string SectionOption(BlockOptions& options) {
  return options.Template("template", "", {"content"});
}

BlockContent WithoutLowestRanks(BlockContent content, std::int64_t tokens,
                                const TokenCounter& counter) {
  std::vector<BlockPart>& parts = content.parts;
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&parts](std::size_t a, std::size_t b) {
    return parts[a].rank != parts[b].rank ? parts[a].rank < parts[b].rank : a > b;
  });
  std::vector<bool> left_out(parts.size(), false);
  for (std::size_t i = 0; i < order.size() && tokens > 0; ++i) {
    const BlockPart& part = parts[order[i]];
    left_out[order[i]] = true;
    tokens -= part.token_count.value_or(counter.Count(part.text));
  }
  BlockContent rest;
  if (tokens > 0) return rest;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!left_out[i]) rest.parts.push_back(std::move(parts[i]));
  }
  return rest;
}

}  // namespace memoryd
