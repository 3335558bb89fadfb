// Which messages, and contents, a page holds.
#ifndef MEMORYD_CORE_READS_MESSAGE_FILTER_H_
#define MEMORYD_CORE_READS_MESSAGE_FILTER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/body_reader.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/sessions/session_info.h"

namespace memoryd {

// [start, end), in microseconds since the epoch.
struct TimeBounds {
  std::optional<std::int64_t> start_us;
  std::optional<std::int64_t> end_us;

  bool empty() const { return !start_us.has_value() && !end_us.has_value(); }
};

// [min, below).
template <typename T>
struct ValueRange {
  std::optional<T> min;
  std::optional<T> below;
};

// Whether a key is to be there.
struct KeyExists {
  bool wanted = true;
};

// What the value of a top-level key of the metadata must be.
struct MetadataTest {
  std::string key;
  std::variant<KeyExists, std::string, double, bool, ValueRange<double>, ValueRange<std::string>>
      test;
};

// What is empty does not limit; the rest must all hold. See memoryd.v1.Filter.
struct MessageFilter {
  std::vector<std::string> roles;
  std::vector<std::string> names;
  std::optional<std::string> thread_id;
  StatusFilter status = StatusFilter::kAll;
  std::vector<std::string> message_ids;  // Ascending.
  TimeBounds create;
  TimeBounds ingest;
  std::vector<MetadataTest> metadata;
  std::vector<MessageFilter> any_of;
  std::vector<std::string> writers;
  std::optional<bool> untrusted;
  std::optional<std::string> source_session_id;

  // Whether it says nothing but a status.
  bool IsStatusAlone() const;
  // DATA_LOSS for a body that can't be read. `row` is the session's.
  absl::StatusOr<bool> Passes(const Message& message, const SessionRow& row,
                              const BodyReader& bodies) const;
  absl::StatusOr<bool> PassesContent(const Content& content, const BodyReader& bodies) const;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_READS_MESSAGE_FILTER_H_
