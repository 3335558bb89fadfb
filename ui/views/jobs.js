// @ts-check
// The jobs of a session: what runs, what failed and why, and another try.
import { fill, h, said } from "../lib/dom.js";
import { call } from "../lib/api.js";
import { count, counted, dateOf, enumName, number, optionsOf, when } from "../lib/format.js";
import { may, needs } from "../lib/caller.js";
import { changesOf, follow } from "../lib/live.js";
import { link, note } from "../lib/router.js";
import { during, notify } from "../parts/dialog.js";
import { jobsOf, latestOf } from "../parts/gaps.js";
import { empty, failure, loaded } from "../parts/states.js";
import { steps } from "../parts/steps.js";
import { prose } from "../parts/text.js";

const STATES = [
  ["", "All"],
  ["FAILED", "Failed"],
  ["OPEN", "Open"],
  ["DONE", "Done"],
  ["CANCELLED", "Cancelled"],
];

const LOOK_MS = 5_000; // Between two looks at open jobs.
const AMOUNTS = ["Calls", "Tokens sent", "Tokens received"];

/** @param {import("./session.js").TabContext} context */
export function jobsTab({ id, session, place, signal, refresh }) {
  let state = place.query.get("state") ?? "";
  let later = 0;
  signal.addEventListener("abort", () => clearTimeout(later));
  const buttons = h("div.segmented", { role: "group", "aria-label": "State" });
  const list = loaded(async () => {
    const jobs = await jobsOf(id, signal);
    clearTimeout(later);
    // An attempt that fails is no change that is told.
    if (jobs.some((job) => job.state === "JOB_STATE_OPEN"))
      later = window.setTimeout(() => void list.reload(true), LOOK_MS);
    return h("div.stack", null, jobList(jobs, state, id, again), usageByModel(jobs, session));
  }, signal);
  /** After a write, and after what others changed. */
  const again = async () => {
    await Promise.all([list.reload(true), refresh()]);
  };
  void follow(id, String(session.revision ?? "0"), {
    signal,
    changed: async (event) => {
      if (changesOf(event).some((one) => one === "JOBS" || one === "RELOAD")) await again();
    },
    state: () => {},
    gone: (error) => fill(list.node, failure(error)),
  });
  const mark = () =>
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
  function show() {
    mark();
    return list.reload();
  }
  mark();
  return h(
    "div",
    null,
    h(
      "div.toolbar",
      null,
      buttons,
      h("span.spring"),
      h("button", { type: "button", onclick: () => void list.reload() }, "Again"),
    ),
    list.node,
  );
}

/** The newest first. @param {any[]} jobs of `jobsOf` @param {string} state @param {string} id
 * @param {() => Promise<void>} again */
function jobList(jobs, state, id, again) {
  const latest = latestOf(jobs);
  const time = (/** @type {any} */ job) => dateOf(job.createTime)?.getTime() ?? 0;
  const shown = jobs
    .filter((job) => !state || job.state === `JOB_STATE_${state}`)
    .reverse()
    .sort((a, b) => time(b) - time(a));
  if (shown.length === 0) return nothing(state);
  return [
    retryAll(
      jobs.filter((job) => job.state === "JOB_STATE_FAILED" && latest(job) === job),
      id,
      again,
    ),
    !may("write") && h("p.note", null, "Your credential may look and not retry: it lacks the right “write”."),
    steps(shown, 100, (job) => jobNode(job, latest(job), id, again), "job", "div.jobs"),
  ];
}

/** How many jobs it made: none if there is nothing to feed any more. @param {string} sessionId @param {string} jobId */
async function retried(sessionId, jobId) {
  try {
    await call("JobService/RetryJob", { sessionId, jobId });
    return 1;
  } catch (error) {
    if (/** @type {any} */ (error).reason === "JOB_OBSOLETE") return 0;
    throw error;
  }
}

/** @param {any[]} failed @param {string} id @param {() => Promise<void>} again */
function retryAll(failed, id, again) {
  if (failed.length < 2) return null;
  const act = async () => {
    // In the order of their messages: a block is fed in the order in which its jobs are made.
    const order = [...failed].sort((a, b) => number(a.beginPosition) - number(b.beginPosition));
    try {
      let made = 0;
      for (const { jobId } of order) made += await retried(id, jobId);
      notify(`${counted(made, "new job")} made`);
    } finally {
      await again();
    }
  };
  return h(
    "p.actions",
    null,
    h(
      "button",
      {
        type: "button",
        ...needs("write"),
        onclick: (/** @type {any} */ event) => void during(event.currentTarget, act),
      },
      `Retry all ${count(failed.length)} failed`,
    ),
  );
}

/** What each model was asked for, by the jobs that are kept. @param {any[]} jobs @param {any} session */
function usageByModel(jobs, session) {
  /** @type {Map<string, {blocks: Set<string>, calls: number, sent: number, received: number}>} */
  const models = new Map();
  for (const { block, usage } of jobs) {
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

/** @param {any} job @param {any} latest the job with the same messages that was made last @param {string} id
 * @param {() => Promise<void>} again */
function jobNode(job, latest, id, again) {
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
  const isRetried = latest !== job;
  return h(
    `article.card.job.is-${state}`,
    null,
    h(
      "header",
      null,
      isRetried && h("span.badge", null, "retried"),
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
    isRetried && h("p.faint", null, `Retried: the latest job is ${enumName(latest.state, "JOB_STATE_")}`),
    (state === "failed" || state === "cancelled") &&
      !isRetried &&
      h("p.row-actions", null, act("RetryJob", "Retry", "A new job feeds the same messages.")),
    state === "open" &&
      h(
        "p.row-actions",
        null,
        act("CancelJob", "Give up", "Given up. The block goes on without these messages."),
      ),
  );
}
