#include "server/listener_credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpcpp/version_info.h>

#include <atomic>
#include <string_view>
#include <utility>
#include <vector>

namespace memoryd {
namespace {

constexpr std::string_view kReflectionPath = "/grpc.reflection.";

std::string_view View(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice)};
}

// Appends the values of a property that hold a colon, or those that don't.
void AppendNames(const grpc_auth_context* context, const char* property, bool with_colon,
                 std::vector<std::string_view>& names) {
  grpc_auth_property_iterator iterator =
      grpc_auth_context_find_properties_by_name(context, property);
  while (const grpc_auth_property* found = grpc_auth_property_iterator_next(&iterator)) {
    const std::string_view value(found->value, found->value_length);
    if ((value.find(':') != std::string_view::npos) == with_colon) names.push_back(value);
  }
}

// See Proof::certificate_names. The colon keeps the kinds apart, so that nobody who may choose his
// common name can pass for a URI.
std::vector<std::string_view> CertificateNames(const grpc_auth_context* context) {
  std::vector<std::string_view> names;
  if (context == nullptr || grpc_auth_context_peer_is_authenticated(context) == 0) return names;
  AppendNames(context, GRPC_PEER_URI_PROPERTY_NAME, /*with_colon=*/true, names);
  AppendNames(context, GRPC_PEER_DNS_PROPERTY_NAME, /*with_colon=*/false, names);
  if (names.empty()) AppendNames(context, GRPC_X509_CN_PROPERTY_NAME, /*with_colon=*/false, names);
  return names;
}

// Ends reflection calls of those without the admin right, before the service sees them. gRPC's
// reflection service itself asks nobody.
void GuardReflection(void* state, grpc_auth_context* context, const grpc_metadata* metadata,
                     std::size_t count, grpc_process_auth_metadata_done_cb done, void* user_data) {
  bool is_reflection = false;
  Proof proof;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view key = View(metadata[i].key);
    if (key == ":path") {
      is_reflection = View(metadata[i].value).starts_with(kReflectionPath);
    } else if (key == "authorization") {
      ++proof.authorizations;
      proof.authorization = View(metadata[i].value);
    }
  }
  absl::Status status;
  if (is_reflection) {
    proof.certificate_names = CertificateNames(context);
    const auto& authenticator = *static_cast<const Authenticator*>(state);
    const absl::StatusOr<Caller> caller = authenticator.Authenticate(proof);
    status = caller.ok() ? CheckRight(*caller, Right::kAdmin) : caller.status();
  }
  done(user_data, nullptr, 0, nullptr, 0, static_cast<grpc_status_code>(status.code()),
       status.ok() ? nullptr : std::string(status.message()).c_str());
}

// What one listener's handshakes ask for its certificate. gRPC keeps what it was given last per
// listener, so each remembers which version that was.
struct Handshakes {
  explicit Handshakes(const TlsFiles* files) : tls(files) {}

  const TlsFiles* const tls;
  std::atomic<std::int64_t> given{0};
};

grpc_ssl_certificate_config_reload_status FetchCertificate(
    void* state, grpc_ssl_server_certificate_config** config) {
  auto& handshakes = *static_cast<Handshakes*>(state);
  const std::shared_ptr<const TlsMaterial> material = handshakes.tls->material();
  if (material == nullptr) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_FAIL;
  if (handshakes.given.exchange(material->version) == material->version) {
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  }
  const grpc_ssl_pem_key_cert_pair pair = {material->key.c_str(), material->certificates.c_str()};
  // gRPC 1.51 insists on roots even where it asks for no client certificate; then any will do.
  const std::string& roots =
      material->client_ca.empty() ? material->certificates : material->client_ca;
  *config = grpc_ssl_server_certificate_config_create(roots.c_str(), &pair, 1);
  return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

grpc_server_credentials* TlsCredentials(Handshakes* handshakes) {
  return grpc_ssl_server_credentials_create_with_options(
      grpc_ssl_server_credentials_create_options_using_config_fetcher(
          handshakes->tls->asks_for_client_certificates()
              ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
              : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
          &FetchCertificate, handshakes));
}

// A listener's credentials of gRPC's C interface, with the state they need.
class OwnCredentials final : public grpc::ServerCredentials {
 public:
  OwnCredentials(const TlsFiles* tls, const Authenticator* reflection_guard)
      : OwnCredentials(std::make_unique<Handshakes>(tls), reflection_guard) {}

 private:
  // By rvalue reference, so that nothing has moved when the other argument looks into it.
  OwnCredentials(std::unique_ptr<Handshakes>&& handshakes, const Authenticator* reflection_guard)
      : OwnCredentials(handshakes->tls == nullptr ? grpc_insecure_server_credentials_create()
                                                  : TlsCredentials(handshakes.get()),
                       std::move(handshakes), reflection_guard) {}
#if GRPC_CPP_VERSION_MAJOR > 1 || GRPC_CPP_VERSION_MINOR >= 54
  // The base class owns the C object.
  OwnCredentials(grpc_server_credentials* credentials, std::unique_ptr<Handshakes>&& handshakes,
                 const Authenticator* reflection_guard)
      : grpc::ServerCredentials(credentials), handshakes_(std::move(handshakes)) {
    Guard(credentials, reflection_guard);
  }
#else
  OwnCredentials(grpc_server_credentials* credentials, std::unique_ptr<Handshakes>&& handshakes,
                 const Authenticator* reflection_guard)
      : handshakes_(std::move(handshakes)), credentials_(credentials) {
    Guard(credentials, reflection_guard);
  }

 public:
  ~OwnCredentials() override { grpc_server_credentials_release(credentials_); }
  // Ours is set by the constructor.
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }
#endif

  static void Guard(grpc_server_credentials* credentials, const Authenticator* guard) {
    if (guard == nullptr) return;
    grpc_auth_metadata_processor processor;
    processor.process = &GuardReflection;
    processor.destroy = nullptr;
    processor.state = const_cast<Authenticator*>(guard);
    grpc_server_credentials_set_auth_metadata_processor(credentials, processor);
  }

  const std::unique_ptr<Handshakes> handshakes_;
#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR < 54
  grpc_server_credentials* const credentials_;
#endif
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> ListenerCredentials(
    const TlsFiles* tls, const Authenticator* reflection_guard) {
  if (tls == nullptr && reflection_guard == nullptr) return grpc::InsecureServerCredentials();
  return std::make_shared<OwnCredentials>(tls, reflection_guard);
}

absl::StatusOr<Caller> AuthenticateCall(const Authenticator& authenticator,
                                        grpc::CallbackServerContext& context) {
  Proof proof;
  const auto [begin, end] = context.client_metadata().equal_range("authorization");
  for (auto header = begin; header != end; ++header) {
    ++proof.authorizations;
    proof.authorization = {header->second.data(), header->second.size()};
  }
  const std::unique_ptr<grpc_auth_context, decltype(&grpc_auth_context_release)> peer(
      grpc_call_auth_context(context.c_call()), &grpc_auth_context_release);
  proof.certificate_names = CertificateNames(peer.get());
  return authenticator.Authenticate(proof);
}

}  // namespace memoryd
