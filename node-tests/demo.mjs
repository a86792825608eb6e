// A chat answer in Pyodide, word by word: the demo of `xtask/py/demo.py` under Node.
//
//   node demo.mjs --modules DIR --release pyodide-314 --wheels DIR --wheels DIR --checkpoint DIR [the demo's own flags]
import path from "node:path";

import { boot, flags, text } from "./boot.mjs";

const OWN = ["modules", "release", "wheels", "checkpoint"];
const words = process.argv.slice(2);
const given = flags(words.filter((word) => word !== "--sample"));
const passed = Object.entries(given)
  .filter(([name]) => !OWN.includes(name) && name !== "rest")
  .map(([name, value]) => `--${name}=${value}`);
if (words.includes("--sample")) passed.push("--sample");

const start = performance.now();
const note = (what) => console.error(`» ${what}, ${((performance.now() - start) / 1000).toFixed(1)} s`);
const py = await boot({
  modules: given.modules,
  release: given.release ?? "pyodide-314",
  wheels: [given.wheels].flat(),
  mounts: { "/checkpoint": given.checkpoint, "/demo": path.join(import.meta.dirname, "../xtask/py") },
});
note(`Pyodide ${py.version}`);
for (const name of ["torchnative", "transformers"]) {
  await py.runPythonAsync(`import micropip\nawait micropip.install(${JSON.stringify(name)})`);
  note(`installed ${name}`);
}
// Python's own buffering is the only one: what it flushes is seen at once.
const through = (stream) => ({ write: (bytes) => (stream.write(Buffer.from(bytes)), bytes.length) });
py.setStdout(through(process.stdout));
py.setStderr(through(process.stderr));
py.globals.set("words", py.toPy(["/checkpoint", ...passed]));
try {
  await py.runPythonAsync(`import sys; sys.path.insert(0, "/demo")\nimport demo\ndemo.main(words)`);
} catch (error) {
  console.error(text(error));
  process.exit(1);
}
note(`heap ${Math.round(py._module.HEAPU8.length / 1048576)} MiB`);
process.exit(0);
