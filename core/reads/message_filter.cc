#include "core/reads/message_filter.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/json_check.h"
#include "core/base/status_macros.h"
#include "core/model/body_reader.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/sessions/session_info.h"

namespace memoryd {
namespace {

// A value in the metadata as far as tests can tell it from others.
using MetadataValue = std::variant<std::monostate, std::string, double, bool>;

bool IsWithin(const TimeBounds& bounds, std::int64_t time_us) {
  return (!bounds.start_us.has_value() || time_us >= *bounds.start_us) &&
         (!bounds.end_us.has_value() || time_us < *bounds.end_us);
}

template <typename T>
bool IsWithin(const ValueRange<T>& range, const T& value) {
  return (!range.min.has_value() || value >= *range.min) &&
         (!range.below.has_value() || value < *range.below);
}

// Whether `value`, null when there is none, is what `test` wants.
bool Holds(const MetadataTest& test, const MetadataValue* value) {
  const auto holds = [value](const auto& wanted) {
    using Wanted = std::decay_t<decltype(wanted)>;
    if constexpr (std::is_same_v<Wanted, KeyExists>) {
      return (value != nullptr) == wanted.wanted;
    } else if constexpr (std::is_same_v<Wanted, ValueRange<double>>) {
      const double* const number = value == nullptr ? nullptr : std::get_if<double>(value);
      return number != nullptr && IsWithin(wanted, *number);
    } else if constexpr (std::is_same_v<Wanted, ValueRange<std::string>>) {
      const std::string* const text = value == nullptr ? nullptr : std::get_if<std::string>(value);
      return text != nullptr && IsWithin(wanted, *text);
    } else {
      const Wanted* const same = value == nullptr ? nullptr : std::get_if<Wanted>(value);
      return same != nullptr && *same == wanted;
    }
  };
  return std::visit(holds, test.test);
}

// Hears the values of an object's own keys, and tells for each test whether it holds.
class MetadataReader final : public JsonVisitor {
 public:
  explicit MetadataReader(const std::vector<MetadataTest>& tests) : tests_(tests) {
    held_.reserve(tests.size());
    for (const MetadataTest& test : tests) held_.push_back(Holds(test, nullptr));
  }

  bool all_held() const { return std::find(held_.begin(), held_.end(), false) == held_.end(); }

  void OnNull() override { Take(MetadataValue()); }
  void OnBool(bool value) override { Take(value); }
  void OnInteger(std::string_view literal) override {
    if (depth_ == 1) Take(std::strtod(std::string(literal).c_str(), nullptr));
  }
  void OnFloat(double value) override { Take(value); }
  void OnString(std::string_view value) override {
    if (depth_ == 1) Take(std::string(value));
  }
  void OnKey(std::string_view key) override {
    if (depth_ == 1) key_ = key;
  }
  void OnBeginObject() override { ++depth_; }
  void OnEndObject() override { Close(); }
  void OnBeginArray() override { ++depth_; }
  void OnEndArray() override { Close(); }

 private:
  // An object or array is the value of its key once it has ended.
  void Close() {
    if (--depth_ == 1) Take(MetadataValue());
  }
  void Take(const MetadataValue& value) {
    if (depth_ != 1) return;
    for (std::size_t i = 0; i < tests_.size(); ++i) {
      if (tests_[i].key == key_) held_[i] = Holds(tests_[i], &value);
    }
  }

  const std::vector<MetadataTest>& tests_;
  std::vector<bool> held_;
  std::string key_;
  int depth_ = 0;
};

absl::StatusOr<bool> MetadataHolds(const std::vector<MetadataTest>& tests, std::string_view json) {
  if (tests.empty()) return true;
  MetadataReader reader(tests);
  if (!json.empty() && !ReadJson(json, JsonLimits(), reader).ok()) {
    return absl::DataLossError("a stored metadata_json can't be read back");
  }
  return reader.all_held();
}

bool Contains(const std::vector<std::string>& values, const std::string& value) {
  return values.empty() || std::find(values.begin(), values.end(), value) != values.end();
}

bool LooksAtHead(const MessageFilter& filter) {
  return !filter.roles.empty() || !filter.names.empty() || filter.thread_id.has_value() ||
         !filter.create.empty() || !filter.metadata.empty() || !filter.writers.empty() ||
         filter.untrusted.has_value() || filter.source_session_id.has_value() ||
         std::any_of(filter.any_of.begin(), filter.any_of.end(), LooksAtHead);
}

// A message, and what has been read of it.
struct Candidate {
  const Message& message;
  const SessionRow& row;
  const MessageHead& head;
};

absl::StatusOr<bool> PassesOne(const MessageFilter& filter, const Candidate& candidate) {
  const Message& message = candidate.message;
  const MessageHead& head = candidate.head;
  if (filter.status != StatusFilter::kAll &&
      IsActive(candidate.row, message.position) != (filter.status == StatusFilter::kActive)) {
    return false;
  }
  if (!filter.message_ids.empty() &&
      !std::binary_search(filter.message_ids.begin(), filter.message_ids.end(),
                          MessageId(message, candidate.row.generation))) {
    return false;
  }
  if (!IsWithin(filter.ingest, message.ingest_us)) return false;
  if (!Contains(filter.roles, head.role) || !Contains(filter.names, head.name)) return false;
  if (filter.thread_id.has_value() && head.thread_id != *filter.thread_id) return false;
  if (!filter.create.empty() &&
      (!head.create_us.has_value() || !IsWithin(filter.create, *head.create_us))) {
    return false;
  }
  if (!Contains(filter.writers, head.writer)) return false;
  if (filter.untrusted.value_or(head.untrusted) != head.untrusted) return false;
  if (filter.source_session_id.value_or(head.source_session_id) != head.source_session_id) {
    return false;
  }
  MEMORYD_ASSIGN_OR_RETURN(const bool held, MetadataHolds(filter.metadata, head.metadata_json));
  if (!held || filter.any_of.empty()) return held;
  for (const MessageFilter& one : filter.any_of) {
    MEMORYD_ASSIGN_OR_RETURN(const bool passes, PassesOne(one, candidate));
    if (passes) return true;
  }
  return false;
}

absl::StatusOr<bool> ContentPassesOne(const MessageFilter& filter, const Content& content,
                                      const ContentValue& value) {
  if (!filter.roles.empty() || !filter.names.empty() || filter.thread_id.has_value() ||
      filter.status != StatusFilter::kAll || !filter.message_ids.empty() ||
      !filter.create.empty() || filter.source_session_id.has_value() ||
      !IsWithin(filter.ingest, content.ingest_us) || !Contains(filter.writers, value.writer) ||
      filter.untrusted.value_or(value.untrusted) != value.untrusted) {
    return false;
  }
  MEMORYD_ASSIGN_OR_RETURN(const bool held, MetadataHolds(filter.metadata, value.metadata_json));
  if (!held || filter.any_of.empty()) return held;
  for (const MessageFilter& one : filter.any_of) {
    MEMORYD_ASSIGN_OR_RETURN(const bool passes, ContentPassesOne(one, content, value));
    if (passes) return true;
  }
  return false;
}

}  // namespace

bool MessageFilter::IsStatusAlone() const {
  return !LooksAtHead(*this) && message_ids.empty() && ingest.empty() && any_of.empty();
}

absl::StatusOr<bool> MessageFilter::Passes(const Message& message, const SessionRow& row,
                                           const BodyReader& bodies) const {
  MessageHead head;
  if (LooksAtHead(*this)) {
    MEMORYD_ASSIGN_OR_RETURN(head, bodies.ReadHead(message.body));
  }
  return PassesOne(*this, {message, row, head});
}

absl::StatusOr<bool> MessageFilter::PassesContent(const Content& content,
                                                  const BodyReader& bodies) const {
  ContentValue value;
  if (LooksAtHead(*this)) {
    MEMORYD_ASSIGN_OR_RETURN(value, bodies.ReadContent(content.body));
  }
  return ContentPassesOne(*this, content, value);
}

}  // namespace memoryd
