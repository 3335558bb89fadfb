// The OpenAPI description of the HTTP port, which the build makes of proto/.
#ifndef MEMORYD_SERVER_HTTP_OPENAPI_OPENAPI_H_
#define MEMORYD_SERVER_HTTP_OPENAPI_OPENAPI_H_

#include <string_view>

namespace memoryd {

// JSON, OpenAPI 3.1.
extern const std::string_view kOpenApi;

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP_OPENAPI_OPENAPI_H_
