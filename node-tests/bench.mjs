// Times in Pyodide under Node, as a table beside upstream's.
//
//   node bench.mjs --modules DIR --release pyodide-314 --wheels DIR --wheels DIR [--checkpoint DIR] [--beside JSON]
//
// JSON is what `python/bench.py` prints when upstream's interpreter runs it.
import path from "node:path";

import { boot, flags, text } from "./boot.mjs";

const given = flags(process.argv.slice(2));
const release = given.release ?? "pyodide-314";
const here = import.meta.dirname;
const mounts = { "/tests": path.join(here, "python"), "/demo": path.join(here, "../xtask/py") };
if (given.checkpoint) mounts["/checkpoint"] = given.checkpoint;
const ours = {};
let start = performance.now();
const lap = (name) => {
  ours[name] = (performance.now() - start) / 1000;
  start = performance.now();
};
try {
  const py = await boot({ modules: given.modules, release, wheels: [given.wheels].flat(), mounts });
  lap("start Pyodide (s)");
  const model = given.checkpoint && release === "pyodide-314";
  for (const name of ["torchnative", ...(model ? ["transformers"] : ["numpy"])]) {
    await py.runPythonAsync(`import micropip\nawait micropip.install(${JSON.stringify(name)})`);
    lap(`install ${name} (s)`);
  }
  py.runPython(`import sys; sys.path += ["/tests", "/demo"]`);
  const measured = await py.runPythonAsync(`import bench\nbench.main(${model ? '"/checkpoint"' : ""})`);
  Object.assign(ours, JSON.parse(measured));
  ours["heap (MiB)"] = py._module.HEAPU8.length / 2 ** 20;
} catch (error) {
  console.error(text(error));
  process.exit(1);
}
const theirs = given.beside ? JSON.parse(given.beside) : {};
const number = (value) => (typeof value === "number" ? Number(value.toPrecision(3)).toString() : "-");
const rows = Object.entries(ours).map(([name, value]) => {
  const ratio = typeof theirs[name] === "number" && value ? number(value / theirs[name]) : "-";
  return [name, number(value), number(theirs[name]), ratio];
});
console.log(`| ${release} under Node, one thread | Pyodide | upstream, native | ratio |\n| --- | --- | --- | --- |`);
for (const row of rows) console.log(`| ${row.join(" | ")} |`);
process.exit(0);
