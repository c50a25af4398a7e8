// @ts-check
// Why a task has not started, or what it says itself.
import { t } from "./messages.js";

const DONE = new Set(["succeeded", "skipped"]);
const NAMED = 3;

/** @param {string[]} names */
export function list(names) {
  const first = names.slice(0, NAMED).join(", ");
  return names.length > NAMED ? t("andMore", { names: first, count: names.length - NAMED }) : first;
}

/**
 * @param {import("../run.js").RunTask} task
 * @param {import("../run.js").Run} run
 * @param {import("../run.js").Upstream} upstream
 * @param {Map<string, string>} states of all tasks, by name
 */
export function why(task, run, upstream, states) {
  const open = (upstream.get(task.name) ?? []).filter((name) => !DONE.has(states.get(name) ?? ""));
  if (task.state === "upstream_failed" && open.length) return t("notRun", { names: list(open) });
  if (task.state === "not_run" && run.state !== "stopped") {
    const failed = run.tasks.filter(({ state }) => state === "failed").map(({ name }) => name);
    if (failed.length) return t("notRunAfter", { names: list(failed) });
  }
  if (task.reason || task.state !== "waiting" || task.jobID) return task.reason;
  if (run.state === "waiting" || run.state === "blocked") return t("waitsRun");
  return open.length ? t("waitsFor", { names: list(open) }) : t("waitsPlace");
}
