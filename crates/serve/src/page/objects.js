// The objects of an informer: a table over a view of the server, filtered and sorted there.

import { count, counted, debounce, el, fill, since, text, chip, button } from "./dom.js";
import { filterInput } from "./informer.js";
import { Pages } from "./pages.js";
import { go, href, openObject, replace, withParameters } from "./router.js";
import { Table } from "./table.js";

const COLUMNS = {
  namespace: { label: "Namespace", width: "minmax(90px, 1fr)", className: "namespace" },
  name: { label: "Name", width: "minmax(150px, 3fr)", className: "name" },
  status: { label: "Status", width: "minmax(86px, 1fr)", className: "status" },
  created: { label: "Age", width: "72px", className: "created" },
  resourceVersion: { label: "Version", width: "minmax(132px, 0.8fr)", className: "resourceVersion" },
};

/** The color of a status: by the words that Kubernetes uses for phases and reasons. */
export function statusTone(status) {
  if (/^(Running|Ready|Active|Bound|Available|True|Complete)$/i.test(status)) return "ok";
  if (/^(Succeeded|Completed)$/i.test(status)) return "done";
  if (/(Fail|Error|Crash|BackOff|Lost|Evicted|OOM|NotReady|Unknown)/i.test(status)) return "error";
  if (/(Pending|Creating|Terminating|Waiting|Init|Unschedulable|SchedulingDisabled)/i.test(status)) return "warning";
  const parts = /^(\d+)\/(\d+)/.exec(status);
  if (parts) return parts[1] === parts[2] ? "ok" : "warning";
  return "";
}

const RENDER = {
  namespace: (cell, object) => text(cell, object.namespace ?? ""),
  name: (cell, object) => {
    // The namespace before the name is visible on narrow screens, which have no column for it.
    if (cell.children.length !== 2) fill(cell, el("span.prefix"), el("span.own"));
    text(cell.children[0], object.namespace ? `${object.namespace}/` : "");
    text(cell.children[1], object.name);
  },
  status: (cell, object) => {
    const status = object.deleting ? "Terminating" : (object.status ?? "");
    if (cell.children.length !== 1) fill(cell, el("span.status-text"));
    text(cell.children[0], status);
    cell.children[0].dataset.tone = statusTone(status);
  },
  created: (cell, object) => {
    text(cell, since(object.created));
    cell.title = object.created ?? "";
  },
};

function columnsOf(info) {
  const names = info.columns.filter((name) => name !== "namespace" || info.namespaced);
  return names.map((name) => ({
    name,
    label: name,
    width: "minmax(80px, 1fr)",
    render: (cell, object) => text(cell, object[name] ?? ""),
    ...COLUMNS[name],
    ...(RENDER[name] ? { render: RENDER[name] } : {}),
  }));
}

export function mountObjects(content, info, query) {
  if (info.hidden) {
    fill(
      content,
      el(
        "div.panel.blank",
        {},
        el("h2", {}, "The objects of this informer are not shown"),
        el("p", {}, `${counted(info.objects, "object")} of kind ${info.kind} are in the store. Their content may be secret, so this server shows only figures.`),
      ),
    );
    return { close: () => {} };
  }
  let pages = null;
  let shown = null;
  let current = null;
  const setFilter = (filter) => replace(withParameters({ filter }));
  const input = filterInput(query.get("filter") ?? "", "Filter by namespace or name", debounce(120, () => setFilter(input.value.trim())));
  const labels = filterInput(query.get("labels") ?? "", "Label selector, as app=web", debounce(400, () => replace(withParameters({ labels: labels.value.trim() }))));
  labels.classList.add("labels");
  const total = el("output.total", { "aria-live": "polite" });
  const selection = el("span.selection");
  const table = new Table(columnsOf(info), `Objects of ${info.name}`, {
    open: (object) => go(openObject(info.id, object.key)),
    sort: (column) => {
      const now = current.sort;
      const next = now === column ? `-${column}` : now === `-${column}` ? "" : column;
      replace(withParameters({ sort: next }));
    },
  });
  table.element.dataset.total = "";
  fill(
    content,
    el("div.panel.objects", {}, el("div.toolbar", {}, input, labels, selection, total), table.element),
  );

  const changed = () => {
    if (pages.error) {
      table.say(
        el("b", {}, pages.error.code === 0 ? "Not connected" : "These objects could not be read"),
        el("span", {}, pages.error.message),
        button("Try again", () => pages.refresh()),
      );
    } else if (pages.total === 0) {
      table.say(...nothing());
    } else {
      table.say();
    }
    if (pages.total !== null) {
      table.element.dataset.total = String(pages.total);
      const all = isSelected() ? ` of ${count(info.objects)}` : "";
      text(total, `${count(pages.total)}${all} ${info.objects === 1 ? "object" : "objects"}`);
    }
    table.draw();
  };
  const isSelected = () => Boolean(current.filter || current.labelSelector || current.index);
  const nothing = () => {
    if (!isSelected()) return [el("b", {}, info.synced ? "No objects" : "Not synced yet"), el("span", {}, info.synced ? "The store of this informer is empty." : "The store is empty until the first list has succeeded.")];
    const key = explained(current.filter, info);
    return [
      el("b", {}, "No object matches"),
      key ? el("a", { href: openObject(info.id, key, "why") }, `Why is ${key} not here?`) : null,
      button("Clear filters", () => go(href(["informers", info.id]))),
    ];
  };
  const begin = (parameters) => {
    current = {
      filter: parameters.get("filter") ?? "",
      labelSelector: parameters.get("labels") ?? "",
      index: parameters.get("index") ?? "",
      value: parameters.get("index") ? (parameters.get("value") ?? "") : "",
      sort: parameters.get("sort") ?? "",
    };
    if (document.activeElement !== input) input.value = current.filter;
    if (document.activeElement !== labels) labels.value = current.labelSelector;
    fill(
      selection,
      current.index
        ? chip(`${current.index}: ${current.value}`)
        : null,
      current.index ? button("×", () => go(href(["informers", info.id])), { "aria-label": "All values", className: "remove" }) : null,
    );
    const next = new Pages(info, current, changed);
    pages = next;
    // The rows of the selection before remain visible until the first page of this one has arrived.
    next.ready.then(() => {
      if (pages !== next) {
        next.close();
        return;
      }
      shown?.close();
      shown = next;
      table.show(next, current.sort || "key");
    });
  };
  begin(query);
  const ages = setInterval(() => table.draw(), 5000);
  let version = info.resourceVersion;
  let objects = info.objects;

  return {
    filter: input,
    move: (by) => table.move(by),
    first: () => table.selectFirst(),
    last: () => table.selectLast(),
    pageRows: () => table.pageRows(),
    enter: () => table.openSelected(),
    opened: (key) => table.open(key),
    change: () => pages.refresh(),
    state: (tracked) => {
      if (tracked.info.resourceVersion === version && tracked.info.objects === objects && tracked.info.synced === info.synced) return;
      // Bookmarks change the version alone; then the server answers with the same view of the store.
      if (tracked.info.objects !== objects || tracked.info.synced !== info.synced) pages.refresh();
      version = tracked.info.resourceVersion;
      objects = tracked.info.objects;
      info = { ...info, ...tracked.info };
    },
    reload: () => pages.refresh(),
    update: (parameters) => {
      const next = [parameters.get("filter") ?? "", parameters.get("labels") ?? "", parameters.get("sort") ?? ""];
      if (next.join("\n") !== [current.filter, current.labelSelector, current.sort].join("\n")) begin(parameters);
      return true;
    },
    close: () => {
      clearInterval(ages);
      pages.close();
      shown?.close();
      table.close();
    },
  };
}

/** The key that a filter names completely, so that its absence can be explained; otherwise null. */
export function explained(filter, info) {
  const parts = filter.split("/");
  const complete = info.namespaced ? parts.length === 2 : parts.length === 1;
  return complete && parts.every((part) => /^[a-z0-9]([-.:a-z0-9]*[a-z0-9])?$/.test(part)) ? filter : null;
}
