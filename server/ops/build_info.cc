#include "server/ops/build_info.h"

#if !defined(MEMORYD_VERSION) || !defined(MEMORYD_REVISION)
#error "MEMORYD_VERSION and MEMORYD_REVISION come from the build"
#endif

namespace memoryd {

const char* Version() { return MEMORYD_VERSION; }
const char* Revision() { return MEMORYD_REVISION; }

}  // namespace memoryd
