#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/llm/model.h"
#include "core/llm/openai_protocol.h"
#include "core/model/job.h"

namespace memoryd {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxDepth = 64;

absl::Status Bad(std::string_view message) {
  return absl::DataLossError(std::string("its answer ") + std::string(message));
}

// Reads JSON and tells of each value where it stands, keeping nothing but the way there.
class JsonPaths : public nlohmann::json_sax<Json> {
 public:
  // False when it is not JSON, or a handler said no; `error` then has the latter's words.
  bool Read(std::string_view text) {
    return Json::sax_parse(text.begin(), text.end(), static_cast<nlohmann::json_sax<Json>*>(this));
  }

  const std::optional<absl::Status>& error() const { return error_; }

 protected:
  // Each is called with the place in `levels_`.
  virtual bool OnObject() { return true; }
  virtual bool OnArray() { return true; }
  virtual bool OnNull() { return true; }
  virtual bool OnText(std::string&) { return true; }
  virtual bool OnNumber(double) { return true; }
  virtual bool OnBool() { return true; }

  std::size_t depth() const { return levels_.size(); }
  // Whether the value at `level` is that of `key` in an object.
  bool IsKey(std::size_t level, std::string_view key) const {
    return !levels_[level].is_array && levels_[level].key == key;
  }
  bool IsItem(std::size_t level) const { return levels_[level].is_array; }
  std::size_t item(std::size_t level) const { return levels_[level].item; }

  bool Fail(std::string_view message) {
    error_ = Bad(message);
    return false;
  }

 private:
  struct Level {
    bool is_array = false;
    std::size_t item = 0;
    std::string key;
  };

  bool null() override { return Value(OnNull()); }
  bool boolean(bool) override { return Value(OnBool()); }
  bool number_integer(number_integer_t value) override {
    return Value(OnNumber(static_cast<double>(value)));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return Value(OnNumber(static_cast<double>(value)));
  }
  bool number_float(number_float_t value, const string_t&) override {
    return Value(OnNumber(value));
  }
  bool string(string_t& value) override { return Value(OnText(value)); }
  bool binary(binary_t&) override { return false; }
  bool key(string_t& value) override {
    levels_.back().key = value;
    return true;
  }
  bool start_object(std::size_t) override { return Open(OnObject(), false); }
  bool start_array(std::size_t) override { return Open(OnArray(), true); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
    return false;
  }

  bool Open(bool go_on, bool is_array) {
    if (!go_on || levels_.size() == kMaxDepth) return false;
    levels_.push_back({is_array, 0, {}});
    return true;
  }
  bool Close() {
    levels_.pop_back();
    return Value(true);
  }
  bool Value(bool go_on) {
    if (!levels_.empty() && levels_.back().is_array) ++levels_.back().item;
    return go_on;
  }

  std::vector<Level> levels_;
  std::optional<absl::Status> error_;
};

// Reads usage too, which both answers have.
class AnswerReader : public JsonPaths {
 public:
  // The usage, or why there is no answer.
  absl::StatusOr<Usage> ReadAnswer(std::string_view text) {
    if (!Read(text)) return error().has_value() ? *error() : Bad("is not JSON");
    if (!is_object_) return Bad("is not a JSON object");
    return usage_;
  }

 protected:
  bool OnObject() override {
    if (depth() == 0) is_object_ = true;
    return true;
  }

  bool OnNumber(double value) override {
    if (depth() != 2 || !IsKey(0, "usage")) return true;
    // What is not a count is not ours to mend.
    if (!(value >= 0) || value > static_cast<double>(kMaxAnswerUsage)) return true;
    if (IsKey(1, "prompt_tokens")) usage_.prompt_tokens = static_cast<std::int64_t>(value);
    if (IsKey(1, "completion_tokens")) usage_.completion_tokens = static_cast<std::int64_t>(value);
    return true;
  }

 private:
  bool is_object_ = false;
  Usage usage_;
};

constexpr std::size_t kMaxFinishReason = 64;

// Of parts of the content that are no part of the answer.
bool IsAside(std::string_view type) {
  return type == "thinking" || type == "reasoning" || type == "reasoning_text" ||
         type == "redacted_thinking" || type == "refusal";
}

// choices[0].message.content: a string, null, or an array of parts. choices[0].finish_reason.
class ChatReader final : public AnswerReader {
 public:
  bool has_message() const { return has_message_; }
  std::string TakeText() {
    EndPart();
    return std::move(text_);
  }
  std::string TakeFinishReason() { return std::move(finish_reason_); }

 protected:
  bool OnObject() override {
    if (InMessage(3)) has_message_ = true;
    if (depth() == 5 && InMessageContent()) EndPart();
    if (IsContent()) return Fail("has content that is not text");
    return AnswerReader::OnObject();
  }
  bool OnNumber(double value) override {
    if (IsContent()) return Fail("has content that is not text");
    return AnswerReader::OnNumber(value);
  }
  bool OnBool() override { return !IsContent() || Fail("has content that is not text"); }
  bool OnText(std::string& value) override {
    if (IsContent()) {
      text_ = std::move(value);
    } else if (depth() == 6 && InMessageContent() && IsItem(4) && IsKey(5, "text")) {
      part_ += value;
    } else if (depth() == 6 && InMessageContent() && IsItem(4) && IsKey(5, "type")) {
      is_aside_ = IsAside(value);
    } else if (depth() == 3 && InChoice() && IsKey(2, "finish_reason") &&
               value.size() <= kMaxFinishReason) {
      finish_reason_ = std::move(value);
    }
    return true;
  }

 private:
  bool InChoice() const { return IsKey(0, "choices") && IsItem(1) && item(1) == 0; }
  // Whether the place is choices[0].message, or within it, at this depth.
  bool InMessage(std::size_t at) const {
    return depth() == at && InChoice() && IsKey(2, "message");
  }
  bool InMessageContent() const { return InChoice() && IsKey(2, "message") && IsKey(3, "content"); }
  // A part says what it is before or behind its text.
  void EndPart() {
    if (!is_aside_) text_ += part_;
    part_.clear();
    is_aside_ = false;
  }
  bool IsContent() const { return depth() == 4 && InMessageContent(); }

  bool has_message_ = false;
  std::string text_;
  std::string part_;
  bool is_aside_ = false;
  std::string finish_reason_;
};

// data[i].embedding, data[i].index.
class EmbeddingReader final : public AnswerReader {
 public:
  EmbeddingReader(std::size_t count, std::size_t dimensions)
      : dimensions_(dimensions),
        most_(dimensions == 0 ? kMaxEmbeddingSize : std::min(dimensions, kMaxEmbeddingSize)),
        found_(count) {}

  // In the order of the texts.
  absl::StatusOr<std::vector<std::vector<float>>> TakeVectors() {
    std::vector<std::vector<float>> vectors(found_.size());
    for (std::size_t i = 0; i < found_.size(); ++i) {
      Found& found = found_[i];
      const std::size_t index = found.index.value_or(i);
      if (index >= vectors.size() || !vectors[index].empty()) {
        return Bad("does not have one embedding for each text");
      }
      if (found.vector.empty()) return Bad("lacks an embedding");
      if (found.vector.size() != (dimensions_ != 0 ? dimensions_ : found_[0].size)) {
        return Bad("has an embedding of the wrong size");
      }
      vectors[index] = std::move(found.vector);
    }
    return vectors;
  }

 protected:
  bool OnObject() override {
    if (IsEmbedding()) return Fail("has an embedding that is not a list of numbers");
    if (depth() == 2 && IsKey(0, "data") && IsItem(1) && item(1) >= found_.size()) {
      return Fail("has more embeddings than there are texts");
    }
    return AnswerReader::OnObject();
  }
  bool OnArray() override {
    if (depth() == 4 && InEmbedding()) return Fail("has an embedding that is a list of lists");
    if (IsEmbedding() && !found_[item(1)].vector.empty()) return Fail("has an embedding twice");
    return true;
  }
  bool OnText(std::string&) override { return NotANumber(); }
  bool OnNull() override { return NotANumber(); }
  bool OnBool() override { return NotANumber(); }
  bool OnNumber(double value) override {
    if (depth() == 4 && InEmbedding()) {
      if (!std::isfinite(value) || std::abs(value) > std::numeric_limits<float>::max()) {
        return Fail("has a number that is not finite");
      }
      Found& found = found_[item(1)];
      if (found.size == most_) {
        return most_ == dimensions_
                   ? Fail("has an embedding of the wrong size")
                   : Fail(fmt::format("has an embedding of more than {} numbers", most_));
      }
      found.vector.push_back(static_cast<float>(value));
      ++found.size;
      return true;
    }
    if (depth() == 3 && IsKey(0, "data") && IsItem(1) && IsKey(2, "index") &&
        item(1) < found_.size()) {
      const bool is_index =
          value >= 0 && value < static_cast<double>(found_.size()) && value == std::floor(value);
      if (!is_index) return Fail("has an index that no text has");
      found_[item(1)].index = static_cast<std::size_t>(value);
      return true;
    }
    return AnswerReader::OnNumber(value);
  }

 private:
  struct Found {
    std::optional<std::size_t> index;
    std::vector<float> vector;
    std::size_t size = 0;  // Stays when the vector is taken.
  };

  bool InEmbedding() const {
    return IsKey(0, "data") && IsItem(1) && item(1) < found_.size() && IsKey(2, "embedding");
  }
  bool IsEmbedding() const { return depth() == 3 && InEmbedding(); }
  bool NotANumber() {
    if (depth() >= 3 && depth() <= 4 && InEmbedding()) {
      return Fail("has an embedding that is not a list of numbers");
    }
    return true;
  }

  const std::size_t dimensions_;
  const std::size_t most_;  // Numbers of an embedding.
  std::vector<Found> found_;
};

}  // namespace

absl::StatusOr<ChatReply> ParseChatAnswer(std::string_view answer) {
  ChatReader reader;
  const absl::StatusOr<Usage> usage = reader.ReadAnswer(answer);
  if (!usage.ok()) return usage.status();
  if (!reader.has_message()) return Bad("has no message");
  ChatReply reply;
  reply.text = reader.TakeText();
  reply.finish_reason = reader.TakeFinishReason();
  reply.usage = *usage;
  return reply;
}

absl::StatusOr<EmbedReply> ParseEmbeddingAnswer(std::string_view answer, std::size_t count,
                                                std::size_t dimensions) {
  EmbeddingReader reader(count, dimensions);
  const absl::StatusOr<Usage> usage = reader.ReadAnswer(answer);
  if (!usage.ok()) return usage.status();
  absl::StatusOr<std::vector<std::vector<float>>> vectors = reader.TakeVectors();
  if (!vectors.ok()) return vectors.status();
  EmbedReply reply;
  reply.vectors = *std::move(vectors);
  reply.usage = *usage;
  return reply;
}

}  // namespace memoryd
