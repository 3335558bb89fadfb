// For a binary that carries its libraries: openssl.cnf of the machine is meant for the machine's
// OpenSSL, and may ask for what this one has not, or for modules that bring the other one along.
// Only the file that OPENSSL_CONF names is read.
#include <openssl/crypto.h>

#include <cstdlib>

namespace {

// At the start, since the first use of OpenSSL would read it.
[[maybe_unused]] const bool kReadsNamedFileAlone =
    std::getenv("OPENSSL_CONF") != nullptr ||
    OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr) == 1;

}  // namespace
