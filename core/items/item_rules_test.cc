#include "core/items/item_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/items/item.h"

namespace memoryd {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kMaxBytes = 64;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

std::string KeyError(std::string_view key) { return Message(CheckItemKey("put.key", key)); }

std::string ContentError(const ItemContent& content) {
  return Message(CheckItemContent("put", content, kMaxBytes));
}

ItemContent Json(std::string json) {
  ItemContent content;
  content.value = std::move(json);
  return content;
}

ItemContent Bytes(std::string bytes) {
  ItemContent content = Json(std::move(bytes));
  content.kind = ItemValueKind::kBytes;
  return content;
}

TEST(ItemRulesTest, AKeyIsUpTo1024BytesThatShow) {
  EXPECT_EQ(KeyError(std::string(1024, 'k')), "");
  EXPECT_EQ(KeyError("/memories/notes.md"), "");
  EXPECT_EQ(KeyError("\xE0\xB8\x84\xE0\xB8\xB3"), "");
  EXPECT_THAT(KeyError(""), HasSubstr("put.key: must be 1 to 1024 bytes; got 0"));
  EXPECT_THAT(KeyError(std::string(1025, 'k')), HasSubstr("must be 1 to 1024 bytes; got 1025"));
  EXPECT_THAT(KeyError(std::string("a\0b", 3)), HasSubstr("control characters"));
  EXPECT_THAT(KeyError("a\nb"), HasSubstr("control characters"));
  EXPECT_THAT(KeyError("a\xE2\x80\xA8"
                       "b"),
              HasSubstr("line separators"));
  EXPECT_THAT(KeyError("a\xE2\x80\x8B"), HasSubstr("do not show"));
  EXPECT_THAT(KeyError("\xED\xA0\x80"), HasSubstr("must be UTF-8"));
  EXPECT_THAT(KeyError("\xFF"), HasSubstr("must be UTF-8"));
}

TEST(ItemRulesTest, AValueIsStrictJsonOfAnyKind) {
  EXPECT_EQ(ContentError(Json("{\"a\": [1, null]}")), "");
  EXPECT_EQ(ContentError(Json("3")), "");
  for (const char* json : {"", "NaN", "{\"a\": Infinity}", "{\"a\": 1, \"a\": 2}", "\"\\u0000\"",
                           "\"\\uD800\"", "{", "[1] 2"}) {
    EXPECT_THAT(ContentError(Json(json)), HasSubstr("put.json: ")) << json;
  }
}

TEST(ItemRulesTest, AValueHas64LevelsAtMost) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_EQ(Message(CheckItemContent("put", Json(nested(64)), 1000)), "");
  EXPECT_THAT(Message(CheckItemContent("put", Json(nested(65)), 1000)), HasSubstr("put.json: "));
}

TEST(ItemRulesTest, AValueIsBoundedInBytes) {
  EXPECT_EQ(ContentError(Bytes(std::string(kMaxBytes, '\0'))), "");
  EXPECT_THAT(ContentError(Bytes(std::string(kMaxBytes + 1, '\0'))),
              HasSubstr("put.bytes_value: must be at most 64 bytes; got 65"));
}

TEST(ItemRulesTest, AMimeTypeIsForBytes) {
  ItemContent content = Bytes("x");
  content.mime_type = "image/png";
  EXPECT_EQ(ContentError(content), "");
  content.mime_type = std::string(129, 'm');
  EXPECT_THAT(ContentError(content), HasSubstr("put.mime_type: must be 1 to 128 bytes"));
  content = Json("1");
  content.mime_type = "application/json";
  EXPECT_THAT(ContentError(content), HasSubstr("put.mime_type: must be empty for JSON"));
}

TEST(ItemRulesTest, AVectorHasFiniteNumbers) {
  ItemContent content = Json("1");
  content.vector.assign(kMaxVectorSize, 0.5F);
  EXPECT_EQ(ContentError(content), "");
  content.vector.push_back(0.5F);
  EXPECT_THAT(ContentError(content), HasSubstr("put.vector: must have at most 8192 numbers"));
  content.vector = {1.0F, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_THAT(ContentError(content), HasSubstr("put.vector: must have finite numbers only"));
}

TEST(ItemRulesTest, BytesHaveNoSearchedFields) {
  ItemContent content = Bytes("x");
  content.search = StoredSearch("put.search", {}).value();
  EXPECT_EQ(ContentError(content), "");
  content.search = StoredSearch("put.search", std::vector<std::string>{"a"}).value();
  EXPECT_THAT(ContentError(content), HasSubstr("put.search.fields: must be empty for bytes"));
}

TEST(ItemRulesTest, SearchedFieldsAreBounded) {
  const auto error = [](std::vector<std::string> fields) {
    return Message(StoredSearch("put.search", fields).status());
  };
  EXPECT_EQ(error({"$", "a.b[*].c"}), "");
  EXPECT_THAT(error({"a", ""}), HasSubstr("put.search.fields[1]: must be 1 to 1024 bytes"));
  EXPECT_THAT(error({std::string(1025, 'f')}), HasSubstr("put.search.fields[0]: "));
  EXPECT_THAT(error(std::vector<std::string>(65, "f")), HasSubstr("put.search.fields: must have"));
}

TEST(ItemRulesTest, ATtlIsAMillisecondAtLeast) {
  EXPECT_EQ(Message(CheckTtl("put.ttl", 1000)), "");
  for (const std::int64_t ttl_us : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{999}}) {
    EXPECT_THAT(Message(CheckTtl("put.ttl", ttl_us)), HasSubstr("put.ttl: must be 1 ms to"));
  }
  EXPECT_EQ(Message(CheckTtl("put.ttl", kMaxTtlUs)), "");
  EXPECT_THAT(Message(CheckTtl("put.ttl", kMaxTtlUs + 1)), HasSubstr("put.ttl: must be 1 ms to"));
}

}  // namespace
}  // namespace memoryd
