#include "server/rpc/write_only_reply.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "memoryd/v1/block_service.pb.h"
#include "memoryd/v1/item_service.pb.h"
#include "memoryd/v1/job_service.pb.h"
#include "memoryd/v1/memory_service.pb.h"
#include "memoryd/v1/session_service.pb.h"
#include "server/wire/method.h"

namespace memoryd {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Sets every field, all strings to their own name.
void FillAll(Message& message, int depth = 0) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (depth > 6) continue;
      FillAll(field.is_repeated() ? *reflection.AddMessage(&message, &field)
                                  : *reflection.MutableMessage(&message, &field),
              depth + 1);
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      if (field.is_repeated()) {
        reflection.AddString(&message, &field, std::string(field.name()));
      } else {
        reflection.SetString(&message, &field, std::string(field.name()));
      }
    }
  }
}

// The names of all fields of text that are set.
void CollectTexts(const Message& message, std::set<std::string>& texts) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      texts.insert(std::string(field->name()));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
      for (int i = 0; i < count; ++i) {
        CollectTexts(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                          : reflection.GetMessage(message, field),
                     texts);
      }
    }
  }
}

template <typename Reply>
std::set<std::string> TextsLeft(Method method) {
  Reply reply;
  FillAll(reply);
  Reply rest;
  EXPECT_TRUE(rest.ParseFromString(WithoutStoredText(method, reply.SerializeAsString())));
  std::set<std::string> texts;
  CollectTexts(rest, texts);
  return texts;
}

// A field that is added to one of these replies has to be thought of here.
TEST(WithoutStoredTextTest, LeavesIdsAndWhatTheRequestBrought) {
  using testing::UnorderedElementsAre;
  EXPECT_THAT(TextsLeft<v1::PutResponse>(Method::kPut),
              UnorderedElementsAre("message_ids", "content_ids", "job_id", "block", "state"));
  EXPECT_THAT(TextsLeft<v1::SetResponse>(Method::kSet),
              UnorderedElementsAre("message_ids", "content_ids"));
  EXPECT_THAT(TextsLeft<v1::ResetResponse>(Method::kReset), UnorderedElementsAre());
  EXPECT_THAT(TextsLeft<v1::UpdateMessageResponse>(Method::kUpdateMessage), UnorderedElementsAre());
  EXPECT_THAT(TextsLeft<v1::DeleteMessageResponse>(Method::kDeleteMessage),
              UnorderedElementsAre("message_ids"));
  EXPECT_THAT(TextsLeft<v1::UpdateContentResponse>(Method::kUpdateContent), UnorderedElementsAre());
  EXPECT_THAT(TextsLeft<v1::DeleteContentResponse>(Method::kDeleteContent), UnorderedElementsAre());
  EXPECT_THAT(TextsLeft<v1::CreateSessionResponse>(Method::kCreateSession),
              UnorderedElementsAre("session_id", "template"));
  EXPECT_THAT(TextsLeft<v1::UpdateSessionResponse>(Method::kUpdateSession),
              UnorderedElementsAre("session_id", "template"));
  EXPECT_THAT(TextsLeft<v1::DeleteSessionResponse>(Method::kDeleteSession), UnorderedElementsAre());
  EXPECT_THAT(TextsLeft<v1::ForkSessionResponse>(Method::kForkSession),
              UnorderedElementsAre("session_id", "template"));
  EXPECT_THAT(TextsLeft<v1::ImportSessionResponse>(Method::kImportSession),
              UnorderedElementsAre("session_id", "template"));
  EXPECT_THAT(TextsLeft<v1::ImportNamespaceResponse>(Method::kImportNamespace),
              UnorderedElementsAre("namespace"));
  EXPECT_THAT(TextsLeft<v1::EraseSubjectResponse>(Method::kEraseSubject),
              UnorderedElementsAre("left_reason", "left_elsewhere"));
  EXPECT_THAT(TextsLeft<v1::RetryJobResponse>(Method::kRetryJob),
              UnorderedElementsAre("job_id", "block"));
  EXPECT_THAT(TextsLeft<v1::CancelJobResponse>(Method::kCancelJob),
              UnorderedElementsAre("job_id", "block"));
  EXPECT_THAT(TextsLeft<v1::UndoBlockChangeResponse>(Method::kUndoBlockChange),
              UnorderedElementsAre("message_ids"));
  EXPECT_THAT(TextsLeft<v1::AddFactResponse>(Method::kAddFact),
              UnorderedElementsAre("message_ids", "text"));
  EXPECT_THAT(TextsLeft<v1::UpdateFactResponse>(Method::kUpdateFact),
              UnorderedElementsAre("message_ids", "text"));
  EXPECT_THAT(TextsLeft<v1::DeleteFactResponse>(Method::kDeleteFact),
              UnorderedElementsAre("message_ids"));
}

TEST(WithoutStoredTextTest, LeavesTheConfigurationThatTheCallerSent) {
  v1::CreateSessionResponse reply;
  reply.mutable_session()->mutable_config()->set_subject("ann");
  v1::CreateSessionResponse rest;
  ASSERT_TRUE(
      rest.ParseFromString(WithoutStoredText(Method::kCreateSession, reply.SerializeAsString())));
  EXPECT_EQ(rest.session().config().subject(), "ann");
}

TEST(WithoutStoredTextTest, LeavesWhatTheCallerSentBesideATemplate) {
  v1::CreateSessionResponse reply;
  v1::Session& session = *reply.mutable_session();
  session.set_template_("chat");
  session.mutable_config()->set_subject("ann");
  session.mutable_config()->set_time_zone("Asia/Tokyo");
  session.mutable_config()->set_token_limit(500);
  v1::SessionConfig sent;
  sent.set_subject("ann");
  v1::CreateSessionResponse rest;
  ASSERT_TRUE(rest.ParseFromString(
      WithoutStoredText(Method::kCreateSession, reply.SerializeAsString(), &sent)));
  EXPECT_EQ(rest.session().config().ByteSizeLong(), sent.ByteSizeLong());
  EXPECT_EQ(rest.session().config().subject(), "ann");
}

TEST(WithoutStoredTextTest, SaysNothingOfAReplyThatItCantRead) {
  EXPECT_EQ(WithoutStoredText(Method::kUndoBlockChange, "\xFF"), "");
}

}  // namespace
}  // namespace memoryd
