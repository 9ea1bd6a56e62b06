// Views by the hash of the URL, so that each can be linked and the back button works.
//
//   #/                                    all informers
//   #/informers/ID?filter=&sort=&...      the objects of an informer
//   #/informers/ID/indexes                its indexes
//   #/informers/ID/indexes/INDEX?filter=  the values of an index
//   #/informers/ID/health                 its sources, handlers and counters
//   #/controllers                         the controllers of the program
//   #/controllers/NAME                    one of them
//   #/ring                                the processes that share the objects
//   #/events?informer=&filter=            the tail of changes
//
// On every view, `open=ID|KEY` and `tab=` show one object beside it.

/** The current route: the segments of the path, and the parameters. */
export function route() {
  const hash = location.hash.replace(/^#\/?/, "");
  const [path, search = ""] = hash.split("?", 2);
  return {
    path: path.split("/").filter(Boolean).map(decode),
    query: new URLSearchParams(search),
  };
}

function decode(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** The link to a route. Empty parameters are left out. */
export function href(path, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== "" && value !== null && value !== undefined) query.set(name, String(value));
  }
  const search = query.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}

/** The current route with other parameters. */
export function withParameters(parameters) {
  const { path, query } = route();
  return href(path, { ...Object.fromEntries(query), ...parameters });
}

/** Goes to a link, with an entry in the history. */
export function go(link) {
  location.hash = link;
}

/** Goes to a link in place of the current entry, as for each letter of a filter. */
export function replace(link) {
  history.replaceState(null, "", link);
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}

/** The link that shows an object beside the current view. */
export function openObject(id, key, tab = "") {
  return withParameters({ open: `${id}|${key}`, tab });
}

/** The link that closes the object. */
export function closeObject() {
  return withParameters({ open: "", tab: "" });
}

/** The object that the route shows beside the view, or null. */
export function openedObject() {
  const { query } = route();
  const open = query.get("open");
  const bar = open?.indexOf("|") ?? -1;
  return bar < 0 ? null : { id: open.slice(0, bar), key: open.slice(bar + 1), tab: query.get("tab") ?? "" };
}
