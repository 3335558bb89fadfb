#include "core/reads/message_filter.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/model/body_reader.h"
#include "core/model/message.h"
#include "core/sessions/session_info.h"
#include "tests/support/plain_body_reader.h"

namespace memoryd {
namespace {

// A body is the message's metadata.
class MetadataBodies : public BodyReader {
 public:
  absl::StatusOr<MessageText> ReadMessage(std::string_view) const override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<MessageHead> ReadHead(std::string_view body) const override {
    MessageHead head;
    head.metadata_json = std::string(body);
    return head;
  }
  absl::StatusOr<StoredMessage> ReadParts(std::string_view) const override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<StoredPart> ReadPart(std::string_view) const override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<ContentValue> ReadContent(std::string_view body) const override {
    return ContentValue{ContentValue::Kind::kText, "text/plain", "", std::string(body)};
  }
};

bool Passes(MetadataTest test, const std::string& metadata) {
  MessageFilter filter;
  filter.metadata.push_back(std::move(test));
  MessageDraft message;
  message.body = metadata;
  const auto passes = filter.Passes(*MessagePtr(message), SessionRow(), MetadataBodies());
  EXPECT_TRUE(passes.ok()) << passes.status();
  const auto as_content = filter.PassesContent(*MessagePtr(message), MetadataBodies());
  EXPECT_TRUE(as_content.ok()) << as_content.status();
  EXPECT_EQ(passes.value_or(false), as_content.value_or(false));
  return passes.value_or(false);
}

TEST(MessageFilterTest, AValueIsComparedWithItsTypeAlone) {
  const std::string metadata = R"({"s":"1","n":1,"f":1.0,"b":true,"z":null,"o":{"n":1},"a":[1]})";
  EXPECT_TRUE(Passes({"s", std::string("1")}, metadata));
  EXPECT_TRUE(Passes({"n", 1.0}, metadata));
  EXPECT_TRUE(Passes({"f", 1.0}, metadata));
  EXPECT_TRUE(Passes({"b", true}, metadata));
  for (const char* key : {"n", "f", "b", "z", "o", "a", "none"}) {
    EXPECT_FALSE(Passes({key, std::string("1")}, metadata)) << key;
  }
  for (const char* key : {"s", "b", "z", "o", "a", "none"}) {
    EXPECT_FALSE(Passes({key, 1.0}, metadata)) << key;
  }
  for (const char* key : {"s", "n", "z", "o", "a", "none"}) {
    EXPECT_FALSE(Passes({key, true}, metadata)) << key;
  }
  EXPECT_FALSE(Passes({"b", false}, metadata));
}

TEST(MessageFilterTest, AKeyIsThereWhateverItsValue) {
  const std::string metadata = R"({"z":null,"o":{"inner":1},"a":[{"deep":2}],"":0})";
  for (const char* key : {"z", "o", "a", ""}) {
    EXPECT_TRUE(Passes({key, KeyExists{true}}, metadata)) << key;
    EXPECT_FALSE(Passes({key, KeyExists{false}}, metadata)) << key;
  }
  for (const char* key : {"inner", "deep", "o.inner", "Z"}) {
    EXPECT_FALSE(Passes({key, KeyExists{true}}, metadata)) << key;
    EXPECT_TRUE(Passes({key, KeyExists{false}}, metadata)) << key;
  }
  EXPECT_TRUE(Passes({"z", KeyExists{false}}, ""));
  EXPECT_FALSE(Passes({"z", KeyExists{true}}, ""));
}

TEST(MessageFilterTest, RangesHoldTheirLowerEndAndNotTheirUpper) {
  const ValueRange<double> numbers{1.5, 3};
  EXPECT_FALSE(Passes({"n", numbers}, R"({"n":1.4})"));
  EXPECT_TRUE(Passes({"n", numbers}, R"({"n":1.5})"));
  EXPECT_TRUE(Passes({"n", numbers}, R"({"n":2})"));
  EXPECT_FALSE(Passes({"n", numbers}, R"({"n":3})"));
  EXPECT_FALSE(Passes({"n", numbers}, R"({"n":"2"})"));
  EXPECT_TRUE(Passes({"n", ValueRange<double>{1e300, std::nullopt}},
                     R"({"n":1)" + std::string(310, '0') + "}"));
  const ValueRange<std::string> texts{"2026-01", "2026-02"};
  EXPECT_FALSE(Passes({"t", texts}, R"({"t":"2025-12-31T23:59:59Z"})"));
  EXPECT_TRUE(Passes({"t", texts}, R"({"t":"2026-01-31T23:59:59Z"})"));
  EXPECT_FALSE(Passes({"t", texts}, R"({"t":"2026-02"})"));
  EXPECT_FALSE(Passes({"t", texts}, R"({"t":2026})"));
}

TEST(MessageFilterTest, ABodyThatCantBeReadEndsIt) {
  MessageFilter filter;
  MessageDraft message;
  message.body = "unreadable";
  EXPECT_TRUE(filter.Passes(*MessagePtr(message), SessionRow(), PlainBodyReader()).value_or(false))
      << "nothing asks for what is in it";
  filter.any_of.emplace_back().roles = {"user"};
  EXPECT_TRUE(absl::IsDataLoss(
      filter.Passes(*MessagePtr(message), SessionRow(), PlainBodyReader()).status()));
  filter = MessageFilter();
  filter.metadata.push_back({"k", true});
  message.body = "{";
  EXPECT_TRUE(absl::IsDataLoss(
      filter.Passes(*MessagePtr(message), SessionRow(), MetadataBodies()).status()));
}

// A body is the writer, behind a `!` for one that need not be believed, and the source session.
class ProvenanceBodies final : public MetadataBodies {
 public:
  absl::StatusOr<MessageHead> ReadHead(std::string_view body) const override {
    MessageHead head;
    head.untrusted = body.starts_with('!');
    body.remove_prefix(head.untrusted ? 1 : 0);
    head.writer = std::string(body.substr(0, body.find('/')));
    head.source_session_id = std::string(body.substr(body.find('/') + 1));
    return head;
  }
};

TEST(MessageFilterTest, AMessageIsToldByWhoWroteItAndWhenceItCame) {
  const auto passes = [](const MessageFilter& filter, const char* body) {
    MessageDraft message;
    message.body = body;
    return filter.Passes(*MessagePtr(message), SessionRow(), ProvenanceBodies()).value_or(false);
  };
  MessageFilter by_writer;
  by_writer.writers = {"token:a", ""};
  EXPECT_TRUE(passes(by_writer, "token:a/"));
  EXPECT_TRUE(passes(by_writer, "!/s"));
  EXPECT_FALSE(passes(by_writer, "token:b/"));
  for (const bool untrusted : {true, false}) {
    MessageFilter by_trust;
    by_trust.untrusted = untrusted;
    EXPECT_EQ(passes(by_trust, "!token:a/"), untrusted);
    EXPECT_EQ(passes(by_trust, "token:a/"), !untrusted);
  }
  MessageFilter put_here;
  put_here.source_session_id = "";
  EXPECT_TRUE(passes(put_here, "token:a/"));
  EXPECT_FALSE(passes(put_here, "token:a/s"));
  MessageFilter handed_on;
  handed_on.any_of.emplace_back().source_session_id = "s";
  EXPECT_TRUE(passes(handed_on, "token:a/s"));
  EXPECT_FALSE(passes(handed_on, "token:a/t"));
  EXPECT_FALSE(passes(handed_on, "token:a/"));
}

TEST(MessageFilterTest, OnePassingOfSeveralIsEnoughAndTheRestMustHoldToo) {
  MessageFilter filter;
  filter.ingest = {10, 20};
  filter.any_of.resize(2);
  filter.any_of[0].status = StatusFilter::kArchived;
  filter.any_of[1].message_ids = {"x"};
  SessionRow row;
  row.watermark = 5;
  const auto passes = [&](std::int64_t position, const char* id, std::int64_t ingest_us) {
    MessageDraft message;
    message.position = position;
    message.SetMessageId(id);
    message.ingest_us = ingest_us;
    return filter.Passes(*MessagePtr(message), row, PlainBodyReader()).value_or(false);
  };
  EXPECT_TRUE(passes(4, "y", 10));
  EXPECT_TRUE(passes(5, "x", 19));
  EXPECT_FALSE(passes(5, "y", 10));
  EXPECT_FALSE(passes(4, "y", 9));
  EXPECT_FALSE(passes(4, "y", 20));
}

}  // namespace
}  // namespace memoryd
