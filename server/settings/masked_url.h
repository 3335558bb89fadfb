// URLs of settings as they may be shown.
#ifndef MEMORYD_SERVER_SETTINGS_MASKED_URL_H_
#define MEMORYD_SERVER_SETTINGS_MASKED_URL_H_

#include <string>
#include <string_view>

namespace memoryd {

// `url` of a store with *** in place of every password, however it is written: between user and
// host, and as the value of any parameter but those of libpq that are known to hold none. An URL
// that is not well formed shows too little rather than too much.
std::string MaskedStore(std::string_view url);

// `url` with *** in place of each parameter's value.
std::string MaskedEndpoint(std::string_view url);

// `text`, such as an error about the command line, up to where an URL or a password may begin.
std::string MaskedText(std::string_view text);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_SETTINGS_MASKED_URL_H_
