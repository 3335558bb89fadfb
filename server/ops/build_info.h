// What this build is.
#ifndef MEMORYD_SERVER_OPS_BUILD_INFO_H_
#define MEMORYD_SERVER_OPS_BUILD_INFO_H_

namespace memoryd {

// Such as "0.1.0".
const char* Version();

// The commit that it was built of, as the build was told or git said; "unknown" where neither did.
const char* Revision();

}  // namespace memoryd

#endif  // MEMORYD_SERVER_OPS_BUILD_INFO_H_
