// What is decided of a write by its command alone.
#ifndef MEMORYD_CORE_WRITES_COMMAND_TRAITS_H_
#define MEMORYD_CORE_WRITES_COMMAND_TRAITS_H_

namespace memoryd {

struct CommandTraits {
  // What is read from the store before the write is decided on.
  enum class Finds {
    kNothing,
    kNamed,     // The message or content that it names.
    kEvidence,  // The messages that it rests on, if it names some.
    // Whether a caller who may not write messages of every role would take out one of them.
    kRoles,
  };
  // What it means for the time at which the session goes by itself.
  enum class Renews {
    kNothing,  // Nobody's wish to keep the session.
    kExpiry,
    // Also how old its messages are has to be found out anew.
    kExpiryAndAges,
  };

  // Whether one commit may have it beside others of its session.
  bool shares_commit = false;
  Finds finds = Finds::kNothing;
  // Admitted however much waits: what it does is bounded or paid for already.
  bool is_forced = false;
  // Whether the operator's defaults count: it makes a session where there is none, or gives one a
  // template.
  bool takes_defaults = false;
  // Whether it is a step of a session that is written in pieces (docs/adr/0027).
  bool is_staged = false;
  Renews renews = Renews::kExpiry;
  // Whether it takes out what is due, so that a later due time may replace an earlier one.
  bool is_sweep = false;

  friend bool operator==(const CommandTraits&, const CommandTraits&) = default;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_COMMAND_TRAITS_H_
