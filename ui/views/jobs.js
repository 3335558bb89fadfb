// @ts-check
// The jobs of a session: what runs, what failed and why, and another try.
import { fill, h, said } from "../lib/dom.js";
import { call, callAll } from "../lib/api.js";
import { count, counted, enumName, number, optionsOf, when } from "../lib/format.js";
import { may, needs } from "../lib/caller.js";
import { link, note } from "../lib/router.js";
import { during, notify } from "../parts/dialog.js";
import { empty, failure, loaded, loading } from "../parts/states.js";
import { prose } from "../parts/text.js";

const STATES = [
  ["", "All"],
  ["FAILED", "Failed"],
  ["OPEN", "Open"],
  ["DONE", "Done"],
  ["CANCELLED", "Cancelled"],
];

const AMOUNTS = ["Calls", "Tokens sent", "Tokens received"];

/** @param {import("./session.js").TabContext} context */
export function jobsTab({ id, session, place, signal }) {
  let state = place.query.get("state") ?? "";
  const list = h("div");
  const usage = loaded(() => usageByModel(id, session, signal), signal);
  const buttons = h("div.segmented", { role: "group", "aria-label": "State" });
  const show = async () => {
    fill(
      buttons,
      STATES.map(([key, name]) =>
        h(
          "button",
          {
            type: "button",
            "aria-pressed": String(key === state),
            onclick: () => {
              state = key;
              note(link(["session", id, "jobs"], { state }));
              void show();
            },
          },
          name,
        ),
      ),
    );
    fill(list, loading());
    const rows = h("ul.jobs");
    const more = h("div");
    let pageToken = "";
    const read = async () => {
      const reply = await call(
        "JobService/ListJobs",
        { sessionId: id, pageSize: 100, pageToken, ...(state ? { state: `JOB_STATE_${state}` } : {}) },
        { signal },
      );
      pageToken = reply.nextPageToken ?? "";
      rows.append(...(reply.jobs ?? []).map((/** @type {any} */ job) => jobNode(job, id, show)));
      fill(
        more,
        pageToken &&
          h("p.actions", null, h("button", { type: "button", onclick: () => void attempt() }, "Show more")),
      );
      if (rows.firstChild)
        fill(
          list,
          !may("write") &&
            h("p.note", null, "Your credential may look and not retry: it lacks the right “write”."),
          rows,
          more,
        );
      else fill(list, nothing(state));
    };
    const attempt = async () => {
      try {
        await read();
      } catch (error) {
        if (!signal.aborted)
          fill(
            list,
            failure(error, () => void show()),
          );
      }
    };
    await attempt();
  };
  void show();
  return h(
    "div",
    null,
    h(
      "div.toolbar",
      null,
      buttons,
      h("span.spring"),
      h(
        "button",
        { type: "button", onclick: () => void Promise.all([show(), usage.reload(true)]) },
        "Again",
      ),
    ),
    h("div.stack", null, list, usage.node),
  );
}

/** What each model was asked for, by the jobs that are kept. @param {string} id @param {any} session @param {AbortSignal} signal */
async function usageByModel(id, session, signal) {
  const { entries } = await callAll("JobService/ListJobs", { sessionId: id, pageSize: 1000 }, "jobs", {
    signal,
  });
  /** @type {Map<string, {blocks: Set<string>, calls: number, sent: number, received: number}>} */
  const models = new Map();
  for (const { block, usage } of entries) {
    if (!number(usage?.calls)) continue;
    const model = modelOf(session.config ?? {}, block);
    const sum = models.get(model) ?? { blocks: new Set(), calls: 0, sent: 0, received: 0 };
    sum.blocks.add(block);
    sum.calls += number(usage.calls);
    sum.sent += number(usage.promptTokens);
    sum.received += number(usage.completionTokens);
    models.set(model, sum);
  }
  if (models.size === 0) return null;
  const all = session.usage ?? {};
  const line = (
    /** @type {import("../lib/dom.js").Child} */ name,
    /** @type {import("../lib/dom.js").Child} */ blocks,
    /** @type {any[]} */ ...amounts
  ) =>
    h(
      "tr",
      null,
      h("th", { scope: "row" }, name),
      h("td", { dataset: { label: "For" } }, blocks),
      amounts.map((amount, at) => h("td.amount", { dataset: { label: AMOUNTS[at] } }, count(amount))),
    );
  return h(
    "section",
    null,
    h("h2", null, "Usage by model"),
    h(
      "table.wide.cards",
      null,
      h("caption.hidden", null, "Usage by model"),
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          ["Model", "For"].map((name) => h("th", { scope: "col" }, name)),
          AMOUNTS.map((name) => h("th.amount", { scope: "col" }, name)),
        ),
      ),
      h(
        "tbody",
        null,
        [...models].map(([model, { blocks, calls, sent, received }]) =>
          line(said(model), said([...blocks].join(", ")), calls, sent, received),
        ),
        line(
          "All, since the session began",
          "blocks, Gets and Queries",
          all.calls,
          all.promptTokens,
          all.completionTokens,
        ),
      ),
    ),
    h(
      "p.faint",
      null,
      "By the jobs above, which are kept for a day after their end, and by the model that each block has now.",
    ),
  );
}

/** @param {any} config @param {string} block */
function modelOf(config, block) {
  if (block === ".retrieval") return config.retrieval?.embedder || "an embedder that was replaced";
  const found = (config.blocks ?? []).find((/** @type {any} */ one) => one.name === block);
  if (!found) return "models of removed blocks";
  const options = optionsOf(found);
  const name = options.model || options.embedder || found.kind;
  return found.worker ? `${name} of worker ${found.worker}` : name;
}

/** @param {string} state */
function nothing(state) {
  if (state) return empty(`No job is ${state.toLowerCase()}.`, "Jobs that ended are kept for a day.");
  return empty(
    "No jobs.",
    "A job feeds a block with messages that have left short-term memory. Those that ended are kept for a day.",
  );
}

/** @param {any} job @param {string} id @param {() => Promise<void>} again */
function jobNode(job, id, again) {
  const state = enumName(job.state, "JOB_STATE_");
  const act = (/** @type {string} */ method, /** @type {string} */ name, /** @type {string} */ done) =>
    h(
      "button",
      {
        type: "button",
        ...needs("write"),
        "aria-label": `${name} job ${job.jobId}`,
        onclick: (/** @type {any} */ event) =>
          void during(event.currentTarget, async () => {
            await call(`JobService/${method}`, { sessionId: id, jobId: job.jobId });
            notify(done);
            await again();
          }),
      },
      name,
    );
  const last = number(job.endPosition) - 1;
  return h(
    `li.card.job.is-${state}`,
    null,
    h(
      "header",
      null,
      h(`span.badge${state === "failed" ? ".bad" : state === "done" ? ".good" : ""}`, null, state),
      h("a", { href: link(["session", id, "memory"], { block: job.block }) }, said(job.block)),
      h(
        "span.faint",
        null,
        last > number(job.beginPosition)
          ? `messages #${job.beginPosition} to #${last}`
          : `message #${job.beginPosition}`,
      ),
      h("span.faint", null, when(job.updateTime ?? job.createTime)),
    ),
    job.lastError && h("div.job-error", null, prose(job.lastError)),
    h(
      "p.faint",
      null,
      `${count(job.attempts)} ${number(job.attempts) === 1 ? "attempt" : "attempts"}`,
      state === "open" && job.dueTime && [" · next ", when(job.dueTime)],
      number(job.usage?.calls) > 0 &&
        ` · ${counted(job.usage.calls, "model call")}, ${count(number(job.usage.promptTokens) + number(job.usage.completionTokens))} tokens`,
      " · ",
      h("code", null, said(job.jobId)),
    ),
    (state === "failed" || state === "cancelled") &&
      h("p.row-actions", null, act("RetryJob", "Retry", "A new job feeds the same messages.")),
    state === "open" &&
      h(
        "p.row-actions",
        null,
        act("CancelJob", "Give up", "Given up. The block goes on without these messages."),
      ),
  );
}
