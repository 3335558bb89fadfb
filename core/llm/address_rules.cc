#include "core/llm/address_rules.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/status/status.h"

namespace memoryd {
namespace {

constexpr int kMappedBits = 96;

enum class Reach { kPublic, kPrivate, kForbidden };

bool Matches(const IpAddress& address, const IpAddress& network, int prefix) {
  const auto whole = static_cast<std::size_t>(prefix / 8);
  if (!std::equal(address.begin(), address.begin() + static_cast<std::ptrdiff_t>(whole),
                  network.begin())) {
    return false;
  }
  const int rest = prefix % 8;
  if (rest == 0) return true;
  const auto mask = static_cast<std::uint8_t>(0xFFU << (8 - rest));
  return (address[whole] & mask) == (network[whole] & mask);
}

IpAddress Mapped(const void* four) {
  IpAddress address{};
  address[10] = 0xFF;
  address[11] = 0xFF;
  std::memcpy(&address[12], four, 4);
  return address;
}

std::optional<IpAddress> Parse(const std::string& text, bool& is_four) {
  in_addr four{};
  in6_addr six{};
  is_four = inet_pton(AF_INET, text.c_str(), &four) == 1;
  if (is_four) return Mapped(&four);
  if (inet_pton(AF_INET6, text.c_str(), &six) != 1) return std::nullopt;
  IpAddress address;
  std::memcpy(address.data(), &six, address.size());
  return address;
}

// Of RFC 6890's registries, and of the clouds' documentation.
struct Known {
  const char* address;
  int prefix;  // Of the address as written.
  Reach reach;
};

// The first that matches decides.
constexpr Known kKnown[] = {
    // What answers any process for its machine's owner.
    {"169.254.0.0", 16, Reach::kForbidden},
    {"100.100.100.200", 32, Reach::kForbidden},
    {"168.63.129.16", 32, Reach::kForbidden},
    {"fd00:ec2::", 32, Reach::kForbidden},
    {"fe80::", 10, Reach::kForbidden},
    // Nobody in particular.
    {"0.0.0.0", 8, Reach::kForbidden},
    {"192.0.0.0", 24, Reach::kForbidden},
    {"192.0.2.0", 24, Reach::kForbidden},
    {"198.51.100.0", 24, Reach::kForbidden},
    {"203.0.113.0", 24, Reach::kForbidden},
    {"224.0.0.0", 3, Reach::kForbidden},
    {"2001:db8::", 32, Reach::kForbidden},
    {"ff00::", 8, Reach::kForbidden},
    {"127.0.0.0", 8, Reach::kPrivate},
    {"10.0.0.0", 8, Reach::kPrivate},
    {"172.16.0.0", 12, Reach::kPrivate},
    {"192.168.0.0", 16, Reach::kPrivate},
    {"100.64.0.0", 10, Reach::kPrivate},
    {"198.18.0.0", 15, Reach::kPrivate},
    {"::1", 128, Reach::kPrivate},
    {"fc00::", 7, Reach::kPrivate},
    {"::ffff:0:0", 96, Reach::kPublic},
    // All that is assigned; the rest of IPv6 is reserved.
    {"2000::", 3, Reach::kPublic},
};

Reach ReachOf(const IpAddress& address) {
  for (const Known& known : kKnown) {
    bool is_four = false;
    const auto network = Parse(known.address, is_four);
    if (Matches(address, *network, known.prefix + (is_four ? kMappedBits : 0))) return known.reach;
  }
  return Reach::kForbidden;
}

// The IPv4 address that an address of a translator or tunnel leads to.
std::optional<IpAddress> Inner(const IpAddress& address) {
  constexpr IpAddress kNat64 = {0, 0x64, 0xFF, 0x9B};
  constexpr IpAddress k6to4 = {0x20, 0x02};
  if (Matches(address, kNat64, 96)) return Mapped(&address[12]);
  if (Matches(address, k6to4, 16)) return Mapped(&address[2]);
  return std::nullopt;
}

}  // namespace

AddressRules AddressRules::WithPrivate() {
  AddressRules rules;
  rules.allow_private_ = true;
  return rules;
}

absl::Status AddressRules::Allow(std::string_view network) {
  const std::size_t slash = std::min(network.find('/'), network.size());
  bool is_four = false;
  const auto address = Parse(std::string(network.substr(0, slash)), is_four);
  const int longest = is_four ? 32 : 128;
  int prefix = longest;
  bool valid = address.has_value();
  if (slash < network.size()) {
    const std::string_view digits = network.substr(slash + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), prefix);
    valid = valid && error == std::errc() && end == digits.data() + digits.size();
  }
  if (!valid || prefix < 0 || prefix > longest) {
    return absl::InvalidArgumentError("must be an IP address, or one with a prefix: 10.0.0.0/8");
  }
  networks_.push_back({*address, prefix + (is_four ? kMappedBits : 0)});
  return absl::OkStatus();
}

bool AddressRules::Allows(const IpAddress& address) const {
  for (const Network& network : networks_) {
    if (Matches(address, network.address, network.prefix)) return true;
  }
  if (const auto inner = Inner(address); inner.has_value()) return Allows(*inner);
  const Reach reach = ReachOf(address);
  return reach == Reach::kPublic || (reach == Reach::kPrivate && allow_private_);
}

bool AddressRules::Allows(const sockaddr& address) const {
  if (address.sa_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, &address, sizeof four);
    return Allows(Mapped(&four.sin_addr));
  }
  if (address.sa_family == AF_INET6) {
    sockaddr_in6 six{};
    std::memcpy(&six, &address, sizeof six);
    IpAddress bytes;
    std::memcpy(bytes.data(), &six.sin6_addr, bytes.size());
    return Allows(bytes);
  }
  return false;
}

bool AddressRules::Allows(const std::string& address) const {
  bool is_four = false;
  // Without the zone of a link-local address.
  const auto parsed = Parse(address.substr(0, address.find('%')), is_four);
  return parsed.has_value() && Allows(*parsed);
}

}  // namespace memoryd
