// @ts-check
// The jobs of a session: what runs, what failed and why, and another try.
import { fill, h, said } from "../lib/dom.js";
import { call } from "../lib/api.js";
import { count, enumName, number, when } from "../lib/format.js";
import { may, needs } from "../lib/caller.js";
import { link, note } from "../lib/router.js";
import { during, notify } from "../parts/dialog.js";
import { empty, failure, loading } from "../parts/states.js";
import { prose } from "../parts/text.js";

const STATES = [
  ["", "All"],
  ["FAILED", "Failed"],
  ["OPEN", "Open"],
  ["DONE", "Done"],
  ["CANCELLED", "Cancelled"],
];

/** @param {import("./session.js").TabContext} context */
export function jobsTab({ id, place, signal }) {
  let state = place.query.get("state") ?? "";
  const list = h("div");
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
      h("button", { type: "button", onclick: () => void show() }, "Again"),
    ),
    list,
  );
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
      job.usage &&
        ` · ${count(job.usage.calls)} model calls, ${count(number(job.usage.promptTokens) + number(job.usage.completionTokens))} tokens`,
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
