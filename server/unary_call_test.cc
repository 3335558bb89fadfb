#include "server/unary_call.h"

#include <gtest/gtest.h>

#include <string>

#include "core/base/error.h"
#include "memoryd/v1/memory_service.pb.h"

namespace memoryd {
namespace {

// Only what needs no connection.
class Parser : public UnaryCall {
 public:
  using UnaryCall::Parse;
};

absl::Status ParsePut(const std::string& bytes, v1::PutRequest& request) {
  return Parser::Parse(bytes, request);
}

// A length-delimited field of less than 128 bytes.
std::string Field(int number, const std::string& value) {
  std::string bytes;
  bytes.push_back(static_cast<char>(number << 3 | 2));
  bytes.push_back(static_cast<char>(value.size()));
  return bytes + value;
}

class UnaryCallTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { CaptureProtobufLog(); }

  static void ExpectNotUtf8(const std::string& bytes, const std::string& field) {
    v1::PutRequest request;
    const absl::Status status = ParsePut(bytes, request);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(ErrorDetails(status), (ErrorValues{{"field", field}}));
  }
};

TEST_F(UnaryCallTest, AWellFormedRequestIsParsed) {
  v1::PutRequest sent;
  sent.set_session_id("s");
  sent.add_messages()->set_text("h\xC3\xA9");
  v1::PutRequest request;
  EXPECT_TRUE(ParsePut(sent.SerializeAsString(), request).ok());
  EXPECT_EQ(request.SerializeAsString(), sent.SerializeAsString());
  EXPECT_TRUE(ParsePut("", request).ok()) << "an empty request is one without fields";
}

TEST_F(UnaryCallTest, TextThatIsNotUtf8NamesItsField) {
  ExpectNotUtf8(Field(1, "\xFF"), "session_id");
  ExpectNotUtf8(Field(1, "\xED\xA0\x80"), "session_id");
  ExpectNotUtf8(Field(1, "s") + Field(4, "\xC0\x80"), "request_id");
  ExpectNotUtf8(Field(2, Field(2, "\x80")), "role");
  ExpectNotUtf8(Field(2, Field(4, "cut \xE2\x82")), "text");
}

TEST_F(UnaryCallTest, MalformedBytesAreAnInvalidArgument) {
  for (const std::string& bytes :
       {std::string("\xFF\xFF\xFF"), std::string("\x0A\x05s"), std::string("\x0B"),
        std::string(1, '\0'), std::string("\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01")}) {
    v1::PutRequest request;
    const absl::Status status = ParsePut(bytes, request);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(ErrorReason(status), "MALFORMED_REQUEST");
  }
}

TEST_F(UnaryCallTest, AComplaintIsForgottenBeforeTheNextRequest) {
  ExpectNotUtf8(Field(1, "\xFF"), "session_id");
  v1::PutRequest request;
  EXPECT_EQ(ErrorReason(ParsePut("\xFF\xFF\xFF", request)), "MALFORMED_REQUEST");
}

}  // namespace
}  // namespace memoryd
