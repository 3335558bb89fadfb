#include "server/ops/audit_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/base/sha256.h"
#include "memoryd/v1/memory_service.pb.h"
#include "memoryd/v1/session_service.pb.h"
#include "server/wire/method.h"

namespace memoryd {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

class AuditLogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "memoryd-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = folder_ / "audit";
    Open();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Open() {
    auto log = AuditLog::Open(path_.string());
    ASSERT_TRUE(log.ok()) << log.status();
    log_ = *std::move(log);
  }

  void Write(Method method, const absl::Status& status, const std::string& reply = {}) {
    log_->Write({method, status, "r-1", {}, "team", "token:ci", "s", {}, {}, reply});
  }

  // After the log has ended.
  std::vector<Json> Lines(const std::filesystem::path& path) {
    log_.reset();
    std::vector<Json> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
    return lines;
  }

  std::filesystem::path folder_;
  std::filesystem::path path_;
  std::unique_ptr<AuditLog> log_;
};

TEST_F(AuditLogTest, ALineSaysWhoDidWhatAndHowItEnded) {
  v1::PutResponse reply;
  reply.set_revision(7);
  for (const std::int64_t position : {4, 5, 6}) reply.add_positions(position);
  reply.add_content_ids("c");
  reply.set_replayed(true);
  Write(Method::kPut, absl::OkStatus(), reply.SerializeAsString());
  const std::vector<Json> lines = Lines(path_);
  ASSERT_EQ(lines.size(), 1u);
  Json line = lines[0];
  EXPECT_EQ(line["ts"].get<std::string>().size(),
            std::string("2026-01-02T03:04:05.678901Z").size());
  line.erase("ts");
  EXPECT_EQ(line, (Json{{"method", "Put"},
                        {"code", "OK"},
                        {"request_id", "r-1"},
                        {"tenant", ShortHash("team")},
                        {"principal", "token:ci"},
                        {"session", ShortHash("s")},
                        {"revision", 7},
                        {"messages", 3},
                        {"first_position", 4},
                        {"last_position", 6},
                        {"contents", 1},
                        {"replayed", true}}));
}

TEST_F(AuditLogTest, RepliesOfEveryKindAreRead) {
  v1::CreateSessionResponse created;
  created.mutable_session()->set_revision(1);
  Write(Method::kCreateSession, absl::OkStatus(), created.SerializeAsString());
  v1::DeleteSessionResponse deleted;
  deleted.set_replayed(true);
  Write(Method::kDeleteSession, absl::OkStatus(), deleted.SerializeAsString());
  Write(Method::kCancelJob, absl::OkStatus());
  const std::vector<Json> lines = Lines(path_);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["revision"], 1);
  EXPECT_EQ(lines[0]["replayed"], false);
  EXPECT_EQ(lines[1]["replayed"], true);
  EXPECT_FALSE(lines[1].contains("revision"));
  EXPECT_FALSE(lines[2].contains("replayed"));
}

TEST_F(AuditLogTest, ARefusalNamesItsReasonAndNothingThatIsNotKnown) {
  const absl::Status status =
      Error(absl::StatusCode::kUnauthenticated, "UNAUTHENTICATED", "no valid credential");
  log_->Write({Method::kSet, status, "r-2", {}, {}, {}, {}, {}, {}, {}});
  const std::vector<Json> lines = Lines(path_);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["code"], "UNAUTHENTICATED");
  EXPECT_EQ(lines[0]["reason"], "UNAUTHENTICATED");
  for (const char* name : {"tenant", "principal", "session", "revision", "trace_id"}) {
    EXPECT_FALSE(lines[0].contains(name)) << name;
  }
}

TEST_F(AuditLogTest, ItIsWhatChangesMemoryThatIsRecorded) {
  EXPECT_TRUE(AuditLog::Wants(Method::kPut));
  EXPECT_TRUE(AuditLog::Wants(Method::kUndoBlockChange));
  EXPECT_FALSE(AuditLog::Wants(Method::kGet));
  EXPECT_FALSE(AuditLog::Wants(Method::kAttach));
}

TEST_F(AuditLogTest, ARenamedFileIsFollowedByANewOne) {
  std::filesystem::rename(path_, folder_ / "audit.1");
  Write(Method::kReset, absl::OkStatus());
  EXPECT_EQ(Lines(path_).size(), 1u);
  EXPECT_TRUE(Lines(folder_ / "audit.1").empty());
}

TEST_F(AuditLogTest, AFileIsAppendedTo) {
  Write(Method::kReset, absl::OkStatus());
  EXPECT_EQ(Lines(path_).size(), 1u);
  Open();
  Write(Method::kReset, absl::OkStatus());
  EXPECT_EQ(Lines(path_).size(), 2u);
}

TEST_F(AuditLogTest, WhatTheDiskDoesNotTakeIsCounted) {
  log_.reset();
  path_ = "/dev/full";
  Open();
  Write(Method::kReset, absl::OkStatus());
  while (log_->lost() == 0) std::this_thread::yield();
  EXPECT_EQ(log_->lost(), 1u);
}

TEST_F(AuditLogTest, AFileThatCannotBeOpenedNamesTheSetting) {
  const absl::Status status = AuditLog::Open((folder_ / "no" / "audit").string()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), StartsWith("audit_log: "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("No such file"));
}

}  // namespace
}  // namespace memoryd
