#include "core/llm/address_rules.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "absl/status/status.h"

namespace memoryd {
namespace {

constexpr const char* kPublic[] = {"1.1.1.1",        "8.8.8.8",         "9.255.255.255",
                                   "11.0.0.0",       "172.15.255.255",  "172.32.0.0",
                                   "192.167.1.1",    "223.255.255.255", "2606:4700::1111",
                                   "::ffff:8.8.8.8", "2002:808:808::",  "64:ff9b::8.8.8.8"};
constexpr const char* kPrivate[] = {"127.0.0.1",     "127.9.9.9",        "10.0.0.1",
                                    "172.16.0.1",    "172.31.255.255",   "192.168.0.1",
                                    "100.64.0.1",    "198.18.0.1",       "::1",
                                    "fd12::1",       "::ffff:127.0.0.1", "::ffff:10.1.2.3",
                                    "2002:7f00:1::", "64:ff9b::10.0.0.1"};
// Metadata of clouds, link-local, nobody, documentation, multicast, reserved.
constexpr const char* kForbidden[] = {"169.254.169.254",
                                      "169.254.0.1",
                                      "::ffff:169.254.169.254",
                                      "64:ff9b::169.254.169.254",
                                      "2002:a9fe:a9fe::",
                                      "fd00:ec2::254",
                                      "100.100.100.200",
                                      "168.63.129.16",
                                      "fe80::1",
                                      "fe80::1%eth0",
                                      "0.0.0.0",
                                      "0.1.2.3",
                                      "::",
                                      "::2",
                                      "192.0.2.1",
                                      "224.0.0.1",
                                      "240.0.0.1",
                                      "255.255.255.255",
                                      "ff02::1",
                                      "2001:db8::1",
                                      "4000::1"};

TEST(AddressRulesTest, PublicAddressesAreAllowed) {
  for (const char* address : kPublic) EXPECT_TRUE(AddressRules().Allows(address)) << address;
}

TEST(AddressRulesTest, OthersAreNot) {
  for (const char* address : kPrivate) EXPECT_FALSE(AddressRules().Allows(address)) << address;
  for (const char* address : kForbidden) EXPECT_FALSE(AddressRules().Allows(address)) << address;
}

TEST(AddressRulesTest, PrivateIsNotWhatAnswersForTheMachinesOwner) {
  const AddressRules rules = AddressRules::WithPrivate();
  EXPECT_FALSE(rules.IsPublicOnly());
  for (const char* address : kPublic) EXPECT_TRUE(rules.Allows(address)) << address;
  for (const char* address : kPrivate) EXPECT_TRUE(rules.Allows(address)) << address;
  for (const char* address : kForbidden) EXPECT_FALSE(rules.Allows(address)) << address;
}

TEST(AddressRulesTest, WhatIsListedIsAllowed) {
  AddressRules rules;
  EXPECT_TRUE(rules.IsPublicOnly());
  ASSERT_TRUE(rules.Allow("10.32.0.0/11").ok());
  ASSERT_TRUE(rules.Allow("169.254.7.7").ok());
  ASSERT_TRUE(rules.Allow("fd12:3400::/24").ok());
  EXPECT_FALSE(rules.IsPublicOnly());
  for (const char* address : {"10.32.0.0", "10.63.255.255", "::ffff:10.33.0.1", "169.254.7.7",
                              "fd12:34ff::1", "8.8.8.8"}) {
    EXPECT_TRUE(rules.Allows(address)) << address;
  }
  for (const char* address : {"10.31.255.255", "10.64.0.0", "169.254.7.8", "fd12:3500::1", "::1"}) {
    EXPECT_FALSE(rules.Allows(address)) << address;
  }
  ASSERT_TRUE(rules.Allow("0.0.0.0/0").ok());
  EXPECT_TRUE(rules.Allows("127.0.0.1"));
  EXPECT_FALSE(rules.Allows("::1"));
  ASSERT_TRUE(rules.Allow("::/0").ok());
  EXPECT_TRUE(rules.Allows("::1"));
}

TEST(AddressRulesTest, OnlyAddressesAndNetworksAreTaken) {
  for (const char* network : {"", "localhost", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "10/8",
                              "::/129", "10.0.0.0/8x", "/8", "1.2.3.4/ 8"}) {
    AddressRules rules;
    EXPECT_TRUE(absl::IsInvalidArgument(rules.Allow(network))) << network;
    EXPECT_TRUE(rules.IsPublicOnly());
  }
}

TEST(AddressRulesTest, SocketsAddressesAreReadByTheirFamily) {
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(0x7F000001);
  const auto& generic = reinterpret_cast<const sockaddr&>(four);
  EXPECT_FALSE(AddressRules().Allows(generic));
  EXPECT_TRUE(AddressRules::WithPrivate().Allows(generic));
  sockaddr_un unix_socket{};
  unix_socket.sun_family = AF_UNIX;
  EXPECT_FALSE(AddressRules::WithPrivate().Allows(reinterpret_cast<const sockaddr&>(unix_socket)));
  EXPECT_FALSE(AddressRules::WithPrivate().Allows("/run/socket"));
}

}  // namespace
}  // namespace memoryd
