// Takes out of a chat model's answer what it thought aloud, and what its chat template left there.
#ifndef MEMORYD_CORE_BLOCKS_REASONING_H_
#define MEMORYD_CORE_BLOCKS_REASONING_H_

#include <string>
#include <string_view>

namespace memoryd {

// `text` without what a model thought aloud. That stands
// - between `<think>` and `</think>`, or the other names and brackets that models use for it, with
//   or without attributes, in any case of letters;
// - behind an opening tag that is never closed, where the tag begins a line, a sentence or an
//   element;
// - before a closing tag that was never opened, since chat templates open it themselves;
// - in every channel but `final` of an answer in OpenAI's Harmony format.
// Tags are text, and stay, within a code fence or inline code, in quotes, in a line that begins
// with `>`, in an attribute and in `<message>` elements. A fence around all of `text` is no code:
// its content is read as an answer.
std::string WithoutReasoning(std::string_view text);

// `text`, stripped, without the markers that a chat template puts around a turn and what follows
// the end of the turn.
std::string WithoutTurnMarkers(std::string_view text);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_REASONING_H_
