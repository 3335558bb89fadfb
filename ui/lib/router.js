// @ts-check
// Places within the page: the part of the address behind `#`, so that each can be linked.

/** @typedef {{path: string[], query: URLSearchParams}} Place */

/** @param {string} hash @returns {Place} */
export function placeOf(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  return { path: path.split("/").filter(Boolean).map(decodedName), query: new URLSearchParams(query) };
}

/** @param {string} name */
function decodedName(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/**
 * The address of a place: `link(["session", id, "facts"], {block: "facts"})`.
 * @param {string[]} path @param {Record<string, string | number | undefined>} [query]
 */
export function link(path, query = {}) {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const search = new URLSearchParams(pairs.map(([key, value]) => [key, String(value)])).toString();
  return "#/" + path.map(encodeURIComponent).join("/") + (search ? `?${search}` : "");
}

/** @param {string} address made by `link` @param {boolean} [replace] without a step of the history */
export function go(address, replace = false) {
  if (replace) {
    history.replaceState(null, "", address);
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    location.hash = address;
  }
}

/** Notes in the address what is shown, without showing anything new. @param {string} address */
export function note(address) {
  history.replaceState(null, "", address);
}
