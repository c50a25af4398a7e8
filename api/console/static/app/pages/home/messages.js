// @ts-check
import { translations } from "../../i18n.js";

export const t = translations({
  en: {
    title: "Home",
    problems: "Problems of the service",
    wrong: "{count} to look into",
    well: "Nothing is wrong.",
    waiting: "Waiting for a decision",
    nothingWaits: "No job waits for a decision.",
    all: "All",
    lastJobs: "Last jobs",
    myJobs: "My last jobs",
    noJobs: "No job was submitted yet.",
    lastRuns: "Last runs of flows",
    noRuns: "No flow has run yet.",
  },
  zh: {
    title: "首页",
    problems: "服务的问题",
    wrong: "有 {count} 个问题需要处理",
    well: "一切正常。",
    waiting: "等待决定",
    nothingWaits: "没有等待决定的作业。",
    all: "全部",
    lastJobs: "最近的作业",
    myJobs: "我最近的作业",
    noJobs: "还没有提交过作业。",
    lastRuns: "最近的流程运行",
    noRuns: "还没有运行过流程。",
  },
});
