// Which addresses a model may be reached at.
#ifndef MEMORYD_CORE_LLM_ADDRESS_RULES_H_
#define MEMORYD_CORE_LLM_ADDRESS_RULES_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

struct sockaddr;

namespace memoryd {

// An IPv6 address; an IPv4 address is kept in its mapped form, ::ffff:a.b.c.d.
using IpAddress = std::array<std::uint8_t, 16>;

// Public addresses are always allowed, others when they are listed. docs/MODELS.md says which
// are private, and which are never meant by `true`.
class AddressRules {
 public:
  // Public addresses alone.
  AddressRules() = default;
  // Loopback and private networks as well, though not what answers for the machine's owner:
  // link-local addresses, among them those of a cloud's metadata.
  static AddressRules WithPrivate();

  // Allows `network` too, whatever it is: an address, or one with a prefix such as 10.0.0.0/8.
  // INVALID_ARGUMENT for anything else.
  absl::Status Allow(std::string_view network);

  bool IsPublicOnly() const { return !allow_private_ && networks_.empty(); }

  bool Allows(const IpAddress& address) const;
  // False too for what is no IP address.
  bool Allows(const sockaddr& address) const;
  bool Allows(const std::string& address) const;

 private:
  struct Network {
    IpAddress address{};
    int prefix = 0;
  };

  bool allow_private_ = false;
  std::vector<Network> networks_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_LLM_ADDRESS_RULES_H_
