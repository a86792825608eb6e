// Starts a Pyodide that installs packages from a local index only.
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

import { serve } from "./index.mjs";

/** The npm package of each release. */
export const RELEASES = { "pyodide-314": "pyodide", "pyodide-313": "pyodide-0-29" };

/** What micropip itself is made of. */
const INSTALLER = ["micropip", "packaging"];

/** A lock file that knows no package, so that everything comes from the index. */
function lock(home) {
  const { info } = JSON.parse(fs.readFileSync(path.join(home, "pyodide-lock.json"), "utf8"));
  return JSON.stringify({ info, packages: {} });
}

/** Puts micropip in its place; from there on it installs the rest. */
function unpackInstaller(py, files) {
  const extractDir = py.runPython("import site; site.getsitepackages()[0]");
  for (const name of INSTALLER) {
    const [, where] = [...files].find(([file]) => file.startsWith(`${name}-`)) ?? [];
    if (!where) throw new Error(`no wheel of ${name} among the local ones`);
    py.unpackArchive(new Uint8Array(fs.readFileSync(where)), "wheel", { extractDir });
  }
}

/**
 * Boots the Pyodide of `release` with micropip loaded and pointed at an index of the folders `wheels`.
 * `mounts` maps folders inside to folders of this machine.
 */
export async function boot({ modules, release, wheels, mounts = {}, options = {} }) {
  const home = path.resolve(modules, RELEASES[release]);
  const { loadPyodide } = await import(pathToFileURL(path.join(home, "pyodide.mjs")));
  const index = await serve(wheels);
  const py = await loadPyodide({ lockFileContents: lock(home), ...options });
  unpackInstaller(py, index.files);
  py.globals.set("_index", `${index.address}/simple/{package_name}/`);
  py.runPython("import micropip; micropip.set_index_urls([_index]); del _index");
  for (const [inside, outside] of Object.entries(mounts)) py.mountNodeFS(inside, path.resolve(outside));
  return py;
}

/** Reads `--name value` pairs; a name given twice becomes a list. What is no flag is collected under `rest`. */
export function flags(words) {
  const found = { rest: [] };
  for (let at = 0; at < words.length; at++) {
    const match = /^--([^=]+)(?:=(.*))?$/s.exec(words[at]);
    if (!match) {
      found.rest.push(words[at]);
      continue;
    }
    const name = match[1];
    const value = match[2] ?? words[++at];
    found[name] = name in found ? [found[name], value].flat() : value;
  }
  return found;
}

/** The text of an error, without the source of the minified loader that Node would print with it. */
export function text(error) {
  return String(error?.stack?.includes("pyodide.asm") ? (error.message ?? error) : (error?.stack ?? error)).slice(0, 6000);
}
