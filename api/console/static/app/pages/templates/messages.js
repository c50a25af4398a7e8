// @ts-check
import { translations } from "../../i18n.js";

export const t = translations({
  en: {
    templates: "Templates",
    taskName: "Name of the task",
    noArguments: "This template has no arguments.",
    task: "The task, for a flow's document",
    copy: "Copy",
    copied: "Copied",
    required: "required",
    range: "in [{range})",
    regex: "like {regex}",
  },
  zh: {
    templates: "模板",
    taskName: "任务名称",
    noArguments: "此模板没有参数。",
    task: "任务，可放入流程文档",
    copy: "复制",
    copied: "已复制",
    required: "必填",
    range: "范围 [{range})",
    regex: "匹配 {regex}",
  },
});
