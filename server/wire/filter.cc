#include "server/wire/filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/field_path.h"
#include "core/base/status_macros.h"
#include "core/reads/message_filter.h"
#include "core/reads/page.h"
#include "core/sessions/session_info.h"
#include "server/wire/field_checks.h"
#include "server/wire/page_token.h"
#include "server/wire/timestamp.h"

namespace memoryd {
namespace {

constexpr int kMaxListed = 16;
constexpr int kMaxIds = 1000;
constexpr std::size_t kMaxName = 256;
constexpr std::size_t kMaxWriter = 1024;
constexpr std::size_t kMaxKey = 1024;
constexpr std::size_t kMaxValue = 4096;

absl::Status CheckCount(const FieldPath& field, int count, int most) {
  if (count <= most) return absl::OkStatus();
  return InvalidField(field, fmt::format("at most {}", most));
}

absl::StatusOr<StatusFilter> FromStatus(const FieldPath& field, v1::MessageStatus status) {
  switch (status) {
    case v1::MESSAGE_STATUS_UNSPECIFIED:
      return StatusFilter::kAll;
    case v1::MESSAGE_STATUS_ACTIVE:
      return StatusFilter::kActive;
    case v1::MESSAGE_STATUS_ARCHIVED:
      return StatusFilter::kArchived;
    default:
      return InvalidField(field, "is not a known value");
  }
}

absl::StatusOr<TimeBounds> FromRange(const FieldPath& field, const v1::TimeRange& range) {
  TimeBounds bounds;
  if (range.has_start()) {
    MEMORYD_RETURN_IF_ERROR(CheckTime(field.Field("start"), range.start()));
    bounds.start_us = ToMicros(range.start());
  }
  if (range.has_end()) {
    MEMORYD_RETURN_IF_ERROR(CheckTime(field.Field("end"), range.end()));
    bounds.end_us = ToMicros(range.end());
  }
  if (bounds.start_us.has_value() && bounds.end_us.has_value() &&
      *bounds.start_us >= *bounds.end_us) {
    return InvalidField(field.Field("end"), "must be after start");
  }
  return bounds;
}

template <typename T, typename Range>
absl::StatusOr<ValueRange<T>> FromValues(const FieldPath& field, const Range& range) {
  ValueRange<T> values;
  if (range.has_min()) values.min = range.min();
  if (range.has_below()) values.below = range.below();
  if (!values.min.has_value() && !values.below.has_value()) {
    return InvalidField(field, "give min, below or both");
  }
  if (values.min.has_value() && values.below.has_value() && *values.min >= *values.below) {
    return InvalidField(field.Field("below"), "must be more than min");
  }
  return values;
}

absl::Status CheckNumber(const FieldPath& field, double number) {
  return std::isfinite(number) ? absl::OkStatus() : InvalidField(field, "must be finite");
}

absl::Status ReadTest(const FieldPath& field, const v1::MetadataTest& asked, MetadataTest& test) {
  if (asked.key().empty()) return InvalidField(field.Field("key"), "is required");
  MEMORYD_RETURN_IF_ERROR(CheckText(field.Field("key"), asked.key(), kMaxKey));
  test.key = asked.key();
  test.test = KeyExists{asked.exists()};
  switch (asked.test_case()) {
    case v1::MetadataTest::kStringValue:
      MEMORYD_RETURN_IF_ERROR(
          CheckText(field.Field("string_value"), asked.string_value(), kMaxValue));
      test.test = asked.string_value();
      return absl::OkStatus();
    case v1::MetadataTest::kNumberValue:
      MEMORYD_RETURN_IF_ERROR(CheckNumber(field.Field("number_value"), asked.number_value()));
      test.test = asked.number_value();
      return absl::OkStatus();
    case v1::MetadataTest::kBoolValue:
      test.test = asked.bool_value();
      return absl::OkStatus();
    case v1::MetadataTest::kNumberRange: {
      const FieldPath range = field.Field("number_range");
      MEMORYD_RETURN_IF_ERROR(CheckNumber(range.Field("min"), asked.number_range().min()));
      MEMORYD_RETURN_IF_ERROR(CheckNumber(range.Field("below"), asked.number_range().below()));
      MEMORYD_ASSIGN_OR_RETURN(test.test, FromValues<double>(range, asked.number_range()));
      return absl::OkStatus();
    }
    case v1::MetadataTest::kStringRange: {
      const FieldPath range = field.Field("string_range");
      MEMORYD_RETURN_IF_ERROR(CheckText(range.Field("min"), asked.string_range().min(), kMaxValue));
      MEMORYD_RETURN_IF_ERROR(
          CheckText(range.Field("below"), asked.string_range().below(), kMaxValue));
      MEMORYD_ASSIGN_OR_RETURN(test.test, FromValues<std::string>(range, asked.string_range()));
      return absl::OkStatus();
    }
    case v1::MetadataTest::kExists:
      return absl::OkStatus();
    case v1::MetadataTest::TEST_NOT_SET:
      break;
  }
  return InvalidField(field, "exactly one test must be set");
}

absl::StatusOr<MessageFilter> FromFilter(const FieldPath& field, const v1::Filter& asked,
                                         bool nested) {
  MessageFilter filter;
  MEMORYD_RETURN_IF_ERROR(CheckCount(field.Field("roles"), asked.roles_size(), kMaxListed));
  for (int i = 0; i < asked.roles_size(); ++i) {
    MEMORYD_RETURN_IF_ERROR(CheckId(field.Element("roles", i), asked.roles(i), kMaxRoleBytes));
    filter.roles.push_back(asked.roles(i));
  }
  MEMORYD_RETURN_IF_ERROR(CheckCount(field.Field("names"), asked.names_size(), kMaxListed));
  for (int i = 0; i < asked.names_size(); ++i) {
    MEMORYD_RETURN_IF_ERROR(CheckText(field.Element("names", i), asked.names(i), kMaxName));
    filter.names.push_back(asked.names(i));
  }
  if (asked.has_thread_id()) {
    if (!asked.thread_id().empty()) {
      MEMORYD_RETURN_IF_ERROR(CheckId(field.Field("thread_id"), asked.thread_id(), kMaxIdBytes));
    }
    filter.thread_id = asked.thread_id();
  }
  MEMORYD_ASSIGN_OR_RETURN(filter.status, FromStatus(field.Field("status"), asked.status()));
  MEMORYD_RETURN_IF_ERROR(
      CheckCount(field.Field("message_ids"), asked.message_ids_size(), kMaxIds));
  for (int i = 0; i < asked.message_ids_size(); ++i) {
    MEMORYD_RETURN_IF_ERROR(
        CheckId(field.Element("message_ids", i), asked.message_ids(i), kMaxIdBytes));
    filter.message_ids.push_back(asked.message_ids(i));
  }
  std::sort(filter.message_ids.begin(), filter.message_ids.end());
  MEMORYD_ASSIGN_OR_RETURN(filter.create,
                           FromRange(field.Field("create_time"), asked.create_time()));
  MEMORYD_ASSIGN_OR_RETURN(filter.ingest,
                           FromRange(field.Field("ingest_time"), asked.ingest_time()));
  MEMORYD_RETURN_IF_ERROR(CheckCount(field.Field("metadata"), asked.metadata_size(), kMaxListed));
  for (int i = 0; i < asked.metadata_size(); ++i) {
    MEMORYD_RETURN_IF_ERROR(
        ReadTest(field.Element("metadata", i), asked.metadata(i), filter.metadata.emplace_back()));
  }
  MEMORYD_RETURN_IF_ERROR(CheckCount(field.Field("writers"), asked.writers_size(), kMaxListed));
  for (int i = 0; i < asked.writers_size(); ++i) {
    MEMORYD_RETURN_IF_ERROR(CheckText(field.Element("writers", i), asked.writers(i), kMaxWriter));
    filter.writers.push_back(asked.writers(i));
  }
  if (asked.has_untrusted()) filter.untrusted = asked.untrusted();
  if (asked.has_source_session_id()) {
    if (!asked.source_session_id().empty()) {
      MEMORYD_RETURN_IF_ERROR(
          CheckId(field.Field("source_session_id"), asked.source_session_id(), kMaxSessionId));
    }
    filter.source_session_id = asked.source_session_id();
  }
  if (nested && asked.any_of_size() > 0) {
    return InvalidField(field.Field("any_of"), "a filter in any_of has none of its own");
  }
  MEMORYD_RETURN_IF_ERROR(CheckCount(field.Field("any_of"), asked.any_of_size(), kMaxListed));
  for (int i = 0; i < asked.any_of_size(); ++i) {
    MEMORYD_ASSIGN_OR_RETURN(MessageFilter one, FromFilter(field.Element("any_of", i),
                                                           asked.any_of(i), /*nested=*/true));
    filter.any_of.push_back(std::move(one));
  }
  return filter;
}

}  // namespace

absl::StatusOr<MessageFilter> FromProto(const v1::Filter& filter) {
  return FromFilter("filter", filter, /*nested=*/false);
}

std::string PageScope(std::string_view method, const PageRequest& page, const v1::Filter& filter) {
  // Without an order it is as servers knew it before there was one.
  return fmt::format("{}{}/{}/{}/{}/{}/{}{}{}", method, page.newest_first ? "/newest" : "",
                     static_cast<int>(page.status), page.include_contents, page.key.tenant.size(),
                     page.key.session.size(), page.key.tenant, page.key.session,
                     page.filter == nullptr ? std::string() : filter.SerializeAsString());
}

absl::Status SetOrder(v1::MessageOrder order, PageRequest& page) {
  if (!v1::MessageOrder_IsValid(order)) return InvalidField("order", "is not a known value");
  page.newest_first = order == v1::MESSAGE_ORDER_NEWEST_FIRST;
  return absl::OkStatus();
}

absl::Status SetPlace(std::string_view scope, std::string_view token, PageRequest& page) {
  if (token.empty()) return absl::OkStatus();
  MEMORYD_ASSIGN_OR_RETURN(const PagePosition position, DecodePageToken(scope, token));
  page.generation = position.generation;
  (position.in_contents ? page.from_content : page.from_position) = position.position;
  page.until_content = position.until_content;
  return absl::OkStatus();
}

std::string NextToken(std::string_view scope, const Page& page) {
  const std::uint64_t generation = page.row.generation;
  if (page.next_position > 0) {
    return EncodePageToken(scope, {generation, page.next_position, false, page.until_content});
  }
  if (page.next_content > 0) {
    return EncodePageToken(scope, {generation, page.next_content, true, page.until_content});
  }
  return {};
}

absl::Status SetFilter(v1::MessageStatus status, v1::Filter& filter, PageRequest& page) {
  MEMORYD_ASSIGN_OR_RETURN(page.status, FromStatus("status", status));
  filter.DiscardUnknownFields();
  MEMORYD_ASSIGN_OR_RETURN(MessageFilter asked, FromProto(filter));
  if (asked.status != StatusFilter::kAll) {
    if (page.status != StatusFilter::kAll && page.status != asked.status) {
      return InvalidField("filter.status", "is another than status; give one of them");
    }
    page.status = asked.status;
  }
  if (!asked.IsStatusAlone()) page.filter = std::make_shared<MessageFilter>(std::move(asked));
  return absl::OkStatus();
}

}  // namespace memoryd
