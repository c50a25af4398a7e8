// @ts-check
import { translations } from "../i18n.js";

export const t = translations({
  en: {
    keys: "Arrow keys choose, Enter opens, Shift with arrows moves, plus and minus zoom, 0 shows all.",
    help: "Drag to move, Ctrl + wheel to zoom; arrow keys choose a task, 0 shows all.",
    inGroups: "Too many tasks to draw at once ({count}): {shown} {shown|box stands|boxes stand} for them. Press a group to open it.",
    closer: "Zoom in",
    farther: "Zoom out",
    all: "Show all",
    fold: "Close groups",
  },
  zh: {
    keys: "方向键选择，回车打开，Shift 加方向键移动，加减号缩放，0 显示全部。",
    help: "拖动可移动，Ctrl + 滚轮可缩放；方向键选择任务，0 显示全部。",
    inGroups: "共 {count} 个任务，无法一次画出：以 {shown} 个方框表示。点按分组可展开。",
    closer: "放大",
    farther: "缩小",
    all: "显示全部",
    fold: "收起分组",
  },
});
