#include "server/rpc/parse_request.h"

#include <google/protobuf/arena.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "memoryd/v1/block_service.pb.h"
#include "memoryd/v1/job_service.pb.h"
#include "memoryd/v1/memory_service.pb.h"
#include "memoryd/v1/server_service.pb.h"
#include "memoryd/v1/session_service.pb.h"
#include "memoryd/v1/worker_service.pb.h"

namespace memoryd {
namespace {

using google::protobuf::Arena;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;

enum WireType { kVarint = 0, kDelimited = 2, kStartGroup = 3, kEndGroup = 4, kFixed32 = 5 };

std::string Varint(std::uint64_t value) {
  std::string bytes;
  for (; value > 0x7f; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

std::string Tag(int number, WireType type) {
  return Varint(static_cast<std::uint64_t>(number) << 3 | type);
}

std::string Field(int number, const std::string& value) {
  return Tag(number, kDelimited) + Varint(value.size()) + value;
}

std::string Repeat(const std::string& bytes, std::size_t times) {
  std::string all;
  all.reserve(bytes.size() * times);
  for (std::size_t i = 0; i < times; ++i) all += bytes;
  return all;
}

class ParseRequestTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { CaptureProtobufLog(); }

  static void ExpectNotUtf8(const std::string& bytes, const std::string& field) {
    v1::PutRequest request;
    const absl::Status status = Parse(bytes, request);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(ErrorDetails(status), (ErrorValues{{"field", field}}));
  }
};

TEST_F(ParseRequestTest, AWellFormedRequestIsParsed) {
  v1::PutRequest sent;
  sent.set_session_id("s");
  sent.add_messages()->set_text("h\xC3\xA9");
  v1::PutRequest request;
  EXPECT_TRUE(Parse(sent.SerializeAsString(), request).ok());
  EXPECT_EQ(request.SerializeAsString(), sent.SerializeAsString());
  EXPECT_TRUE(Parse("", request).ok()) << "an empty request is one without fields";
}

TEST_F(ParseRequestTest, TextThatIsNotUtf8NamesItsField) {
  ExpectNotUtf8(Field(1, "\xFF"), "session_id");
  ExpectNotUtf8(Field(1, "\xED\xA0\x80"), "session_id");
  ExpectNotUtf8(Field(1, "s") + Field(4, "\xC0\x80"), "request_id");
  ExpectNotUtf8(Field(2, Field(2, "\x80")), "role");
  ExpectNotUtf8(Field(2, Field(4, "cut \xE2\x82")), "text");
}

TEST_F(ParseRequestTest, MalformedBytesAreAnInvalidArgument) {
  for (const std::string& bytes :
       {std::string("\xFF\xFF\xFF"), std::string("\x0A\x05s"), std::string("\x0B"),
        std::string(1, '\0'), std::string("\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01")}) {
    v1::PutRequest request;
    const absl::Status status = Parse(bytes, request);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(ErrorReason(status), "MALFORMED_REQUEST");
    EXPECT_TRUE(ParsedBytes(bytes, *request.GetDescriptor()).ok()) << "the parser says what it is";
  }
}

TEST_F(ParseRequestTest, AComplaintIsForgottenBeforeTheNextRequest) {
  ExpectNotUtf8(Field(1, "\xFF"), "session_id");
  v1::PutRequest request;
  EXPECT_EQ(ErrorReason(Parse("\xFF\xFF\xFF", request)), "MALFORMED_REQUEST");
}

// All types of requests, with those that streams bring.
std::vector<const Descriptor*> RequestTypes() {
  std::set<const Descriptor*> types;
  for (const FileDescriptor* file :
       {v1::PutRequest::descriptor()->file(), v1::CreateSessionRequest::descriptor()->file(),
        v1::ListJobsRequest::descriptor()->file(), v1::AddFactRequest::descriptor()->file(),
        v1::GetServerInfoRequest::descriptor()->file(), v1::AttachRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      for (int j = 0; j < file->service(i)->method_count(); ++j) {
        types.insert(file->service(i)->method(j)->input_type());
      }
    }
  }
  return {types.begin(), types.end()};
}

std::int64_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
}

// What a parsed message takes. Under a sanitizer less than that, since its heap can't be asked.
std::int64_t TakenBy(const std::string& bytes, const Descriptor& type) {
  const std::int64_t before = HeapBytes();
  Arena arena;
  Message* message = MessageFactory::generated_factory()->GetPrototype(&type)->New(&arena);
  (void)message->ParseFromString(bytes);
  return std::max({HeapBytes() - before, static_cast<std::int64_t>(message->SpaceUsedLong()),
                   static_cast<std::int64_t>(arena.SpaceAllocated())});
}

struct Place {
  const Descriptor* type;
  std::vector<const FieldDescriptor*> path;

  // A message with `inner` at this place.
  std::string Wrap(std::string inner) const {
    for (auto field = path.rbegin(); field != path.rend(); ++field) {
      inner = memoryd::Field((*field)->number(), inner);
    }
    return inner;
  }
  std::string Name() const {
    std::string name;
    for (const FieldDescriptor* field : path) name += (name.empty() ? "" : ".") + field->name();
    return name;
  }
};

// Calls `visit(request, place)` once for every type of message that a request may hold.
template <typename Visit>
void ForEachType(const Visit& visit) {
  std::set<const Descriptor*> seen;
  for (const Descriptor* request : RequestTypes()) {
    std::vector<Place> next = {{request, {}}};
    while (!next.empty()) {
      const Place place = std::move(next.back());
      next.pop_back();
      if (!seen.insert(place.type).second) continue;
      visit(*request, place);
      for (int i = 0; i < place.type->field_count(); ++i) {
        const FieldDescriptor* field = place.type->field(i);
        if (field->message_type() == nullptr) continue;
        next.push_back({field->message_type(), place.path});
        next.back().path.push_back(field);
      }
    }
  }
}

// So many entries of a repeated field, in as few bytes as can be.
std::string Entries(const FieldDescriptor& field, std::size_t count) {
  const bool delimited = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE ||
                         field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  if (delimited) return Repeat(Field(field.number(), ""), count);
  const std::size_t bytes = field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT ? 4 : 1;
  return Field(field.number(), std::string(bytes * count, '\1'));
}

void ExpectBound(const std::string& bytes, const Descriptor& type, const std::string& what) {
  const auto bound = ParsedBytes(bytes, type);
  ASSERT_TRUE(bound.ok()) << type.name() << ": " << what << ": " << bound.status();
  const std::int64_t taken = TakenBy(bytes, type);
  EXPECT_GE(*bound, taken) << type.name() << ": " << what << ", " << bytes.size() << " bytes";
}

TEST_F(ParseRequestTest, EveryRepeatedFieldOfEveryRequestIsBounded) {
  int fields = 0;
  ForEachType([&](const Descriptor& request, const Place& place) {
    for (int i = 0; i < place.type->field_count(); ++i) {
      const FieldDescriptor* field = place.type->field(i);
      if (!field->is_repeated()) continue;
      ++fields;
      const std::string name =
          place.path.empty() ? field->name() : place.Name() + "." + field->name();
      for (const std::size_t count : std::initializer_list<std::size_t>{1, 7, 1025, 5000}) {
        ExpectBound(place.Wrap(Entries(*field, count)), request, name);
      }
      // These don't swell.
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_FLOAT) continue;
      const auto swollen =
          ParsedBytes(place.Wrap(Entries(*field, kMaxParsedOverhead / 24)), request);
      EXPECT_TRUE(absl::IsInvalidArgument(swollen.status())) << request.name() << ": " << name;
      EXPECT_EQ(ErrorDetails(swollen.status()), (ErrorValues{{"field", name}}));
    }
  });
  EXPECT_GE(fields, 25);
}

TEST_F(ParseRequestTest, FieldsThatTheServerDoesNotKnowAreBounded) {
  constexpr int kNumber = 15;
  const std::vector<std::string> unknown = {
      Tag(kNumber, kVarint) + '\0',
      Field(kNumber, ""),
      Field(kNumber, "0123456789abcdef"),
      Tag(kNumber, kFixed32) + std::string(4, '\0'),
      Tag(kNumber, kStartGroup) + Tag(kNumber, kEndGroup),
      Tag(kNumber, kStartGroup) + Field(1, "s") + Tag(kNumber, kEndGroup)};
  ForEachType([&](const Descriptor& request, const Place& place) {
    if (place.type->FindFieldByNumber(kNumber) != nullptr) return;
    for (const std::string& field : unknown) {
      for (const std::size_t count : std::initializer_list<std::size_t>{1, 3, 1025, 3000}) {
        ExpectBound(place.Wrap(Repeat(field, count)), request, place.Name());
      }
    }
    EXPECT_FALSE(
        ParsedBytes(place.Wrap(Repeat(unknown[0], kMaxParsedOverhead / 96)), request).ok());
  });
}

TEST_F(ParseRequestTest, KnownFieldsInTheFormOfOthersAreBounded) {
  ForEachType([](const Descriptor& request, const Place& place) {
    for (int i = 0; i < place.type->field_count(); ++i) {
      const int number = place.type->field(i)->number();
      for (const std::string& field :
           {Tag(number, kVarint) + '\1', Tag(number, kFixed32) + std::string(4, '\0'),
            Field(number, ""), Tag(number, kStartGroup) + Tag(number, kEndGroup)}) {
        ExpectBound(place.Wrap(Repeat(field, 600)), request, place.type->field(i)->full_name());
      }
    }
  });
}

TEST_F(ParseRequestTest, AFieldThatIsCutShortIsBounded) {
  const std::string unknown = Repeat("q" + std::string(8, '\0'), 14);
  const std::string bytes = Tag(2, kDelimited) + Varint(687084) + unknown;
  ExpectBound(bytes, *v1::CreateSessionRequest::descriptor(), "config");
}

// Random fields of random depth, each field as often as not more than once.
std::string RandomBytes(const Descriptor& type, int depth, std::mt19937& random) {
  std::string bytes;
  const auto up_to = [&](int most) { return std::uniform_int_distribution<>(0, most)(random); };
  for (int n = up_to(6); n > 0 && type.field_count() > 0 && bytes.size() < 4000; --n) {
    const FieldDescriptor& field = *type.field(up_to(type.field_count() - 1));
    for (int times = 1 + up_to(up_to(9) == 0 ? 60 : 2); times > 0; --times) {
      if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        bytes += Field(field.number(), depth == 0
                                           ? std::string()
                                           : RandomBytes(*field.message_type(), depth - 1, random));
      } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        bytes += Field(field.number(), std::string(static_cast<std::size_t>(up_to(40)), 'x'));
      } else if (field.is_repeated()) {
        bytes += Field(field.number(), std::string(static_cast<std::size_t>(up_to(9)), '\1'));
      } else {
        bytes += Tag(2000 + up_to(9), kVarint) + '\1';
      }
    }
  }
  return bytes;
}

TEST_F(ParseRequestTest, TheBoundHoldsForRandomRequests) {
  std::mt19937 random(7);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same requests each time.
  for (const Descriptor* type : RequestTypes()) {
    for (int i = 0; i < 100; ++i) {
      ExpectBound(RandomBytes(*type, 4, random), *type, "random");
    }
  }
}

TEST_F(ParseRequestTest, TheLargestRequestWithinAllLimitsIsFarBelowTheBound) {
  v1::PutRequest request;
  for (int i = 0; i < 1000; ++i) {
    v1::Message& message = *request.add_messages();
    message.set_role("user");
    message.set_text(std::string(4000, 'x'));
    for (int j = 0; j < 8; ++j) message.add_parts()->set_text("x");
  }
  const auto bytes = ParsedBytes(request.SerializeAsString(), *request.GetDescriptor());
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_LT(*bytes, (4 << 20) + kMaxParsedOverhead / 8);
}

TEST_F(ParseRequestTest, ManyNumbersOfEmbeddingsAreFewBytesMore) {
  v1::AttachRequest request;
  for (int i = 0; i < 600; ++i) {
    auto& values = *request.mutable_result()->mutable_embed()->add_vectors()->mutable_values();
    values.Resize(1536, 0.5F);
  }
  const std::string bytes = request.SerializeAsString();
  const auto bound = ParsedBytes(bytes, *request.GetDescriptor());
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_LT(*bound, 5 * static_cast<std::int64_t>(bytes.size()));
}

TEST_F(ParseRequestTest, ARequestNestedTooDeeplyIsLeftToTheParser) {
  std::string bytes;
  for (int i = 0; i < 5000; ++i) bytes = Tag(15, kStartGroup) + bytes + Tag(15, kEndGroup);
  v1::PutRequest request;
  EXPECT_TRUE(ParsedBytes(bytes, *request.GetDescriptor()).ok());
  EXPECT_FALSE(Parse(bytes, request).ok());
}

}  // namespace
}  // namespace memoryd
