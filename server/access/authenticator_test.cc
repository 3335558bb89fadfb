#include "server/access/authenticator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/error.h"
#include "server/wire/method.h"

namespace memoryd {
namespace {

using ::testing::HasSubstr;

// The tokens are `reader`, `writer` and, expired, `old`.
constexpr char kFile[] = R"(
- tenant: a
  rights: [read]
  token_sha256: 3d0941964aa3ebdcb00ccef58b1bb399f9f898465e9886d5aec7f31090a0fb30
- tenant: a
  rights: [write]
  token_sha256: b93006774cbdd4b299389a03ac3d88c3a76b460d538795bc12718011a909fba5
- tenant: a
  rights: [read]
  token_sha256: cba06b5736faf67e54b07b561eae94395e774c517a7d910a54369e1263ccfbd4
  expires: 2020-01-01T00:00:00Z
- tenant: b
  rights: [read]
  certificate: spiffe://x/b
- tenant: a
  rights: [write]
  certificate: agent.example.org
)";

class AuthenticatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "memoryd-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = (folder_ / "credentials.yaml").string();
    Write(kFile);
    authenticator_ = std::make_unique<Authenticator>(path_, nullptr, [this] { return now_; });
    ASSERT_TRUE(authenticator_->Reload().ok());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& content, mode_t mode = 0600) {
    std::ofstream(path_) << content;
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
  }

  absl::StatusOr<Caller> Ask(const std::string& header, Right right,
                             const std::vector<std::string_view>& names = {}) const {
    Proof proof;
    proof.authorizations = header.empty() ? 0 : 1;
    proof.authorization = header;
    proof.certificate_names = names;
    absl::StatusOr<Caller> caller = authenticator_->Authenticate(proof);
    if (caller.ok()) {
      if (absl::Status status = CheckRight(*caller, right); !status.ok()) return status;
    }
    return caller;
  }

  static void ExpectRefused(const absl::StatusOr<Caller>& result, absl::StatusCode code,
                            const std::string& reason) {
    EXPECT_EQ(result.status().code(), code) << result.status();
    EXPECT_EQ(ErrorReason(result.status()), reason);
  }
  static void ExpectUnauthenticated(const absl::StatusOr<Caller>& result) {
    ExpectRefused(result, absl::StatusCode::kUnauthenticated, "UNAUTHENTICATED");
  }

  std::filesystem::path folder_;
  std::string path_;
  absl::Time now_ = absl::FromUnixSeconds(1600000000);  // In 2020.
  std::unique_ptr<Authenticator> authenticator_;
};

TEST_F(AuthenticatorTest, ATokenNamesItsTenant) {
  EXPECT_EQ(Ask("Bearer reader", Right::kRead)->tenant, "a");
  EXPECT_EQ(Ask("bEARER   reader", Right::kRead)->tenant, "a");
  EXPECT_EQ(Ask("Bearer reader", Right::kNone)->tenant, "a");
  EXPECT_EQ(Ask("Bearer writer", Right::kWrite)->tenant, "a");
}

TEST_F(AuthenticatorTest, WhatIsNoKnownTokenHasOneAnswer) {
  const std::string text(Ask("", Right::kRead).status().message());
  for (const std::string& header :
       {std::string(), std::string("Bearer"), std::string("Bearer "), std::string("Bearer   "),
        std::string("Bearer READER"), std::string("Bearer old"), std::string("Bearer reader "),
        std::string("Bearerreader"), std::string("Basic reader"), std::string("reader"),
        std::string("Bearer\treader"), std::string("Bearer reader\0", 14),
        std::string("Bearer reader,Bearer reader"), "Bearer " + std::string(16384, 'x'),
        "Basic " + std::string(65536, 'x')}) {
    const auto result = Ask(header, Right::kNone);
    ExpectUnauthenticated(result);
    EXPECT_EQ(std::string(result.status().message()), text);
  }
}

TEST_F(AuthenticatorTest, ATokenThatIsTooLargeIsToldSo) {
  for (const std::string& header :
       {"Bearer " + std::string(16385, 'x'), "Bearer " + std::string(65536, 'x'),
        "Bearer " + std::string(16385, ' ') + "reader"}) {
    const auto result = Ask(header, Right::kNone);
    ExpectRefused(result, absl::StatusCode::kUnauthenticated, "TOKEN_TOO_LARGE");
    EXPECT_THAT(std::string(result.status().message()), HasSubstr("16384 bytes"));
  }
}

TEST_F(AuthenticatorTest, TwoHeadersAreNotChosenFrom) {
  Proof proof;
  proof.authorizations = 2;
  proof.authorization = "Bearer reader";
  ExpectUnauthenticated(authenticator_->Authenticate(proof));
}

TEST_F(AuthenticatorTest, RolesOfCredentialsThatMayWriteAddUp) {
  Write(R"([
{tenant: a, rights: [write], roles: [user], certificate: user},
{tenant: a, rights: [write], roles: [tool], certificate: tool},
{tenant: a, rights: [write], certificate: any},
{tenant: a, rights: [read], certificate: reader}])");
  ASSERT_TRUE(authenticator_->Reload().ok());
  const auto roles = [this](const std::vector<std::string_view>& names) {
    return Ask("", Right::kNone, names)->roles;
  };
  EXPECT_TRUE(roles({"user"}).Has("user"));
  EXPECT_FALSE(roles({"user"}).Has("tool"));
  EXPECT_FALSE(roles({"user", "reader"}).Has("system"));
  EXPECT_TRUE(roles({"user", "tool"}).Has("tool"));
  EXPECT_FALSE(roles({"user", "tool"}).Has("system"));
  EXPECT_TRUE(roles({"user", "any"}).Has("system"));
  EXPECT_TRUE(roles({"any", "user"}).Has("system"));
}

TEST_F(AuthenticatorTest, OneTrustedCredentialThatMayWriteIsEnough) {
  Write(R"([
{tenant: a, rights: [write], untrusted: true, certificate: guest},
{tenant: a, rights: [write], untrusted: false, certificate: agent},
{tenant: a, rights: [read], certificate: reader}])");
  ASSERT_TRUE(authenticator_->Reload().ok());
  const auto untrusted = [this](const std::vector<std::string_view>& names) {
    return Ask("", Right::kNone, names)->untrusted;
  };
  EXPECT_TRUE(untrusted({"guest"}));
  EXPECT_FALSE(untrusted({"agent"}));
  EXPECT_FALSE(untrusted({"guest", "agent"}));
  EXPECT_TRUE(untrusted({"guest", "reader"}));
}

TEST_F(AuthenticatorTest, ACredentialIsCalledByItsNameItsDigestOrItsCertificate) {
  Write(R"([
{tenant: a, rights: [read], name: ci, certificate: x},
{tenant: a, rights: [read], certificate: spiffe://x/b},
{tenant: a, rights: [read],
 token_sha256: 3d0941964aa3ebdcb00ccef58b1bb399f9f898465e9886d5aec7f31090a0fb30}])");
  ASSERT_TRUE(authenticator_->Reload().ok());
  EXPECT_EQ(Ask("", Right::kRead, {"x"})->principal, "certificate:ci");
  EXPECT_EQ(Ask("", Right::kRead, {"spiffe://x/b"})->principal, "certificate:spiffe://x/b");
  EXPECT_EQ(Ask("Bearer reader", Right::kRead)->principal, "token:3d0941964aa3ebdc");
}

TEST_F(AuthenticatorTest, ACredentialEndsWhenItExpires) {
  Write("- {tenant: a, rights: [read], certificate: x, expires: 2020-06-01T00:00:00Z}");
  ASSERT_TRUE(authenticator_->Reload().ok());
  absl::Time end;
  ASSERT_TRUE(absl::ParseTime(absl::RFC3339_full, "2020-06-01T00:00:00Z", &end, nullptr));
  now_ = end - absl::Nanoseconds(1);
  EXPECT_EQ(Ask("", Right::kRead, {"x"})->tenant, "a");
  now_ = end;
  ExpectUnauthenticated(Ask("", Right::kRead, {"x"}));
}

TEST_F(AuthenticatorTest, WhoIsLimitedIsNoWorker) {
  for (const auto& [limit, refused] : {std::pair("", false), std::pair("untrusted: true, ", true),
                                       std::pair("roles: [user], ", true)}) {
    Write(std::string("- {tenant: a, rights: [worker, read], ") + limit + "certificate: x}");
    ASSERT_TRUE(authenticator_->Reload().ok());
    const auto result = Ask("", Right::kWorker, {"x"});
    if (refused) {
      ExpectRefused(result, absl::StatusCode::kPermissionDenied, "WORKER_NOT_GRANTED");
    } else {
      EXPECT_TRUE(result.ok()) << result.status();
    }
    EXPECT_TRUE(Ask("", Right::kRead, {"x"}).ok());
  }
}

TEST_F(AuthenticatorTest, ARightThatIsMissingIsNamed) {
  for (const auto& [token, right, name] : {std::tuple("Bearer reader", Right::kWrite, "write"),
                                           std::tuple("Bearer writer", Right::kRead, "read"),
                                           std::tuple("Bearer writer", Right::kAdmin, "admin")}) {
    const auto result = Ask(token, right);
    ExpectRefused(result, absl::StatusCode::kPermissionDenied, "RIGHT_MISSING");
    EXPECT_EQ(ErrorDetails(result.status()), (ErrorValues{{"right", name}}));
  }
}

TEST_F(AuthenticatorTest, ACertificateNamesItsTenant) {
  EXPECT_EQ(Ask("", Right::kRead, {"nobody", "spiffe://x/b"})->tenant, "b");
  ExpectUnauthenticated(Ask("", Right::kRead, {"spiffe://x/bb", "x"}));
  ExpectRefused(Ask("", Right::kWrite, {"spiffe://x/b"}), absl::StatusCode::kPermissionDenied,
                "RIGHT_MISSING");
}

TEST_F(AuthenticatorTest, ASubjectBindsWhateverElseIsPresented) {
  Write(R"([
    {tenant: a, rights: [read, write, admin, worker], certificate: all.example.org},
    {tenant: a, rights: [read], subject: ada, certificate: ada.example.org},
    {tenant: a, rights: [read], subject: bob, certificate: bob.example.org}])");
  ASSERT_TRUE(authenticator_->Reload().ok());
  EXPECT_EQ(Ask("", Right::kRead, {"all.example.org"})->subject, "");
  EXPECT_EQ(Ask("", Right::kRead, {"ada.example.org"})->subject, "ada");
  EXPECT_EQ(Ask("", Right::kRead, {"ada.example.org", "all.example.org"})->subject, "ada");
  EXPECT_EQ(Ask("", Right::kRead, {"all.example.org", "ada.example.org"})->subject, "ada");
  ExpectRefused(Ask("", Right::kRead, {"ada.example.org", "bob.example.org"}),
                absl::StatusCode::kPermissionDenied, "CREDENTIALS_DISAGREE");
  ExpectRefused(Ask("", Right::kRead, {"bob.example.org", "all.example.org", "ada.example.org"}),
                absl::StatusCode::kPermissionDenied, "CREDENTIALS_DISAGREE");
}

TEST_F(AuthenticatorTest, WhatReachesATenantIsRefusedToACallerOfOneSubject) {
  Caller caller;
  EXPECT_TRUE(CheckReach(caller, Reach::kTenant).ok());
  caller.subject = "ada";
  for (const Reach reach : {Reach::kSession, Reach::kSubject, Reach::kServer}) {
    EXPECT_TRUE(CheckReach(caller, reach).ok());
  }
  const absl::Status refused = CheckReach(caller, Reach::kTenant);
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(ErrorReason(refused), "SUBJECT_NOT_GRANTED");
}

TEST_F(AuthenticatorTest, CredentialsOfDifferentTenantsAreRefused) {
  ExpectRefused(Ask("Bearer reader", Right::kRead, {"spiffe://x/b"}),
                absl::StatusCode::kPermissionDenied, "CREDENTIALS_DISAGREE");
  ExpectRefused(Ask("", Right::kRead, {"spiffe://x/b", "agent.example.org"}),
                absl::StatusCode::kPermissionDenied, "CREDENTIALS_DISAGREE");
}

TEST_F(AuthenticatorTest, CredentialsOfOneTenantAddUp) {
  EXPECT_EQ(Ask("Bearer reader", Right::kRead, {"agent.example.org"})->tenant, "a");
  EXPECT_EQ(Ask("Bearer reader", Right::kWrite, {"agent.example.org"})->tenant, "a");
  EXPECT_EQ(Ask("Bearer reader", Right::kRead, {"unknown"})->tenant, "a");
}

TEST_F(AuthenticatorTest, ABadTokenIsRefusedBesideAGoodCertificate) {
  ExpectUnauthenticated(Ask("Bearer wrong", Right::kRead, {"spiffe://x/b"}));
  ExpectUnauthenticated(Ask("Bearer wrong", Right::kWrite, {"agent.example.org"}));
}

TEST_F(AuthenticatorTest, ABadFileLeavesTheOldOneInForce) {
  for (const auto& [content, mode] :
       {std::pair("", 0600), std::pair("- x", 0600), std::pair(kFile, 0604)}) {
    Write(content, static_cast<mode_t>(mode));
    const absl::Status status = authenticator_->Reload();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("credentials: " + path_));
    EXPECT_EQ(Ask("Bearer reader", Right::kRead)->tenant, "a");
  }
  std::filesystem::remove(path_);
  EXPECT_FALSE(authenticator_->Reload().ok());
  EXPECT_EQ(Ask("Bearer reader", Right::kRead)->tenant, "a");
  Write("[]");
  EXPECT_TRUE(authenticator_->Reload().ok());
  ExpectUnauthenticated(Ask("Bearer reader", Right::kRead));
}

TEST_F(AuthenticatorTest, AFileThatEverybodyMayReadOrWriteIsRefused) {
  for (const mode_t mode : {0604U, 0602U, 0666U, 0644U}) {
    Write(kFile, mode);
    EXPECT_THAT(std::string(authenticator_->Reload().message()), HasSubstr("chmod"));
  }
  for (const mode_t mode : {0400U, 0440U, 0640U, 0660U}) {
    Write(kFile, mode);
    EXPECT_TRUE(authenticator_->Reload().ok());
  }
}

}  // namespace
}  // namespace memoryd
