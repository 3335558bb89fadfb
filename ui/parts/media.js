// @ts-check
// Images, sounds, videos and documents. What could run, as SVG and HTML, is shown as its text; nothing is
// fetched from an address.
import { h, said } from "../lib/dom.js";
import { bytes, decoded } from "../lib/format.js";
import { binary, facts, saveButton } from "./text.js";

// Kinds that a browser only draws or plays.
const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"];
const SOUNDS = ["audio/mpeg", "audio/mp4", "audio/ogg", "audio/wav", "audio/webm", "audio/flac"];
const VIDEOS = ["video/mp4", "video/webm", "video/ogg"];

/** @type {[string, number[]][]} */
const SIGNATURES = [
  ["image/png", [0x89, 0x50, 0x4e, 0x47]],
  ["image/jpeg", [0xff, 0xd8, 0xff]],
  ["image/gif", [0x47, 0x49, 0x46, 0x38]],
  ["image/webp", [0x52, 0x49, 0x46, 0x46]],
];

/** The kind that the bytes themselves name; a caller may have said none, or another.
 * @param {Uint8Array} data @param {string} said */
function kindOf(data, said) {
  const found = SIGNATURES.find(([, start]) => start.every((byte, at) => data[at] === byte));
  return found && !said.startsWith("audio/") && !said.startsWith("video/") ? found[0] : said;
}

/** @param {any} media a Media @param {string} kind "image", "audio", "video" or "document"
 * @param {AbortSignal} signal ends the life of what is shown */
export function media(media, kind, signal) {
  const data = media.data ? decoded(media.data) : null;
  const type = kindOf(
    data ?? new Uint8Array(),
    String(media.mimeType ?? "")
      .toLowerCase()
      .split(";")[0]
      .trim(),
  );
  const name =
    String(media.title || media.path || `${kind}.${type.split("/")[1] ?? "bin"}`)
      .split(/[\\/]/)
      .pop() ?? kind;
  const caption = h(
    "figcaption",
    null,
    media.title ? said(media.title) : kind,
    type && [" · ", said(type, "code")],
    data && ` · ${bytes(data.length)} `,
    data && saveButton(data, name),
  );
  return h(
    "figure.media",
    null,
    data && shown(data, type, media, kind, signal),
    caption,
    facts([
      ["Address, not fetched", media.url && said(media.url, "code")],
      ["Path at the caller’s", media.path && said(media.path, "code")],
      ["Format", media.format && said(media.format)],
      ["Detail", media.detail && said(media.detail)],
    ]),
  );
}

/** @param {Uint8Array} data @param {string} type @param {any} media @param {string} kind @param {AbortSignal} signal */
function shown(data, type, media, kind, signal) {
  const isImage = IMAGES.includes(type);
  if (!isImage && !SOUNDS.includes(type) && !VIDEOS.includes(type)) return binary(data, `${kind}.bin`);
  const url = URL.createObjectURL(new Blob([/** @type {any} */ (data)], { type }));
  signal.addEventListener("abort", () => URL.revokeObjectURL(url), { once: true });
  if (isImage) {
    const image = h("img", {
      alt: media.title || "An image of the conversation",
      loading: "lazy",
      decoding: "async",
    });
    image.addEventListener("error", () =>
      image.replaceWith(h("p.note", null, "The bytes are no image that can be shown.")),
    );
    image.src = url;
    return image;
  }
  const player = h(SOUNDS.includes(type) ? "audio" : "video", {
    controls: true,
    preload: "none",
    "aria-label": media.title || `${kind} of the conversation`,
  });
  player.src = url;
  return player;
}
