// Requests to the server of this page. All paths are relative, so that the page also works below a prefix.

const TOKEN = "kinformer-token";

/** A failed request, with the server's reason and sentence. */
export class ApiError extends Error {
  constructor(code, reason, message, retryAfter = null) {
    super(message);
    this.code = code;
    this.reason = reason;
    this.retryAfter = retryAfter;
  }
}

/** Called on a 401 with the server's message. Set by the page. */
export const authentication = { required: () => {} };

export function setToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

function headers(more = {}) {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

/** Sends a request and returns the response if its status is a success. */
export async function request(path, { method = "GET", signal, accept = "application/json", more = {} } = {}) {
  let response;
  try {
    response = await fetch(path, { method, signal, headers: headers({ Accept: accept, ...more }), cache: "no-cache" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "Unreachable", "the server does not answer");
  }
  if (response.ok) return response;
  const status = await response.json().catch(() => ({}));
  const message = status.message ?? `${response.status} ${response.statusText}`;
  if (response.status === 401) authentication.required(message);
  throw new ApiError(response.status, status.reason ?? "", message, response.headers.get("Retry-After"));
}

export async function json(path, options) {
  return (await request(path, options)).json();
}

/** The path of an informer, with what selects it among informers of the same name. */
export function informerPath(informer, below = "", parameters = {}) {
  const query = new URLSearchParams();
  if (informer.ambiguous) {
    query.set("cluster", informer.cluster);
    query.set("scope", informer.scope);
  }
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== "" && value !== null && value !== undefined) query.set(name, String(value));
  }
  const search = query.toString();
  return `api/v1/informers/${encodeURIComponent(informer.name)}${below}${search ? `?${search}` : ""}`;
}

/** The path of an object below its informer: each part of the key is one segment. */
export function objectPath(informer, key, below = "", parameters = {}) {
  const segments = key.split("/").map(encodeURIComponent).join("/");
  return informerPath(informer, `/objects/${segments}${below}`, parameters);
}
