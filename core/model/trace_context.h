// Whose trace a call belongs to, as W3C Trace Context (level 1) says it.
#ifndef MEMORYD_CORE_MODEL_TRACE_CONTEXT_H_
#define MEMORYD_CORE_MODEL_TRACE_CONTEXT_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace memoryd {

// What a valid `traceparent` says: lower-case hexadecimal digits, views into it.
struct Traceparent {
  std::string_view trace_id;   // 32 of them.
  std::string_view parent_id;  // 16: the caller's span.
  bool sampled = false;        // The one flag that has a meaning.
};

// None for what is malformed, which is to be ignored. A later version may say more behind it.
std::optional<Traceparent> ParseTraceparent(std::string_view text);

// A call that came with a valid `traceparent`, as what is called on its behalf is told of it.
struct TraceContext {
  std::string traceparent;  // With the call's own span as the parent.
  std::string tracestate;   // The caller's; empty for none.
  // The caller's span, of which the call's own is a child.
  std::string parent_id = {};

  std::string_view trace_id() const { return std::string_view(traceparent).substr(3, 32); }
  std::string_view span_id() const { return std::string_view(traceparent).substr(36, 16); }
};

// Null for a call without one, which is most.
using TracePtr = std::shared_ptr<const TraceContext>;

// A context with a new span. A `tracestate` that is not well-formed is left out. Any thread.
TracePtr MakeTrace(const Traceparent& caller, std::string_view tracestate);

}  // namespace memoryd

#endif  // MEMORYD_CORE_MODEL_TRACE_CONTEXT_H_
