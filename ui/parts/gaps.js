// @ts-check
// What a block does not know because its jobs failed, were given up, or have yet to run.
import { h } from "../lib/dom.js";
import { call, callAll } from "../lib/api.js";
import { counted, enumName, number } from "../lib/format.js";
import { link } from "../lib/router.js";

/** The jobs that the server still has, in the order in which they were made within their blocks.
 * @param {string} id @param {AbortSignal} signal @returns {Promise<any[]>} */
export async function jobsOf(id, signal) {
  const reply = await callAll("JobService/ListJobs", { sessionId: id, pageSize: 1000 }, "jobs", { signal });
  return reply.entries;
}

/** For each of `jobs`, the latest job with the same messages. A retry is a job of its own.
 * @param {any[]} jobs of `jobsOf` @returns {(job: any) => any} */
export function latestOf(jobs) {
  const key = (/** @type {any} */ job) => JSON.stringify([job.block, job.beginPosition, job.endPosition]);
  const latest = new Map(jobs.map((job) => [key(job), job]));
  return (job) => latest.get(key(job)) ?? job;
}

const MARK_AFTER_MS = 300; // Who still types a search asks for nothing.
const MARKED_AT_ONCE = 4;

/** How many jobs of a session failed and were not retried. @param {any} session @param {AbortSignal} signal */
export async function failuresOf(session, signal) {
  const { blocks = [], retrieval } = session.config ?? {};
  if (blocks.length === 0 && !retrieval?.embedder) return 0;
  const first = { sessionId: session.sessionId, state: "JOB_STATE_FAILED", pageSize: 1 };
  const { jobs: found = [] } = await call("JobService/ListJobs", first, { signal });
  if (found.length === 0) return 0;
  const jobs = await jobsOf(session.sessionId, signal);
  const latest = latestOf(jobs);
  return jobs.filter((job) => job.state === "JOB_STATE_FAILED" && latest(job) === job).length;
}

/** @param {string} id @param {number} failures */
export function failureBadge(id, failures) {
  if (failures === 0) return null;
  return h(
    "a.badge.bad",
    { href: link(["session", id, "jobs"], { state: "FAILED" }) },
    `${counted(failures, "job")} failed`,
  );
}

/** Marks those of the sessions that have failed jobs; `rows` are their rows of a table.
 * @param {any[]} sessions @param {HTMLElement[]} rows @param {AbortSignal} signal */
export async function markFailures(sessions, rows, signal) {
  await new Promise((resolve) => setTimeout(resolve, MARK_AFTER_MS));
  let at = 0;
  const some = async () => {
    while (at < sessions.length && !signal.aborted) {
      const mine = at++;
      try {
        const failures = await failuresOf(sessions[mine], signal);
        rows[mine].querySelector("th")?.append(" ", failureBadge(sessions[mine].sessionId, failures) ?? "");
      } catch {
        return; // A session's own page says what can't be read.
      }
    }
  };
  await Promise.all(Array.from({ length: MARKED_AT_ONCE }, some));
}

/** Lines on what is missing in a block; empty if nothing is. @param {any[]} jobs of `jobsOf`
 * @param {string} id @param {string} block @param {boolean} [isReplaced] its vectors are being made anew
 * @returns {{isError: boolean, text: import("../lib/dom.js").Child}[]} */
export function gaps(jobs, id, block, isReplaced = false) {
  const own = jobs.filter((job) => job.block === block);
  const latest = latestOf(own);
  const missing = own.filter((job) => latest(job) === job);
  /** @type {[string, string, string, string][]} */
  const kinds = [
    ["failed", "failed", "failed", "not in here"],
    ["cancelled", "was given up", "were given up", "not in here"],
    ["open", "is open", "are open", "not in here yet"],
  ];
  return kinds.flatMap(([state, one, many, where]) => {
    const found = missing.filter((job) => enumName(job.state, "JOB_STATE_") === state);
    if (found.length === 0) return [];
    // Jobs that make vectors anew count entries, not messages.
    const which = isReplaced ? "" : `: ${rangesText(found)} ${where}`;
    const text = [
      `${counted(found.length, "job")} ${found.length === 1 ? one : many}${which}. `,
      h("a", { href: link(["session", id, "jobs"], { state: state.toUpperCase() }) }, "Jobs"),
    ];
    return [{ isError: state !== "open", text }];
  });
}

const MOST_RANGES = 4;

/** "messages #1 to #25 and #30 are". @param {any[]} jobs */
function rangesText(jobs) {
  /** @type {[number, number][]} */
  const ranges = [];
  const all = jobs.map((job) => [number(job.beginPosition), number(job.endPosition) - 1]);
  for (const [first, last] of all.sort((a, b) => a[0] - b[0])) {
    const before = ranges.at(-1);
    if (before && first <= before[1] + 1) before[1] = Math.max(before[1], last);
    else ranges.push([first, last]);
  }
  const names = ranges
    .slice(0, MOST_RANGES)
    .map(([first, last]) => (last > first ? `#${first} to #${last}` : `#${first}`));
  if (ranges.length > MOST_RANGES) names.push("others");
  const text = names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names[0];
  return ranges.length === 1 && ranges[0][0] >= ranges[0][1] ? `message ${text} is` : `messages ${text} are`;
}
