// Which encodings and types a request accepts.
#ifndef MEMORYD_SERVER_HTTP_ACCEPTED_H_
#define MEMORYD_SERVER_HTTP_ACCEPTED_H_

#include <string_view>

namespace memoryd {

// Whether a list of encodings, or of types, names `wanted`, but not with a weight of 0.
bool Accepts(std::string_view accepted, std::string_view wanted);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP_ACCEPTED_H_
