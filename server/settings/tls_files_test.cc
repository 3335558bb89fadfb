#include "server/settings/tls_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace memoryd {
namespace {

using ::testing::HasSubstr;

struct Pair {
  std::string certificate;
  std::string key;
  std::string encrypted_key;
};

std::string Written(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<std::size_t>(size));
  BIO_free(bio);
  return text;
}

// A self-signed certificate and its key.
Pair MakePair() {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = X509_new();
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
  ASN1_TIME_set_string_X509(X509_getm_notAfter(certificate), "20400101000000Z");
  X509_set_pubkey(certificate, key);
  X509_sign(certificate, key, EVP_sha256());
  Pair pair;
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, certificate);
  pair.certificate = Written(bio);
  bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  pair.key = Written(bio);
  bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key, EVP_aes_128_cbc(), nullptr, 0, nullptr,
                           const_cast<char*>("secret"));
  pair.encrypted_key = Written(bio);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return pair;
}

class TlsFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "memoryd-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    Write("cert", pair_.certificate);
    Write("key", pair_.key);
    Write("ca", other_.certificate);
    files_ = std::make_unique<TlsFiles>(Path("cert"), Path("key"), Path("ca"));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  void Write(const std::string& name, const std::string& text, mode_t mode = 0600) {
    std::ofstream(Path(name)) << text;
    ASSERT_EQ(chmod(Path(name).c_str(), mode), 0);
  }

  // Expects that a reload names `setting` and its file, and changes nothing.
  void ExpectRefused(const std::string& setting, const std::string& file, const std::string& word) {
    const auto before = files_->material();
    const absl::Status status = files_->Reload();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(setting + ": " + Path(file)));
    EXPECT_THAT(std::string(status.message()), HasSubstr(word));
    EXPECT_EQ(files_->material(), before);
  }

  const Pair pair_ = MakePair();
  const Pair other_ = MakePair();
  std::filesystem::path folder_;
  std::unique_ptr<TlsFiles> files_;
};

TEST_F(TlsFilesTest, WhatBelongsTogetherIsTakenOver) {
  EXPECT_EQ(files_->material(), nullptr);
  ASSERT_TRUE(files_->Reload().ok());
  EXPECT_EQ(files_->material()->certificates, pair_.certificate);
  EXPECT_EQ(files_->material()->key, pair_.key);
  EXPECT_EQ(files_->material()->client_ca, other_.certificate);
  EXPECT_EQ(files_->material()->version, 1);
  EXPECT_EQ(files_->material()->expires_s, 2'208'988'800);
  EXPECT_TRUE(files_->asks_for_client_certificates());
  EXPECT_FALSE(TlsFiles(Path("cert"), Path("key"), "").asks_for_client_certificates());
}

TEST_F(TlsFilesTest, AHalfReplacedPairWaitsForItsOtherHalf) {
  ASSERT_TRUE(files_->Reload().ok());
  Write("cert", other_.certificate);
  ExpectRefused("tls_key", "key", "is not the key of the certificate");
  Write("key", other_.key);
  ASSERT_TRUE(files_->Reload().ok());
  EXPECT_EQ(files_->material()->key, other_.key);
  EXPECT_EQ(files_->material()->version, 2);
}

TEST_F(TlsFilesTest, FilesThatAreNoPemAreNamed) {
  ASSERT_TRUE(files_->Reload().ok());
  for (const char* bad :
       {"", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}) {
    Write("ca", bad);
    ExpectRefused("tls_client_ca", "ca", "PEM");
    Write("key", bad);
    ExpectRefused("tls_key", "key", "PEM");
    Write("cert", bad);
    ExpectRefused("tls_cert", "cert", "PEM");
    Write("cert", pair_.certificate);
    Write("key", pair_.key);
  }
}

TEST_F(TlsFilesTest, AnEncryptedKeyIsRefusedWithoutAsking) {
  Write("key", pair_.encrypted_key);
  ExpectRefused("tls_key", "key", "without a passphrase");
}

TEST_F(TlsFilesTest, AKeyThatEverybodyMayReadIsRefused) {
  Write("key", pair_.key, 0644);
  ExpectRefused("tls_key", "key", "chmod");
  Write("key", pair_.key, 0640);
  Write("cert", pair_.certificate, 0644);
  EXPECT_TRUE(files_->Reload().ok());
}

TEST_F(TlsFilesTest, AMissingFileIsNamed) {
  ASSERT_TRUE(files_->Reload().ok());
  for (const auto& [setting, file] : {std::pair("tls_client_ca", "ca"), std::pair("tls_key", "key"),
                                      std::pair("tls_cert", "cert")}) {
    std::filesystem::remove(Path(file));
    ExpectRefused(setting, file, "No such file");
  }
  std::filesystem::create_directory(Path("cert"));
  ExpectRefused("tls_cert", "cert", "regular file");
}

}  // namespace
}  // namespace memoryd
