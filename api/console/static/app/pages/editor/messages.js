// @ts-check
import { translations } from "../../i18n.js";

export const t = translations({
  en: {
    edit: "Edit",
    editTitle: "Edit {name}",
    newFlow: "New flow",
    save: "Save",
    create: "Create",
    revert: "Undo all",
    document: "The flow as JSON",
    errors: "What is wrong",
    line: "line {line}",
    graph: "Graph",
    wrong: "Errors: {count}",
    valid: "It can be saved",
    checking: "Checking",
  },
  zh: {
    edit: "编辑",
    editTitle: "编辑 {name}",
    newFlow: "新建流程",
    save: "保存",
    create: "创建",
    revert: "全部撤销",
    document: "流程的 JSON",
    errors: "错误",
    line: "第 {line} 行",
    graph: "图",
    wrong: "错误：{count}",
    valid: "可以保存",
    checking: "检查中",
  },
});
