// @ts-check
// What holds more, as folders: a name that leads there, and how much it holds.
import { h, said } from "../lib/dom.js";
import { counted } from "../lib/format.js";
import { link } from "../lib/router.js";

/** @param {{path: string[], name: string, holds: string}[]} folders with where each leads */
export function folderList(folders) {
  return h(
    "ul.folders",
    null,
    folders.map(({ path, name, holds }) =>
      h(
        "li",
        null,
        h("a.folder", { href: link(path) }, said(name), " ", h("span.faint", null, holds)),
      ),
    ),
  );
}

/** Namespaces by their whole paths. @param {any[]} namespaces of ListNamespaces */
export function namespaceFolders(namespaces) {
  return folderList(
    namespaces.map((one) => ({
      path: ["items", ...one.namespace],
      name: one.namespace.join(" / "),
      holds: counted(one.itemCount, "item"),
    })),
  );
}
