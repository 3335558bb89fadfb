// Why a Get returned what it returned, for people.
#ifndef MEMORYD_CLI_EXPLANATION_LINES_H_
#define MEMORYD_CLI_EXPLANATION_LINES_H_

#include <string>

#include "memoryd/v1/memory_service.pb.h"

namespace memoryd::cli {

// The limits, then a table of the blocks and one of the messages that were left out, each only
// where there are any. `width` and `colour` as of Table. Escaped.
std::string ExplanationLines(const v1::ContextExplanation& explanation, int width, bool colour);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_EXPLANATION_LINES_H_
