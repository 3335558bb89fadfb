// @ts-check
// What models were asked for the tenant, beside what they may be.
import { h } from "../lib/dom.js";
import { call } from "../lib/api.js";
import { count, counted, number, when } from "../lib/format.js";
import { bar } from "../parts/bar.js";
import { loaded } from "../parts/states.js";

/** @param {import("../lib/router.js").Place} _place @param {AbortSignal} signal */
export function usageView(_place, signal) {
  const shown = loaded(async () => {
    const reply = await call("JobService/GetUsage", {}, { signal });
    return h(
      "div.stack",
      null,
      since("Today, since midnight UTC", reply.today ?? {}, reply),
      since("Since the server started", reply.usage ?? {}, null),
      h(
        "p.faint",
        null,
        "Counted by this server, since ",
        when(reply.startTime),
        ". A session’s own usage, on all servers, stands in its header.",
      ),
    );
  }, signal);
  return {
    title: "Usage",
    node: h("section", null, h("h1", { tabindex: "-1" }, "Usage of models"), shown.node),
  };
}

/** @param {string} title @param {any} usage @param {any} limits */
function since(title, usage, limits) {
  const tokens = number(usage.promptTokens) + number(usage.completionTokens);
  const most = number(limits?.tokensPerDay);
  const calls = number(limits?.callsPerDay);
  return h(
    "div.card",
    null,
    h("h2", null, title),
    h("p.big", null, h("b", null, count(tokens)), most ? ` of ${count(most)} tokens` : " tokens"),
    bar(
      [
        { name: "sent", value: number(usage.promptTokens) },
        { name: "received", value: number(usage.completionTokens) },
      ],
      most || tokens,
      title,
      "tokens",
    ),
    h(
      "p",
      null,
      counted(usage.calls, "call"),
      calls ? ` of ${count(calls)}` : "",
      number(usage.calls) > 0 && tokens === 0 && ", which reported no tokens",
      limits && !most && !calls && h("span.faint", null, " · no daily limit is set"),
    ),
  );
}
