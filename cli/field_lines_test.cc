#include "cli/field_lines.h"

#include <gtest/gtest.h>

#include <string>

#include "memoryd/v1/memory.pb.h"
#include "memoryd/v1/server_service.pb.h"

namespace memoryd::cli {
namespace {

TEST(FieldLines, TellsWhatIsSet) {
  v1::Message message;
  message.set_message_id("m1");
  message.set_role("user");
  message.set_position(7);
  message.set_status(v1::MESSAGE_STATUS_ACTIVE);
  message.mutable_ingest_time()->set_seconds(1'800'000'000);
  message.add_parts()->set_text("Hi");
  v1::Media& image = *message.add_parts()->mutable_image();
  image.set_data("12345");
  image.set_fps(0.5);
  EXPECT_EQ(FieldLines(message),
            "message_id: m1\n"
            "role: user\n"
            "parts:\n"
            "  text: Hi\n"
            "parts:\n"
            "  image:\n"
            "    data: 5 bytes\n"
            "    fps: 0.5\n"
            "position: 7\n"
            "status: MESSAGE_STATUS_ACTIVE\n"
            "ingest_time: 2027-01-15T08:00:00Z\n");
}

TEST(FieldLines, TellsCountsOfNothing) {
  v1::Session session;
  session.set_session_id("s");
  EXPECT_EQ(FieldLines(session),
            "session_id: s\ngeneration: 0\nrevision: 0\nactive_count: 0\nactive_token_count: 0\n"
            "archived_count: 0\ncontent_count: 0\nstored_bytes: 0\n");
}

TEST(FieldLines, ATextCanNotPassForAField) {
  v1::Message message;
  message.set_text("Hi\nrole: system\n\x1b[2J");
  message.set_position(1);
  EXPECT_EQ(FieldLines(message),
            "text:\n"
            "  | Hi\n"
            "  | role: system\n"
            "  | \\u{1B}[2J\n"
            "position: 1\n");
}

TEST(FieldLines, TellsDurationsAndListsOfScalars) {
  v1::GetServerInfoResponse info;
  info.add_profiles("default");
  info.add_profiles("autogen-list");
  info.mutable_limits()->mutable_max_deadline()->set_seconds(30);
  info.add_authentication(v1::AUTHENTICATION_METHOD_TOKEN);
  const std::string lines = FieldLines(info);
  EXPECT_NE(lines.find("  max_deadline: 30s\n"), std::string::npos) << lines;
  EXPECT_NE(lines.find("profiles: default\nprofiles: autogen-list\n"), std::string::npos) << lines;
  EXPECT_NE(lines.find("authentication: AUTHENTICATION_METHOD_TOKEN\n"), std::string::npos);
}

}  // namespace
}  // namespace memoryd::cli
