#include "server/system_certificates.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <cstdlib>

namespace memoryd {
namespace {

constexpr std::array kNone = {"/nowhere/certs"};
constexpr std::array kOne = {"/nowhere/bundle.pem", "/proc/self/exe", "/proc/self/maps"};

class SystemCertificatesTest : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("SSL_CERT_FILE");
    unsetenv("SSL_CERT_DIR");
  }
  void TearDown() override { SetUp(); }
};

TEST_F(SystemCertificatesTest, TakesTheFirstFileThatIsThere) {
  UseSystemCertificates(kNone, kOne);
  EXPECT_STREQ(std::getenv("SSL_CERT_FILE"), "/proc/self/exe");
}

TEST_F(SystemCertificatesTest, LeavesWhatIsSet) {
  setenv("SSL_CERT_FILE", "mine.pem", 1);
  UseSystemCertificates(kNone, kOne);
  EXPECT_STREQ(std::getenv("SSL_CERT_FILE"), "mine.pem");
  unsetenv("SSL_CERT_FILE");
  setenv("SSL_CERT_DIR", "mine", 1);
  UseSystemCertificates(kNone, kOne);
  EXPECT_EQ(std::getenv("SSL_CERT_FILE"), nullptr);
}

TEST_F(SystemCertificatesTest, LeavesWhatOpenSslFindsItself) {
  UseSystemCertificates(std::array{"/nowhere/certs", "/proc/self"}, kOne);
  EXPECT_EQ(std::getenv("SSL_CERT_FILE"), nullptr);
}

TEST_F(SystemCertificatesTest, SetsNothingWhereThereIsNone) {
  UseSystemCertificates(kNone, kNone);
  EXPECT_EQ(std::getenv("SSL_CERT_FILE"), nullptr);
}

}  // namespace
}  // namespace memoryd
